import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from queue_engine.model import Pause, Queue
from queue_engine.reasons import Reason
from queue_engine.store import Store, Transaction
from tests.queue_engine.store.examples import LEASE, NOW, OTHER, REPOSITORY, SOON, TICK, queue, stand

PAUSE = Pause(reason=Reason.TREE_MISMATCH, detail="what landed is not what was tested", since=NOW)


@pytest.fixture
async def t(store: Store) -> AsyncIterator[Transaction]:
    async with store.transaction() as transaction:
        yield transaction


async def claim(t: Transaction, *, owner: str = "w", now: object = NOW, limit: int = 9) -> tuple[Queue, ...]:
    return await t.queues.claim_due(owner=owner, now=now, lease=LEASE, limit=limit)  # type: ignore[arg-type]


async def test_find_or_create_twice_gives_the_same_queue(t: Transaction) -> None:
    """A base branch has one queue."""
    created = await queue(t)
    assert await queue(t) == created
    assert created == await t.queues.get(created.id) == await t.queues.find(REPOSITORY.id, "main")
    assert (created.repository, created.base_branch, created.paused, created.due_at, created.wakes) == (
        REPOSITORY,
        "main",
        None,
        None,
        0,
    )
    assert await t.queues.find(REPOSITORY.id, "release") is None
    assert await t.queues.get(created.id + 1) is None


async def test_find_or_create_by_many_at_once_gives_all_the_same_queue(store: Store) -> None:
    """Two labels set at the same moment do not make two queues."""

    async def create() -> int:
        async with store.transaction() as t:
            return (await queue(t)).id

    assert len(set(await asyncio.gather(*(create() for _ in range(8))))) == 1


async def test_queues_are_listed_by_repository_and_all(t: Transaction) -> None:
    """Every queue is found by its repository."""
    main, release, other = await queue(t), await queue(t, "release"), await queue(t, "main", OTHER)
    assert await t.queues.of_repository(REPOSITORY.id) == (main, release)
    assert await t.queues.all() == (main, release, other)


async def test_refresh_repository_renames_it_for_queues_and_entries(t: Transaction) -> None:
    """A rename reaches everything that stands in the repository, and nothing else."""
    main, other = await queue(t), await queue(t, "main", OTHER)
    await stand(t, main, 1)
    renamed = replace(REPOSITORY, owner="umbrella", name="missile", installation_id=71)
    await t.queues.refresh_repository(renamed)
    assert (await queue(t)).repository == renamed
    (entry,) = await t.entries.of_queue(main.id)
    assert entry.repository == renamed
    assert await t.queues.get(other.id) == other


async def test_repository_is_found_by_the_name_it_has_now_in_any_letters(t: Transaction) -> None:
    """As GitHub tells names apart; one that was only swept is known, and an old name is nobody's or the next one's."""
    await t.queues.refresh_repository(REPOSITORY)
    await t.queues.refresh_repository(OTHER)
    assert await t.queues.repository("ACME", "Rocket") == REPOSITORY
    assert await t.queues.repository("acme", "rock") is None
    await t.queues.refresh_repository(replace(REPOSITORY, name="missile"))
    assert await t.queues.repository("acme", "rocket") is None
    heir = replace(REPOSITORY, id=9, name="sled")
    await t.queues.refresh_repository(heir)
    assert await t.queues.repository("acme", "sled") == heir


async def in_trouble(t: Transaction, main: Queue, number: int, *, priority: int = 0) -> None:
    added = await stand(t, main, number, priority=priority)
    await t.entries.save(replace(added, trouble=3, trouble_since=NOW))


async def test_wake_of_a_queue_whose_front_waits_for_trouble_to_pass_counts_and_shortens_nothing(
    t: Transaction,
) -> None:
    """A backoff is a backoff, however many hints come meanwhile, and whoever starts anew in between."""
    main, other = await queue(t), await queue(t, "main", OTHER)
    await in_trouble(t, main, 1)
    for each in (main, other):
        await t.queues.wake(each.id, NOW + SOON)
        await t.queues.wake(each.id, NOW)
    woken = {each.id: (each.due_at, each.wakes) for each in await t.queues.all()}
    assert woken == {main.id: (NOW + SOON, 2), other.id: (NOW, 2)}


async def test_wake_of_a_queue_whose_trouble_stands_behind_the_front_is_heard(t: Transaction) -> None:
    """An entry that was overtaken holds up nobody with the trouble that it once had."""
    main = await queue(t)
    await in_trouble(t, main, 1)
    await stand(t, main, 2, priority=1)
    await t.queues.wake(main.id, NOW + SOON)
    await t.queues.wake(main.id, NOW)
    woken = await t.queues.get(main.id)
    assert woken is not None
    assert woken.due_at == NOW


async def test_release_of_a_queue_woken_meanwhile_whose_front_met_trouble_is_due_when_the_pass_says(
    t: Transaction,
) -> None:
    """The hint that came during the failing pass does not make the next try come at once."""
    main = await queue(t)
    await t.queues.wake(main.id, NOW)
    (claimed,) = await claim(t)
    await in_trouble(t, main, 1)
    await t.queues.wake(main.id, NOW)
    assert await t.queues.release(main.id, "w", due_at=NOW + SOON, seen_wakes=claimed.wakes, now=NOW)
    released = await t.queues.get(main.id)
    assert released is not None
    assert released.due_at == NOW + SOON


async def test_wake_keeps_the_earlier_instant_and_counts(t: Transaction) -> None:
    """A call for later attention never puts off one for earlier."""
    main = await queue(t)
    seen = []
    for at in (NOW + SOON, NOW, NOW + 2 * SOON):
        await t.queues.wake(main.id, at)
        woken = await t.queues.get(main.id)
        assert woken is not None
        seen.append((woken.due_at, woken.wakes))
    assert seen == [(NOW + SOON, 1), (NOW, 2), (NOW, 3)]


async def test_claim_due_takes_the_longest_due_first_and_no_more_than_asked(t: Transaction) -> None:
    """The one that waits longest is served first; what is not due is left alone."""
    late, early, future = await queue(t, "late"), await queue(t, "early"), await queue(t, "future")
    await t.queues.wake(late.id, NOW)
    await t.queues.wake(early.id, NOW - SOON)
    await t.queues.wake(future.id, NOW + TICK)
    assert [q.base_branch for q in await claim(t, limit=1)] == ["early"]
    assert [q.base_branch for q in await claim(t)] == ["late"]
    assert await claim(t) == ()
    assert await t.queues.next_due() == NOW + TICK


async def test_claim_due_after_a_worker_died_takes_its_queue_when_the_lease_ends(t: Transaction) -> None:
    """A queue held by a process that is no more is due again by itself."""
    main = await queue(t)
    await t.queues.wake(main.id, NOW - SOON)
    await claim(t, owner="died")
    assert await claim(t, now=NOW + LEASE - TICK) == ()
    assert await t.queues.next_due() == NOW + LEASE
    assert [q.id for q in await claim(t, owner="w", now=NOW + LEASE)] == [main.id]
    assert not await t.queues.renew(main.id, "died", NOW + 9 * LEASE)
    assert not await t.queues.release(main.id, "died", due_at=None, seen_wakes=1, now=NOW)
    assert await t.queues.release(main.id, "w", due_at=None, seen_wakes=1, now=NOW)


async def test_renew_keeps_others_away_for_longer(t: Transaction) -> None:
    """A long advance keeps its lease."""
    main = await queue(t)
    await t.queues.wake(main.id, NOW)
    await claim(t, owner="w")
    assert await t.queues.renew(main.id, "w", NOW + 2 * LEASE)
    assert await claim(t, now=NOW + LEASE) == ()


async def test_release_sets_the_next_look(t: Transaction) -> None:
    """A queue given back is due when its worker said."""
    main = await queue(t)
    await t.queues.wake(main.id, NOW)
    (claimed,) = await claim(t)
    assert await t.queues.release(main.id, "w", due_at=NOW + SOON, seen_wakes=claimed.wakes, now=NOW)
    assert await claim(t) == ()
    assert await t.queues.next_due() == NOW + SOON
    (claimed,) = await claim(t, now=NOW + SOON)
    await t.queues.release(main.id, "w", due_at=None, seen_wakes=claimed.wakes, now=NOW)
    assert await t.queues.next_due() is None


async def test_release_after_a_wake_that_was_not_seen_is_due_at_once(t: Transaction) -> None:
    """A hint that arrives between a worker's last look and its release is not lost."""
    main = await queue(t)
    await t.queues.wake(main.id, NOW)
    (claimed,) = await claim(t)
    await t.queues.wake(main.id, NOW + SOON)
    await t.queues.release(main.id, "w", due_at=None, seen_wakes=claimed.wakes, now=NOW + SOON)
    assert await t.queues.next_due() == NOW + SOON


async def test_release_all_at_the_start_of_the_only_process_makes_held_queues_due(t: Transaction) -> None:
    """After a restart nobody waits for the lease of a process that is no more."""
    main = await queue(t)
    await t.queues.wake(main.id, NOW)
    await claim(t, owner="before")
    await t.queues.release_all()
    assert [q.id for q in await claim(t, owner="after")] == [main.id]


async def test_pause_lets_a_queue_stand_still_until_it_is_resumed(t: Transaction) -> None:
    """A paused queue is nobody's to advance, tells why, and is looked at as soon as it is resumed."""
    main = await queue(t)
    await t.queues.wake(main.id, NOW)
    await t.queues.pause(main.id, PAUSE)
    assert await claim(t) == ()
    assert await t.queues.next_due() is None
    paused = await t.queues.get(main.id)
    assert paused is not None
    assert paused.paused == PAUSE
    await t.queues.resume(main.id, NOW + SOON)
    (resumed,) = await claim(t, now=NOW + SOON)
    assert resumed.paused is None


async def test_claim_due_by_many_workers_at_once_gives_each_queue_to_one(store: Store) -> None:
    """However many workers ask at the same time, no queue is advanced by two."""
    async with store.transaction() as t:
        for number in range(30):
            await t.queues.wake((await queue(t, f"branch-{number}")).id, NOW)

    async def work(owner: str) -> list[int]:
        claimed: list[int] = []
        while True:
            async with store.transaction() as t:
                batch = await claim(t, owner=owner, limit=2)
            if not batch:
                return claimed
            claimed += [q.id for q in batch]

    claimed = [queue_id for done in await asyncio.gather(*(work(f"w{n}") for n in range(8))) for queue_id in done]
    assert (len(claimed), len(set(claimed))) == (30, 30)
