"""What a pull request waited for at a past instant, reconstructed from events."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from queue_engine.domain.model import EntryStatus, TimelineEvent
from queue_engine.domain.reasons import PullRequestActor, Reason, WaitReason
from queue_engine.queries.pull_request_history import StatusHistory, load_status_at
from queue_engine.store import Transaction
from tests.unit.queue_engine.examples import HOUR, MINUTE, NOW, REPOSITORY, SECOND


async def happened(t: Transaction, minute: float, number: int, event: str, **facts: Any) -> None:
    """An event so many minutes after NOW; each pull request has one entry."""
    reason = facts.pop("reason", None)
    entry_id = f"{number:032x}" if number else None
    at = NOW + minute * MINUTE
    await t.timeline.append(TimelineEvent(at, event, REPOSITORY.id, "main", number, entry_id, reason, data=facts))


async def status(t: Transaction, number: int, minute: float) -> StatusHistory:
    return await load_status_at(t, REPOSITORY.id, number, NOW + minute * MINUTE)


async def places(t: Transaction, minute: float, *numbers: int) -> list[int | None]:
    return [(await status(t, number, minute)).position for number in numbers]


async def test_position_follows_all_that_changed_the_order(t: Transaction) -> None:
    """Joining, a jump, the choice of the front, and leaving."""
    for number in (1, 2, 3):
        await happened(t, number, number, "queued", by="mona", position=number - 1)
    await happened(t, 4, 1, "checking", head="head-1")
    await happened(t, 5, 3, "priority", by="rhea", priority=10, position=1)
    await happened(t, 6, 1, "landed")
    assert await places(t, 3, 1, 2, 3) == [0, 1, 2]
    assert await places(t, 5, 1, 2, 3) == [0, 2, 1]
    assert await places(t, 6, 1, 2, 3) == [None, 1, 0]
    assert await places(t, 1.5, 1, 2) == [0, None]
    found = await status(t, 2, 5)
    assert (found.depth, found.queued_by, found.enqueued_at, found.since) == (
        3,
        "mona",
        NOW + 2 * MINUTE,
        NOW + 2 * MINUTE,
    )
    assert (found.reason, found.whose_move) == (WaitReason.BEHIND_OTHERS, PullRequestActor.IMQ)
    assert (await status(t, 1, 4)).reason is WaitReason.CHECKS_PENDING


async def test_blockers_are_those_that_had_begun_and_not_ended(t: Transaction) -> None:
    """A freeze ends by itself, a pause by a person."""
    await happened(t, 0, 1, "queued", by="mona", position=0)
    until = (NOW + 4 * MINUTE).isoformat()
    await happened(t, 1, 0, "paused", reason=Reason.FROZEN, detail="the fair", until=until)
    await happened(t, 2, 0, "paused", reason=Reason.PAUSED_BY_HAND, detail="the disk", until=None)
    await happened(t, 6, 0, "resumed", reason=Reason.PAUSED_BY_HAND)
    expected: dict[float, list[Reason]] = {
        0.5: [],
        1: [Reason.FROZEN],
        3: [Reason.PAUSED_BY_HAND, Reason.FROZEN],
        5: [Reason.PAUSED_BY_HAND],
        6: [],
    }
    for minute, reasons in expected.items():
        found = await status(t, 1, minute)
        assert [each.reason for each in found.blockers] == reasons
    assert (await status(t, 1, 5)).whose_move is PullRequestActor.MAINTAINER


@pytest.mark.parametrize(
    ("event", "reason", "meant"),
    [
        ("landed", None, WaitReason.LANDED),
        ("failed", Reason.CHECKS_FAILED, Reason.CHECKS_FAILED),
        ("cancelled", Reason.LABEL_REMOVED, Reason.LABEL_REMOVED),
    ],
)
async def test_pull_request_that_had_left_has_its_outcome(t: Transaction, event: str, reason: Any, meant: Any) -> None:
    """And none before it was ever queued."""
    await happened(t, 1, 1, "queued", by="mona", position=0)
    await happened(t, 2, 1, event, reason=reason)
    left = await status(t, 1, 3)
    assert (left.state, left.reason) == ("not_queued", meant)
    assert (await status(t, 1, 0)).reason is WaitReason.NEVER_QUEUED


async def test_entry_without_room_and_one_that_is_set_aside_say_so(t: Transaction) -> None:
    """Held, then queued when it got room; blocked, while its queue continued."""
    await happened(t, 1, 1, "held", reason=Reason.QUEUE_FULL)
    await happened(t, 2, 1, "queued", by="mona", position=0)
    await happened(t, 3, 1, "blocked", reason=Reason.WORKFLOWS_PERMISSION)
    held, room, aside = [await status(t, 1, minute) for minute in (1, 2, 3)]
    assert (held.state, held.reason, held.position) == ("held", Reason.QUEUE_FULL, None)
    assert (room.state, room.reason) == (EntryStatus.PENDING, WaitReason.NEXT_IN_QUEUE)
    assert (aside.deferral, aside.reason) == (Reason.WORKFLOWS_PERMISSION, Reason.WORKFLOWS_PERMISSION)


async def test_number_of_rows_that_a_past_status_reads_has_a_limit(t: Transaction) -> None:
    """Whatever happened before or since: the position is unknown where the queue's events do not reach back."""
    await happened(t, 0, 1, "queued", by="mona", position=0)
    for number in range(2, 503):
        await happened(t, 1, number, "landed")
        await happened(t, 1, number, "queued", by="mona", position=1)
    found = await status(t, 1, 2)
    assert (found.state, found.position, found.depth) == ("pending", None, None)


async def test_instants_of_one_second_are_distinguished(t: Transaction) -> None:
    """The timeline keeps microseconds."""
    await happened(t, 0, 1, "queued", by="mona", position=0)
    await t.timeline.append(
        TimelineEvent(NOW + SECOND / 2, "checking", REPOSITORY.id, "main", 1, f"{1:032x}", data={"head": "h"})
    )
    times: dict[datetime, str] = {
        NOW: "pending",
        NOW + SECOND: "checking",
        NOW + timedelta(milliseconds=499): "pending",
    }
    for at, state in times.items():
        assert (await load_status_at(t, REPOSITORY.id, 1, at)).state == state
    assert (await load_status_at(t, REPOSITORY.id, 1, NOW - HOUR)).state == "not_queued"


async def test_two_freezes_at_once_are_two_blockers_and_end_each_by_itself(t: Transaction) -> None:
    """One by a maintainer, and one of the configuration."""
    await happened(t, 0, 1, "queued", by="mona", position=0)
    until = (NOW + HOUR).isoformat()
    await happened(t, 1, 0, "paused", reason=Reason.FROZEN, detail="the weekend", until=until, by=None)
    await happened(t, 2, 0, "paused", reason=Reason.FROZEN, detail="the fair", until=until, by="rhea")
    await happened(t, 3, 0, "paused", reason=Reason.FROZEN, detail="the fair, longer", until=until, by="rhea")
    await happened(t, 4, 0, "resumed", reason=Reason.FROZEN, detail="the weekend", by=None)
    await happened(t, 5, 0, "resumed", reason=Reason.FROZEN, detail="the fair, longer", by="rhea")
    expected: dict[int, set[str]] = {
        1: {"the weekend"},
        2: {"the weekend", "the fair"},
        3: {"the weekend", "the fair, longer"},
        4: {"the fair, longer"},
        5: set(),
    }
    for minute, details in expected.items():
        assert {each.detail for each in (await status(t, 1, minute)).blockers} == details


async def test_checks_that_had_not_ended_are_named_by_the_event_that_ended_their_test(t: Transaction) -> None:
    """Each check ended so many seconds before that event; one that never did was pending all the time."""
    await happened(t, 0, 1, "queued", by="mona", position=0)
    await happened(t, 1, 1, "checking", head="head-1")
    seconds, ended = {"lint": 60.0, "ci": 500.0, "docs": 500.0}, {"lint": 480.0, "ci": 60.0}
    await happened(t, 10, 1, "failed", reason=Reason.CHECKS_FAILED, check_seconds=seconds, check_ended=ended)
    expected: dict[float, tuple[str, ...]] = {
        0.5: (),
        1: ("ci", "docs", "lint"),
        2: ("ci", "docs"),
        9: ("docs",),
        10: (),
    }
    for minute, names in expected.items():
        assert (await status(t, 1, minute)).pending_checks == names


async def test_landing_was_estimated_by_the_landings_before_that_instant(t: Transaction) -> None:
    """With the time that the front had spent; later landings do not count, and a blocked queue had no estimate."""
    for number in range(10, 16):
        await happened(t, number - 10, number, "queued", by="mona", position=0)
        await happened(t, number - 9.5, number, "landed", front=600.0)
    for number, minute in ((1, 20), (2, 21)):
        await happened(t, minute, number, "queued", by="mona", position=number - 1)
    await happened(t, 22, 1, "checking", head="head-1")
    await happened(t, 40, 0, "paused", reason=Reason.PAUSED_BY_HAND, by="rhea")
    await happened(t, 90, 3, "landed", front=90000.0)
    first, second = await status(t, 1, 26), await status(t, 2, 26)
    assert first.eta == (NOW + 32 * MINUTE, NOW + 33 * MINUTE)
    assert second.eta is not None
    assert first.eta is not None
    assert second.eta[0] > first.eta[1]
    assert ((await status(t, 1, 3)).eta, (await status(t, 1, 41)).eta) == (None, None)
