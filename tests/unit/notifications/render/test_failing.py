"""Failing checks of a pull request that waits: each with its link, whatever an App calls it."""

from hypothesis import given

from notifications.render.status import failing_list, failing_sentence
from queue_engine.domain.facts import FailingCheck
from tests.unit.notifications.hostile import NASTY, mentions, skeleton


def test_check_without_further_failed_jobs_is_named_once() -> None:
    """GitHub Actions names the job itself among the failed ones."""
    alone = FailingCheck("build", "https://ci.example/1", ("build",))
    assert failing_sentence([alone]) == " Failing checks: [`build`](https://ci.example/1)."
    assert failing_sentence([]) == ""


def test_many_checks_are_shown_in_part() -> None:
    """A comment has room for ten; the others are counted."""
    [shown] = failing_list(FailingCheck(f"check {number}", None) for number in range(13))
    assert shown.splitlines()[-2:] == ["- `check 9`", "- and 3 more"]


@given(NASTY)
def test_check_names_and_links_are_quoted_as_foreign_text(text: str) -> None:
    """Apps choose the names of their checks, and where they lead."""
    [shown] = failing_list([FailingCheck(text, f"javascript:{text}", (text, "other"))])
    [plain] = failing_list([FailingCheck("a", None, ("a", "other"))])
    assert mentions(shown) == set()
    assert skeleton(shown) == skeleton(plain)
