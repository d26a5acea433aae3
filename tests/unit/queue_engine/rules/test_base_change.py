"""Which changes of a base need no test."""

import pytest

from queue_engine.config.model import CheckRules, Policy
from queue_engine.rules.checks import need_no_test

POLICY = Policy(checks=CheckRules(untested_paths=("CHANGELOG.md", "docs/**", ".github/**")))


@pytest.mark.parametrize(
    ("paths", "kept"),
    [
        ({"CHANGELOG.md"}, True),
        ({"CHANGELOG.md", "docs/a/b.md"}, True),
        (set(), True),
        ({"CHANGELOG.md", "app.py"}, False),
        ({"changelog.md"}, False),
        ({"x/CHANGELOG.md"}, False),
        ({".github/imq.yml"}, True),
        ({".github/workflows/ci.yml"}, False),
        (None, False),
    ],
)
def test_change_needs_no_test_if_each_path_matches(paths: set[str] | None, kept: bool) -> None:
    """P1: one other file, a workflow, or a list that is not whole: then all is tested again."""
    assert need_no_test(paths, POLICY) is kept


def test_change_always_needs_a_test_where_nothing_is_configured() -> None:
    """As before."""
    assert not need_no_test({"CHANGELOG.md"}, Policy())
