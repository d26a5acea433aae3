"""The verdict finds everything that may not be, and nothing else."""

from imq_demo.changes import Change
from imq_demo.observe import ObservedPullRequest
from imq_demo.verdict import BaseCommit, Verdict, judge
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason
from tests.unit.demo.examples import CONFLICT, LANDED, RED, comment, landed, left

GOOD = Change("good", "Good", {})
RED_CHANGE = Change("red", "Red", {}, reason=Reason.CHECKS_FAILED)
ONE = Change("one", "One", {}, reason=Reason.CONFLICT, rival="other")
OTHER = Change("other", "Other", {}, reason=Reason.CONFLICT, rival="one")
CHANGES = {1: GOOD, 2: RED_CHANGE, 3: ONE, 4: OTHER}
GREEN = BaseCommit("1" * 40, "Merge pull request #1", green=True)


def verdict(*pulls: ObservedPullRequest, base: tuple[BaseCommit, ...] = (GREEN,)) -> Verdict:
    """The verdict on these pull requests."""
    return judge(base, pulls, CHANGES, branch="main", label="merge-queue")


def test_verdict_all_as_it_should_be_is_zero() -> None:
    """Good ones landed, one of two rivals did, and each other one got a reason: exit code 0."""
    assert verdict(landed(1), left(2, RED), landed(3), left(4)) == Verdict(())
    assert verdict(landed(1), left(2, RED), left(3), landed(4)).exit_code == 0


def test_verdict_red_commit_in_history_is_one() -> None:
    """A base that was red even once ends the demo with exit code 1, whatever came after."""
    red = BaseCommit("2" * 40, "Merge pull request #9", green=False)
    found = verdict(landed(1), base=(red, GREEN))
    assert found.exit_code == 1
    assert found.problems == ("main was red at 2222222 (Merge pull request #9)",)


def test_verdict_promise_broken_is_named() -> None:
    """Each broken promise is a sentence of its own, and exit code 1."""
    for pulls, problem in [
        ((landed(1, comments=(LANDED, LANDED)),), "#1 (Change 1) has 2 comments of IMQ instead of one"),
        ((landed(1, comments=()),), "#1 (Change 1) has 0 comments of IMQ instead of one"),
        ((left(1),), "#1 (Change 1) is good, and did not land"),
        ((landed(2),), "#2 (Change 2) landed, and must not"),
        ((landed(3), landed(4)), "#4 (Change 4) landed, and so did the change that conflicts with it"),
        ((left(3), left(4)), "#3 (Change 3) did not land, nor did the change that conflicts with it"),
        ((landed(1, comments=(CONFLICT,)),), "#1 (Change 1) has a comment with another outcome"),
        ((left(2, LANDED),), "#2 (Change 2) has a comment with another outcome"),
        ((left(2, RED, labeled=True),), "#2 (Change 2) is not finished"),
        ((left(2, comment(NoticeKind.CHECKING)),), "#2 (Change 2) is not finished"),
        ((left(2, comment(NoticeKind.FAILED)),), "#2 (Change 2) did not land, and its comment does not say why"),
        ((left(2, CONFLICT),), "#2 (Change 2) was rejected for conflict instead of checks_failed"),
    ]:
        found = verdict(*pulls)
        assert found.exit_code == 1, (pulls, problem)
        assert any(reported.startswith(problem) for reported in found.problems), found.problems
