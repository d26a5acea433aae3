"""Entries are stored, found, changed by compare-and-set, and deleted."""

import asyncio
from dataclasses import fields, replace

import pytest
from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError

from queue_engine.core.concurrency.request_context import WaitCount
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.model import Entry, EntryStatus, Pause, UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import OF_ENTRY
from queue_engine.store import EntryConflict, Store, Transaction
from queue_engine.store.tables import entries
from tests.store.examples import NOW, OTHER, REPOSITORY, SOON, changed, queue, stand


def test_entries_table_holds_every_field_that_is_not_derived() -> None:
    """A field added to the model without a column would be lost at the first read."""
    derived = {"repository", "base_branch", "position", "run"}
    assert {field.name for field in fields(Entry)} - derived == set(entries.c.keys()) - {
        "repository_id",
        "run_id",
        *OF_ENTRY,
    }


async def test_add_stands_a_pull_request_at_the_end(t: Transaction) -> None:
    """A new entry is pending, bound to the head that was consented to, behind those that stand already."""
    main = await queue(t)
    first, second = await stand(t, main, 11, head_sha="abc"), await stand(t, main, 12)
    assert (first.repository, first.base_branch, first.status) == (REPOSITORY, "main", EntryStatus.PENDING)
    assert (first.queued_head, first.head_sha, first.head_proved) == ("abc", "abc", True)
    assert (first.position, second.position, first.version) == (0, 1, 1)
    assert first.seq < second.seq
    assert await t.entries.get(first.id) == first == await t.entries.find(REPOSITORY.id, 11)


async def test_add_of_one_that_stands_already_is_refused_in_any_queue_of_its_repository(t: Transaction) -> None:
    """A pull request is in one queue once; the transaction continues, and other repositories are not concerned."""
    main, release = await queue(t), await queue(t, "release")
    first = await stand(t, main, 1)
    for again in (main, release):
        with pytest.raises(EntryConflict):
            await stand(t, again, 1)
    assert await t.entries.of_repository(REPOSITORY.id) == (first,)
    await stand(t, await queue(t, "main", OTHER), 1)


async def test_comments_yield_to_what_may_land_and_to_nothing_in_a_paused_queue(t: Transaction) -> None:
    """P7: content is kept for no more merges than wait; a paused queue lands none."""
    main, paused = await queue(t), await queue(t, "release")
    for number in (1, 2, 3):
        await stand(t, main, number)
    await stand(t, paused, 4)
    await t.pauses.put(paused.id, Pause(reason=Reason.TREE_MISMATCH, detail="", since=NOW))
    assert await t.entries.landable(REPOSITORY.installation_id, NOW) == WaitCount(soon=1, this_hour=3)


async def test_add_by_two_at_once_stands_once(store: Store) -> None:
    """A label set twice, seen by two workers, makes one entry."""
    async with store.transaction() as t:
        main = await queue(t)

    async def add() -> bool:
        try:
            async with store.transaction() as t:
                await stand(t, main, 1)
        except EntryConflict:
            return False
        return True

    assert sorted(await asyncio.gather(*(add() for _ in range(4)))) == [False, False, False, True]


async def test_of_queue_orders_by_priority_then_arrival_and_counts_positions(t: Transaction) -> None:
    """Higher priority first, first in, first out within one; positions without gaps in each queue."""
    main, release = await queue(t), await queue(t, "release")
    for number, priority in ((1, 0), (2, 5), (3, 0), (4, 5)):
        await stand(t, main, number, priority=priority)
    await stand(t, release, 5)
    in_order = await t.entries.of_queue(main.id)
    assert [(entry.number, entry.position) for entry in in_order] == [(2, 0), (4, 1), (1, 2), (3, 3)]
    assert [entry.number for entry in await t.entries.of_repository(REPOSITORY.id)] == [2, 4, 1, 3, 5]
    third = await t.entries.find(REPOSITORY.id, 3)
    assert third == in_order[3]
    assert (await t.entries.count(main.id), await t.entries.count(release.id)) == (4, 1)


async def test_updated_or_checked_finds_entries_under_way_with_their_positions(t: Transaction) -> None:
    """A check that ended finds every entry that it may concern, in its own repository only."""
    main, release = await queue(t), await queue(t, "release")
    await stand(t, await queue(t, "main", OTHER), 3)
    waiting, updated, checked = [await stand(t, to, number) for to, number in ((main, 1), (main, 2), (release, 4))]
    updated = await t.entries.save(changed(updated, status=EntryStatus.UPDATING))
    checked = await t.entries.save(changed(checked, status=EntryStatus.CHECKING))
    found = await t.entries.updated_or_checked(REPOSITORY.id)
    assert [(entry.id, entry.version) for entry in found] == [(e.id, e.version) for e in (updated, checked)]
    assert waiting.id not in {entry.id for entry in found}


async def test_save_keeps_every_field(t: Transaction) -> None:
    """What a decision changed is read back as it was written."""
    before = await stand(t, await queue(t), 1)
    written = changed(
        before,
        title="Another title",
        author="bob",
        queued_by="eve",
        priority=3,
        status=EntryStatus.READY,
        queued_head="q",
        head_sha="h",
        head_proved=False,
        updated_from="u",
        new_head="c",
        new_head_is_ours=True,
        newer_tip="n",
        base_tip="b",
        candidate="h",
        tested_tree="t",
        pending_checks=("build", "tests / 3.11"),
        completed_checks=("build",),
        needs_refetch=True,
        merge_requested_at=NOW + SOON,
        github_failures=1,
        github_failing_since=NOW,
        merge_refusals=2,
        polls=3,
        next_poll_at=NOW + 2 * SOON,
        started_at=NOW,
        status_since=NOW + SOON,
    )
    saved = await t.entries.save(written)
    assert saved == replace(written, version=before.version + 1, run=replace(written.run, id=saved.run.id, version=1))
    assert await t.entries.get(before.id) == saved


async def test_save_or_remove_of_a_stale_entry_is_refused(t: Transaction) -> None:
    """Who decided on what is no longer true decides again."""
    read = await stand(t, await queue(t), 1)
    current = await t.entries.save(replace(read, title="changed by somebody else"))
    with pytest.raises(StaleRecord):
        await t.entries.save(replace(read, title="decided on an old view"))
    with pytest.raises(StaleRecord):
        await t.entries.remove(read)
    assert await t.entries.get(read.id) == current


async def test_save_by_two_at_once_lets_one_win(store: Store) -> None:
    """Two that read the same version never both write."""
    async with store.transaction() as t:
        read = await stand(t, await queue(t), 1)

    async def save(title: str) -> bool:
        try:
            async with store.transaction() as t:
                await t.entries.save(replace(read, title=title))
        except StaleRecord:
            return False
        return True

    assert sorted(await asyncio.gather(*(save(f"title {n}") for n in range(4)))) == [False, False, False, True]


async def test_remove_closes_the_gap_and_lets_the_pull_request_come_back(t: Transaction) -> None:
    """Positions close up, and who left may queue again, at the end."""
    main = await queue(t)
    first, second, _third = [await stand(t, main, number) for number in (1, 2, 3)]
    await t.entries.remove(second)
    assert [(e.number, e.position) for e in await t.entries.of_queue(main.id)] == [(1, 0), (3, 1)]
    assert await t.entries.get(second.id) is None
    with pytest.raises(StaleRecord):
        await t.entries.save(second)
    with pytest.raises(StaleRecord):
        await t.entries.remove(second)
    back = await stand(t, main, 2)
    assert back.position == 2
    assert back.id != second.id
    assert first.seq < second.seq < back.seq


async def test_database_refuses_a_second_entry_of_one_pull_request(store: Store) -> None:
    """Even a mistaken write cannot stand a pull request in two queues."""
    async with store.transaction() as t:
        release = await queue(t, "release")
        await stand(t, await queue(t), 1)
        row = (await t.connection.execute(entries.select())).one()
    copy = dict(row._mapping) | {"seq": row.seq + 1, "id": "another", "queue_id": release.id}
    with pytest.raises(IntegrityError):
        async with store.transaction() as t:
            await t.connection.execute(insert(entries).values(copy))


async def test_pull_requests_that_wait_for_another_are_found_by_its_whole_name(store: Store) -> None:
    """P7: no read for those that wait for one whose name only begins or ends alike."""
    details = ["acme/widgets#1", "ACME/Widgets#1 → #2", "acme/widgets#12", "an/acme/widgets#1", "#1", "#12"]
    async with store.transaction() as tx:
        main = await queue(tx)
        for number, detail in enumerate(details, 20):
            await stand(tx, main, number, unmet=[UnmetRequirement(Reason.DEPENDENCY_OPEN, detail).as_data()])
    async with store.reading() as tx:
        assert [number for _, number in await tx.entries.awaiting("acme/widgets#1")] == [20, 21]
        assert [number for _, number in await tx.entries.awaiting('"#1"', main.repository.id)] == [24]
