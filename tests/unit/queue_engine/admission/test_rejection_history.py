from datetime import timedelta

import pytest

from queue_engine.admission.rejection import RejectionHistory, rejection_history
from queue_engine.domain.model import TimelineEvent
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store
from tests.unit.queue_engine.examples import HOUR, NOW, REPOSITORY, SECOND


def allows(times: int, after: timedelta, *, head: str = "h", by_machine: bool = False) -> bool:
    return RejectionHistory("h", NOW, times).allows_retry(head, by_machine=by_machine, now=NOW + after)


def test_machine_may_never_queue_a_head_again_that_was_rejected() -> None:
    """However long ago: only a new head, or a person, is news."""
    assert not allows(1, timedelta(days=9), by_machine=True)
    assert allows(5, 0 * SECOND, head="h2", by_machine=True)


@pytest.mark.parametrize(
    ("times", "after", "allowed"),
    [
        (1, 0 * SECOND, True),
        (4, 0 * SECOND, True),
        (5, 29 * SECOND, False),
        (5, 30 * SECOND, True),
        (6, 59 * SECOND, False),
        (6, 60 * SECOND, True),
        (20, HOUR - SECOND, False),
        (20, HOUR, True),
    ],
)
def test_person_may_queue_one_head_again_ever_less_often(times: int, after: timedelta, allowed: bool) -> None:
    """The first tries are free; who asks like a machine is treated ever more like one, and never shut out for good."""
    assert allows(times, after) is allowed


def test_loop_under_a_persons_account_comes_to_almost_nothing() -> None:
    """A label set again every 50 seconds for an hour is judged a few times, not 72."""
    now, known, judged = NOW, RejectionHistory("h", NOW, 1), 0
    for _ in range(72):
        now += 50 * SECOND
        if known.allows_retry("h", by_machine=False, now=now):
            known, judged = RejectionHistory("h", now, known.times + 1), judged + 1
    assert judged <= 12


def test_refusal_of_a_person_is_no_fault_of_the_head() -> None:
    """A sender who may not queue is not judged again as a machine; another is, unless the change was rejected too."""
    known = RejectionHistory("h", NOW, 0, ("tria", "tria", "tria", "tria", "tria"))
    allowed = [known.allows_retry("h", by=by, by_machine=True, now=NOW) for by in ("Tria", "robot[bot]")]
    assert allowed == [False, True]
    assert [known.allows_retry("h", by=by, by_machine=False, now=NOW) for by in ("Tria", "mona")] == [False, True]
    assert not RejectionHistory("h", NOW, 1, ("tria",)).allows_retry("h", by="robot[bot]", by_machine=True, now=NOW)


async def test_rejection_history_counts_how_often_this_head_was(store: Store) -> None:
    """Refusals and failures of other heads, and what is no refusal, do not count."""
    async with store.transaction() as tx:
        await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        for event, reason, head in (
            ("refused", Reason.CONFLICT, "old"),
            ("queued", None, "h"),
            ("failed", Reason.CHECKS_FAILED, "h"),
            ("refused", Reason.CONFLICT, "h"),
            ("refused", Reason.LABEL_WITHOUT_RIGHT, "h"),
            ("refused", Reason.ASKED_TOO_OFTEN, None),
        ):
            data = {"head": head, "by": "Tria"}
            await tx.timeline.append(TimelineEvent(NOW, event, REPOSITORY.id, "main", 1, reason=reason, data=data))
        assert await rejection_history(tx, REPOSITORY.id, 1) is None
        await tx.rejections.put(REPOSITORY.id, 1, "h", Reason.CONFLICT, NOW)
        assert await rejection_history(tx, REPOSITORY.id, 1) == RejectionHistory(
            "h", NOW, 2, ("tria",), base_branch="main", why=Reason.CONFLICT, announced=True
        )
