"""Messages of the commits that build candidates: they start CI, and link nothing."""

import pytest

from queue_engine.config.model import MergeRules, Policy
from queue_engine.domain.facts import MergeMethod
from queue_engine.planner.trains.built import merge_message
from tests.unit.queue_engine.examples import pull

BODY = Policy(merge=MergeRules(title="{title} (#{number})", body="{body}"))


@pytest.mark.parametrize(
    ("title", "written"),
    [
        ("Fix #12 [skip ci]", "Fix 12 skip-ci"),
        ("Fix [No CI]", "Fix No-CI"),
        ("Fix [ci-skip] [actions skip]", "Fix ci-skip actions-skip"),
        ("Fix [skip azurepipelines] [skipRun]", "Fix skip-azurepipelines skipRun"),
        ("Fix ***NO_CI*** --skip-ci", "Fix NO_CI skip-ci"),
        ("Fix for @ada", "Fix for @\u200bada"),
        ("Skip [flaky] tests [skipped]", "Skip [flaky] tests [skipped]"),
    ],
)
def test_message_of_a_merge_does_not_skip_ci(title: str, written: str) -> None:
    """A candidate whose message skips CI would never be tested, with any provider."""
    made = merge_message(pull(title=title, number=4, head_branch="fix"), Policy(), MergeMethod.MERGE)
    assert made == f"Merge pull request 4 from fix\n\n{written}"


def test_message_that_lands_has_the_template_and_any_other_no_number() -> None:
    """Only the commits of a merge land: those of a squash would link each candidate on its issues."""
    given = pull(title="Fix it", body="Closes #7\n\n\nskip-checks: true", number=4)
    assert merge_message(given, BODY, MergeMethod.MERGE) == "Fix it (#4)\n\nCloses #7\n\nskip-checks true"
    assert merge_message(given, BODY, MergeMethod.SQUASH) == "Fix it (4)\n\nCloses 7\n\nskip-checks true"
