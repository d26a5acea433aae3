"""How many checks have reported is counted from what is known of an entry."""

from typing import Any

import pytest

from queue_engine.core.observability.progress import ProgressStatus
from queue_engine.domain.facts import CheckState
from queue_engine.rules.check_progress import progress, tally
from queue_engine.rules.checks import judge
from tests.store.examples import changed
from tests.unit.queue_engine.examples import CHECKING, MINUTE, NOW, READY, UPDATING, entry, report, rules
from tests.unit.queue_engine.planner.paths import Walk
from tests.unit.queue_engine.planner.scripted_github import GitHub

WAITING = entry(status=CHECKING, pending_checks=("a", "b", "c"))


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({}, (0, 3)),
        ({"completed_checks": ("b",)}, (1, 3)),
        ({"pending_checks": ("c",), "completed_checks": ("a", "b")}, (2, 3)),
        ({"pending_checks": ("c",), "completed_checks": ("a", "b", "c")}, (3, 3)),
        ({"pending_checks": ()}, None),
        ({"status": UPDATING, "pending_checks": ()}, None),
    ],
)
def test_tally_counts_what_has_ended_of_what_is_awaited(changes: dict[str, Any], counted: tuple[int, int]) -> None:
    """Checks count that the last poll found completed, and those that webhooks have reported since."""
    assert tally(changed(WAITING, **changes)) == counted


def test_progress_is_sent_only_when_the_count_has_changed() -> None:
    """A save that changes something else sends no event."""
    assert progress(WAITING, changed(WAITING, next_poll_at=NOW)) is None
    event = progress(WAITING, changed(WAITING, completed_checks=("a",)))
    assert event is not None
    assert (event.correlation_id, event.done, event.total, event.status) == (
        WAITING.id,
        1,
        3,
        ProgressStatus.IN_PROGRESS,
    )
    assert event.message == "1 of 3 checks have reported"


def test_progress_of_the_last_report_completes_by_webhook_or_poll() -> None:
    """The webhook or the poll that finds all checks passed sends the event; the next poll sends none."""
    all_reported = changed(WAITING, completed_checks=("a", "b", "c"))
    green = changed(WAITING, status=READY, pending_checks=())
    for before, after in ((WAITING, all_reported), (WAITING, green)):
        event = progress(before, after)
        assert event is not None
        assert (event.done, event.total, event.status) == (3, 3, ProgressStatus.COMPLETED)
    assert progress(all_reported, green) is None


def test_verdict_names_what_has_ended_and_is_not_awaited_again() -> None:
    """A check of one name that passed for one App and runs for another is still awaited."""
    reports = [report("a"), report("b"), report("b", CheckState.PENDING, app_id=11), report("other")]
    verdict = judge(rules("a", "b", "c").required_checks, reports)
    assert (verdict.pending_names, verdict.completed_names) == (("b", "c"), ("a",))


def test_walk_keeps_the_count_over_a_poll() -> None:
    """Three are pending from the beginning to the end, however often GitHub is asked meanwhile."""
    walk = Walk(GitHub(rules=rules("a", "b", "c")))
    walk.github.reports["head-1"] = (report("a"),)
    walk.go()
    assert tally(walk.entry) == (1, 3)
    walk.change_entry(completed_checks=(*walk.entry.run.completed_checks, "b"))
    assert tally(walk.entry) == (2, 3)
    walk.github.reports["head-1"] = (report("a"), report("b"), report("c", CheckState.PENDING))
    walk.go_at(walk.due + MINUTE)
    assert tally(walk.entry) == (2, 3)
