"""Databases that may be restored backups: which are doubted at the start of a process, and what is marked then."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.known_facts import Fact, Push, of_branch
from queue_engine.domain.model import TimelineEvent
from queue_engine.effects.context import Change
from queue_engine.handlers.restored import refetch_after_pause
from queue_engine.store import Store, Transaction
from queue_engine.store.restored import MARK_COPY
from tests.store.examples import changed, queue, stand
from tests.store.outbox.outbox_examples import want
from tests.unit.queue_engine.examples import MINUTE, NOW, REPOSITORY, SECOND, WAITING


async def event(tx: Transaction, at: datetime) -> None:
    await tx.timeline.append(TimelineEvent(at, "landed", REPOSITORY.id, "main", 9))


async def fact(tx: Transaction, at: datetime) -> None:
    await tx.known.record(
        REPOSITORY.id, [Fact(subject=of_branch("main"), statement=Push(before="old", after="new"))], at
    )


async def job(tx: Transaction, at: datetime) -> None:
    await tx.jobs.enqueue(kind="kind", request={}, process_id="process", now=at)


async def report(tx: Transaction, at: datetime) -> None:
    await tx.processes.report("worker", at, {}, "")


async def sweep(tx: Transaction, at: datetime) -> None:
    await tx.sweeps.done("part", at)


@pytest.mark.parametrize("write", [event, fact, job, report, sweep])
async def test_restart_after_ten_seconds_marks_nothing_and_one_after_minutes_marks_every_entry(
    store: Store, write: Callable[[Transaction, datetime], Awaitable[None]]
) -> None:
    """P7: a deploy, or a kill, costs no request. The table that was written last shows how long the pause was."""
    async with store.transaction() as tx:
        main = await queue(tx)
        entries = [await stand(tx, main, number) for number in range(1, 5)]
        for entry, status in zip(entries, WAITING, strict=True):
            await tx.entries.save(changed(entry, status=status))
        before = list(await tx.entries.of_queue(main.id))
        await write(tx, NOW - 10 * SECOND)
        for now, marked in ((NOW, False), (NOW + 50 * SECOND, False), (NOW + MINUTE, True), (NOW + MINUTE, True)):
            await refetch_after_pause(Change(tx, now))
            after = await tx.entries.of_queue(main.id)
            assert [(entry.needs_refetch, entry.version) for entry in after] == [
                (marked, entry.version + marked) for entry in before
            ]
            assert await tx.queues.next_due() == (NOW + MINUTE if marked else None)


async def test_copy_is_doubted_at_its_first_start_however_young_it_is(sqlite_database: Database) -> None:
    """P1: `imq backup` marks its copies, so that a minute need not pass before the start; the second start is none."""
    store = Store(sqlite_database)
    async with store.transaction() as tx:
        main = await queue(tx)
        await stand(tx, main, 1)
        await sweep(tx, NOW)
        await tx.connection.exec_driver_sql(MARK_COPY)
        await refetch_after_pause(Change(tx, NOW + SECOND))
        (entry,) = await tx.entries.of_queue(main.id)
        assert entry.needs_refetch
        await tx.entries.save(replace(entry, needs_refetch=False))
        await refetch_after_pause(Change(tx, NOW + 2 * SECOND))
        assert [each.needs_refetch for each in await tx.entries.of_queue(main.id)] == [False]


async def test_empty_database_and_one_after_a_pause_of_which_nothing_is_queued_are_left_as_they_are(
    store: Store,
) -> None:
    """P7: there is nothing to read again."""
    async with store.transaction() as tx:
        await refetch_after_pause(Change(tx, NOW))
        await sweep(tx, NOW)
        await refetch_after_pause(Change(tx, NOW + 2 * MINUTE))
        assert await tx.queues.next_due() is None


async def test_comments_of_entries_and_those_that_are_due_are_searched_for_after_a_pause(store: Store) -> None:
    """P6: another comment is not edited before a person asks for it; then IMQ knows which one it is."""
    async with store.transaction() as tx:
        await stand(tx, await queue(tx), 1)
        for number in (1, 2, 3):
            await want(tx, number=number)
        for _ in (1, 2):
            item = await tx.outbox.claim(owner="w", now=NOW, lease=MINUTE)
            assert item is not None
            await tx.outbox.created(item, item.number)
            await tx.outbox.done(item, NOW)
        await sweep(tx, NOW)
        await refetch_after_pause(Change(tx, NOW + 2 * MINUTE))
        for number in (1, 2):
            await tx.outbox.resend(REPOSITORY.id, number, due=NOW)
        items = [await tx.outbox.claim(owner="w", now=NOW, lease=MINUTE) for _ in (1, 2, 3)]
    assert {item.number: item.maybe_created for item in items if item} == {1: True, 2: False, 3: True}
