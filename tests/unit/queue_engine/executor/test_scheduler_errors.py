"""P5: after an unexpected error of a pass the queue waits; then IMQ dequeues the entry, or pauses the queue."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import ReadOnly
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.model import Entry, Queue
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Engine
from queue_engine.executor.entry_steps import PassError
from queue_engine.executor.scheduler import LIMIT, on_error
from queue_engine.store import Store
from tests.unit.bot.conftest import ManualClock
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import NOW, REPOSITORY, SECOND
from tests.unit.queue_engine.handlers.test_receiving import Counts


class Failing:
    """A queue whose passes fail on its front, or before they choose one; a clock to move."""

    def __init__(self, database: Database) -> None:
        self.scene, self.clock, self.meter = Setup(Store(database)), ManualClock(), Counts()
        self.engine: Engine = replace(self.scene.engine, clock=self.clock, meter=self.meter)

    async def fails(self, after: timedelta, *, on: Entry | None) -> datetime:
        """A pass fails so long after the first; when the next one is due."""
        self.clock.instant = NOW + after
        async with self.scene.store.reading() as tx:
            (queue,) = await tx.queues.all()
        error = PassError(on)
        error.__cause__ = KeyError("secret")
        return await on_error(self.engine, queue, error)

    async def entry(self) -> Entry | None:
        async with self.scene.store.reading() as tx:
            return await tx.entries.find(REPOSITORY.id, 1)

    async def queue(self) -> Queue:
        async with self.scene.store.reading() as tx:
            (queue,) = await tx.queues.all()
        return queue

    async def event(self) -> Any:
        async with self.scene.store.reading() as tx:
            (event,) = await tx.timeline.latest(9)
        return event


@pytest.fixture
def failing(sqlite_database: Database) -> Failing:
    return Failing(sqlite_database)


async def front(failing: Failing, **changes: Any) -> Entry:
    await failing.scene.front(**changes)
    entry = await failing.entry()
    assert entry is not None
    return entry


async def test_passes_that_fail_are_tried_again_with_growing_waits_and_counted(failing: Failing) -> None:
    """5, 15, 45, 135 seconds, then 5 minutes; the metric shows whether queue or entry failed."""
    entry, waits, after = await front(failing), [], timedelta(0)
    for number in range(6):
        due = await failing.fails(after, on=entry if number % 2 else None)
        waits.append((due - failing.clock.instant).total_seconds())
        after += 2 * SECOND
    assert waits == [5, 15, 45, 135, 300, 300]
    queue = await failing.queue()
    assert (queue.errors, queue.pauses) == (6, ())
    assert await failing.entry() == entry
    assert failing.meter.counted == {("pass_errors", ""): 6}


async def test_pass_that_met_a_fault_of_the_database_comes_again_at_once_and_counts_nothing(failing: Failing) -> None:
    """When the queue can be released the database is back: its restart must not cost every queue a minute."""
    await front(failing)
    assert await on_error(failing.engine, await failing.queue(), ReadOnly("a standby")) == failing.clock.now() + SECOND
    assert (await failing.queue()).errors == 0
    assert failing.meter.counted == {}


@pytest.mark.parametrize(("changes", "factor"), [({}, 1), ({"merge_requested_at": NOW}, 6)])
async def test_entry_on_which_passes_fail_for_too_long_is_dequeued(
    failing: Failing, changes: dict[str, Any], factor: int
) -> None:
    """Ten minutes; six times as long while a merge is in doubt. The next one is processed at once, from zero."""
    entry = await front(failing, **changes)
    await failing.fails(timedelta(0), on=entry)
    await failing.fails(factor * LIMIT - SECOND, on=entry)
    assert await failing.entry() == entry
    assert await failing.fails(factor * LIMIT, on=entry) == failing.clock.instant
    assert await failing.entry() is None
    assert (await failing.queue()).errors == 0
    event = await failing.event()
    assert (event.event, event.reason, event.number) == ("failed", Reason.INTERNAL_ERROR, 1)
    assert event.data["detail"].startswith("KeyError, trace ")
    assert "secret" not in event.data["detail"]


async def test_entry_that_changed_before_it_was_dequeued_leaves_as_it_is_now(failing: Failing) -> None:
    """What failed is an older version of it; one that has left already leaves once."""
    entry = await front(failing)
    await failing.fails(timedelta(0), on=entry)
    await failing.scene.change_entry(title="Another title")
    await failing.fails(LIMIT, on=entry)
    assert await failing.entry() is None
    await failing.fails(2 * LIMIT, on=entry)
    await failing.fails(3 * LIMIT, on=entry)
    assert (await failing.event()).event == "failed"
    assert (await failing.queue()).errors == 0


@pytest.mark.parametrize(("error", "leaves"), [(TypeError("no words"), True), (StaleRecord("entry 1"), False)])
async def test_entry_leaves_also_when_its_notice_cannot_be_written(
    failing: Failing, monkeypatch: pytest.MonkeyPatch, error: Exception, leaves: bool
) -> None:
    """The notice is made from what may be wrong. An entry that changes in this moment is read again instead."""

    async def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(record, "announce_dequeued", fails)
    entry = await front(failing)
    await failing.fails(timedelta(0), on=entry)
    await failing.fails(LIMIT, on=entry)
    assert (await failing.entry() is None) is leaves
    async with failing.scene.store.reading() as tx:
        assert (await tx.queues.next_due() is not None) is leaves
    if leaves:
        event = await failing.event()
        assert (event.event, event.reason, event.entry_id) == ("failed", Reason.INTERNAL_ERROR, entry.id)
        assert (event.data["head"], event.data["from"]) == (entry.head_sha, entry.status.value)
        assert (await failing.queue()).errors == 0


async def test_queue_whose_passes_fail_on_no_entry_is_paused(failing: Failing) -> None:
    """Without a front no entry is the cause: a maintainer has to find it."""
    entry = await front(failing)
    await failing.fails(timedelta(0), on=None)
    await failing.fails(LIMIT - SECOND, on=None)
    assert (await failing.queue()).pauses == ()
    assert await failing.fails(LIMIT, on=None) == failing.clock.instant
    queue = await failing.queue()
    (paused,) = queue.pauses
    assert (paused.reason, queue.errors) == (Reason.INVARIANT_BROKEN, 0)
    assert paused.detail is not None
    assert paused.detail.startswith("KeyError, trace ")
    assert await failing.entry() == entry
