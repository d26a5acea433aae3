"""Many due queues are locked, read and released together."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.model import EntryStatus, Queue, QueueFront, Repository, UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store, Transaction
from tests.store.examples import LEASE, NOW, OTHER, REPOSITORY, SOON, changed, claim, queue, stand

READY = EntryStatus.READY


async def due(t: Transaction, *branches: str) -> list[Queue]:
    """Queues of these branches, each due a second after the one before."""
    made = [await queue(t, branch) for branch in branches]
    for number, each in enumerate(made):
        await t.queues.wake(each.id, NOW + timedelta(seconds=number))
    return made


async def locked(t: Transaction, *, without: set[int] | None = None, at_most: int = 9) -> list[int]:
    found = await t.queue_batch.lock_due(now=NOW + SOON, without=without or set(), at_most=at_most)
    return [each.id for each in found]


async def test_lock_due_takes_the_longest_due_that_are_neither_leased_nor_left_out(t: Transaction) -> None:
    """A pass under way elsewhere is not disturbed."""
    leased, left_out, first, second, third = [each.id for each in await due(t, "a", "b", "c", "d", "e")]
    future = await queue(t, "future")
    await t.queues.wake(future.id, NOW + LEASE)
    assert [each.id for each in await claim(t, limit=1)] == [leased]
    assert await locked(t, without={left_out}) == [first, second, third]
    assert await locked(t, without={left_out}, at_most=2) == [first, second]
    assert leased in [each.id for each in await t.queue_batch.lock_due(now=NOW + LEASE, without=(), at_most=9)]


async def test_due_returns_the_same_without_a_lock(t: Transaction) -> None:
    """A read of what is due stops no worker."""
    leased, left_out, first, second = [each.id for each in await due(t, "a", "b", "c", "d")]
    assert [each.id for each in await claim(t, limit=1)] == [leased]
    found = await t.queue_batch.due(now=NOW + SOON, without={left_out}, at_most=9)
    assert sorted(each.id for each in found) == [first, second]
    assert [each.id for each in await t.queue_batch.due(now=NOW + SOON, without={left_out}, at_most=1)] == [first]


async def test_lock_due_of_two_workers_at_once_locks_each_queue_once(store: Store) -> None:
    """On PostgreSQL neither waits for the other; SQLite has one writer."""
    async with store.transaction() as t:
        made = [each.id for each in await due(t, "a", "b", "c")]
    if store.database.dialect == "sqlite":
        return
    async with store.transaction() as one, store.transaction() as other:
        assert await locked(one, at_most=2) == made[:2]
        assert await locked(other) == made[2:]


async def test_release_ends_leases_and_sets_due_times(t: Transaction) -> None:
    """A wake-up after that makes the queue due again."""
    first, second, third = [each.id for each in await due(t, "a", "b", "c")]
    await claim(t, limit=1)
    await t.queue_batch.release({first: NOW + LEASE, second: None})
    await t.queue_batch.release({})
    assert {each.id: each.due_at for each in await t.queues.all()} == {
        first: NOW + LEASE,
        second: None,
        third: NOW + timedelta(seconds=2),
    }
    await t.queues.wake(first, NOW)
    assert [each.id for each in await claim(t, now=NOW + SOON)] == [first, third]


async def test_shared_generations_are_those_of_each_owners_repository_in_any_case(t: Transaction) -> None:
    """Of two repositories that had the name the younger counts, as everywhere."""
    own = await queue(t)
    stranger = await queue(t, "main", Repository(9, "umbrella", "r", 71))
    for number, owner, generation in ((20, "acme", 5), (21, "Acme", 2)):
        shared = Repository(number, owner, ".github", 70)
        await t.repositories.refresh(shared)
        for _ in range(generation):
            await t.repositories.renew_settings(number)
    assert await t.queue_batch.shared_generations([own, stranger]) == {"acme": 2}


async def test_of_queues_reads_each_queue_as_of_queue_does(t: Transaction) -> None:
    """The positions are those within each queue."""
    main, other, empty = await queue(t), await queue(t, "main", OTHER), await queue(t, "empty")
    for number in (1, 2, 3):
        await stand(t, main, number, priority=number)
        await stand(t, other, number)
    found = await t.entries.of_queues([main.id, other.id, empty.id])
    assert found == {each.id: await t.entries.of_queue(each.id) for each in (main, other)}
    assert [entry.number for entry in found[main.id]] == [3, 2, 1]
    assert {entry.repository for entry in found[main.id]} == {REPOSITORY}


async def test_fronts_are_the_first_entries_of_queue(t: Transaction) -> None:
    """Positions, counts and runs as `of_queue` has them; an entry outside its queue is none of its fronts."""
    main, other, empty = await queue(t), await queue(t, "main", OTHER), await queue(t, "empty")
    for number in (1, 2, 3):
        await stand(t, main, number, priority=number)
        await stand(t, other, number)
    outside = await stand(t, empty, 9)
    await t.entries.save(replace(outside, unmet=(UnmetRequirement(Reason.DRAFT),)))
    (first, *_) = await t.entries.of_queue(main.id)
    await t.entries.save(changed(first, status=READY, base_tip="tip"))
    assert await t.queue_batch.fronts([main.id, other.id, empty.id]) == {
        each.id: QueueFront((await t.entries.of_queue(each.id))[0], 3, others_wait=True) for each in (main, other)
    }


@pytest.mark.parametrize(
    "differs",
    [{"hotfix": True}, {"blocked_until": NOW}, {"held_since": NOW}, {"status": READY}],
)
async def test_front_says_whether_each_other_entry_only_waits(t: Transaction, differs: dict[str, Any]) -> None:
    """What differs at the front itself does not count."""
    main = await queue(t)
    first, second, _ = [await stand(t, main, number) for number in (1, 2, 3)]
    await t.entries.save(changed(first, **{"status": READY, **differs}))
    assert (await t.queue_batch.fronts([main.id]))[main.id].others_wait
    await t.entries.save(changed(second, **differs))
    front = (await t.queue_batch.fronts([main.id]))[main.id]
    assert (front.count, front.others_wait) == (3, False)
