"""Many due queues are locked, read and released together. Covers `queue_engine/store/entry_query.py`."""

from datetime import timedelta

from queue_engine.domain.model import Queue, Repository
from queue_engine.store import Store, Transaction
from tests.store.examples import LEASE, NOW, OTHER, REPOSITORY, SOON, claim, queue, stand


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
        await t.queues.refresh_repository(shared)
        for _ in range(generation):
            await t.queues.renew_settings(number)
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
