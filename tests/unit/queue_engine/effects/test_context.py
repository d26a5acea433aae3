"""A change records events, which are published after its commit and never before."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from queue_engine.core.concurrency.wakeup import Wakeup
from queue_engine.core.database.database import Database
from queue_engine.core.observability.trace import recording
from queue_engine.domain.model import WHOLE_QUEUE, TimelineEvent
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.store import Store, Transaction, WakeupKind
from tests.store.examples import NOW, REPOSITORY, SOON, queue, stand
from tests.store.outbox.outbox_examples import COMMENT, LABEL, want
from tests.unit.queue_engine.engine_setup import Setup


async def test_change_publishes_the_events_that_it_stored(sqlite_database: Database) -> None:
    """Subscribers get the very events that readers of the timeline find, in order."""
    engine, published = listening(sqlite_database)
    async with engine.change() as change:
        standing = await queue(change.tx)
        entry = await stand(change.tx, standing, 3)
        await change.record("queued", entry, delivery="guid", data={"by": "max"})
        await change.record("held", standing, number=4, reason=Reason.QUEUE_FULL)
        await change.record("paused", standing, reason=Reason.FROZEN)
        assert published == []
    expected = [
        TimelineEvent(
            NOW, "queued", REPOSITORY.id, "main", 3, entry.id, delivery="guid", data={"by": "max"}, id=published[0].id
        ),
        TimelineEvent(NOW, "held", REPOSITORY.id, "main", 4, reason=Reason.QUEUE_FULL, id=published[1].id),
        TimelineEvent(NOW, "paused", REPOSITORY.id, "main", WHOLE_QUEUE, reason=Reason.FROZEN, id=published[2].id),
    ]
    assert published == expected
    async with engine.store.reading() as tx:
        assert await tx.timeline.since(0, limit=100) == tuple(expected)


async def test_change_that_fails_publishes_nothing(sqlite_database: Database) -> None:
    """Neither the timeline nor a subscriber learns of a change that was rolled back."""
    engine, published = listening(sqlite_database)

    async def fail() -> None:
        async with engine.change() as change:
            await change.record("paused", await queue(change.tx), reason=Reason.FROZEN)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await fail()
    async with engine.store.reading() as tx:
        assert (published, await tx.timeline.since(0, limit=100)) == ([], ())


async def test_change_publishes_and_wakes_the_loops_only_when_it_is_committed(sqlite_database: Database) -> None:
    """P2: a subscriber finds the published change in the database, and the loop with work wakes at once."""
    happened: list[str | None] = []

    class Recorded(Store):
        @asynccontextmanager
        async def transaction(self) -> AsyncGenerator[Transaction]:
            async with super().transaction() as tx:
                yield tx
            happened.append("committed")

    class RecordedWakeup(Wakeup):
        def notify(self, topic: str | None = None, *, by_other: bool = False, ended: bool = False) -> None:
            happened.append(topic)

    setup = Setup(Recorded(sqlite_database))
    engine = replace(setup.engine, publish=lambda event: happened.append(event.event), wakeup=RecordedWakeup())
    async with engine.change() as change:
        standing = await queue(change.tx)
        await change.tx.queues.wake(standing.id, change.now)
        await change.record("paused", standing, reason=Reason.FROZEN)
    assert happened[:2] == ["committed", "paused"]
    assert sorted(map(str, happened[2:])) == ["queues", "timeline"]


DUE: dict[str, tuple[WakeupKind, Callable[[Transaction], Awaitable[object]]]] = {
    "job": (WakeupKind.JOBS, lambda tx: tx.jobs.enqueue(kind="kind", request={}, process_id="other", now=NOW)),
    "jobs": (WakeupKind.JOBS, lambda tx: tx.jobs.enqueue_all(kind="kind", requests=[("other", {})], now=NOW)),
    "hastened job": (WakeupKind.JOBS, lambda tx: tx.jobs.hasten("process", NOW)),
    "queue": (WakeupKind.QUEUES, lambda tx: tx.queues.wake(1, NOW)),
    "comment": (WakeupKind.OUTBOX, lambda tx: want(tx, COMMENT)),
    "label": (WakeupKind.OUTBOX, lambda tx: want(tx, LABEL)),
    "comment again": (WakeupKind.OUTBOX, lambda tx: tx.outbox.resend(REPOSITORY.id, 1, due=NOW)),
    "released comments": (WakeupKind.OUTBOX, lambda tx: tx.outbox.release(REPOSITORY.id, NOW)),
}


@pytest.mark.parametrize("what", DUE)
async def test_change_that_makes_something_due_wakes_the_loop_that_does_it(
    sqlite_database: Database, what: str
) -> None:
    """P6: otherwise a label, say, is answered only when the loop next polls."""
    kind, make_due = DUE[what]
    store = Store(sqlite_database)
    async with store.transaction() as tx:
        await tx.jobs.enqueue(kind="kind", request={}, process_id="process", now=NOW, not_before=NOW + SOON)
    async with store.transaction() as tx:
        await make_due(tx)
        assert tx.due == {kind}


async def test_change_gives_the_spans_of_ended_entries_to_the_exporter_only_when_it_is_committed(
    sqlite_database: Database,
) -> None:
    """A commit that fails ends no entry: the exporter sees no landing that the database does not have."""
    happened: list[str] = []

    class Refusing(Store):
        @asynccontextmanager
        async def transaction(self) -> AsyncGenerator[Transaction]:
            async with super().transaction() as tx:
                yield tx
                if refused:
                    raise OSError("the disk is full")
            happened.append("committed")

    async def land(number: int) -> None:
        async with setup.engine.change() as change:
            entry = await stand(change.tx, await queue(change.tx), number)
            entry = replace(entry, trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            await change.record("queued", entry)
            await change.record("landed", entry, data={"queue": 60.0, "front": 30.0})

    setup, refused = Setup(Refusing(sqlite_database)), True
    with recording(lambda spans: happened.extend(span.name for span in spans)):
        with pytest.raises(OSError, match="full"):
            await land(3)
        assert happened == []
        refused = False
        await land(4)
    assert happened == ["committed", "landing", "queued"]


async def test_entry_whose_timeline_was_purged_ends_with_one_span(sqlite_database: Database) -> None:
    """An imported entry, or one that waits longer than the timeline is kept, has no event before its end."""
    names: list[str] = []
    setup = Setup(Store(sqlite_database))
    with recording(lambda spans: names.extend(span.name for span in spans)):
        async with setup.engine.change() as change:
            entry = await stand(change.tx, await queue(change.tx), 3)
            entry = replace(entry, trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            await change.record("cancelled", entry, reason=Reason.LABEL_REMOVED)
    assert names == ["dequeued"]


def listening(database: Database) -> tuple[Engine, list[TimelineEvent]]:
    """An engine with one subscriber, which stores the events that it receives."""
    published: list[TimelineEvent] = []
    setup = Setup(Store(database))
    return replace(setup.engine, publish=published.append), published
