"""Workers wake, claim, renew and release queues."""

import asyncio
from datetime import datetime

import pytest
from sqlalchemy import Engine, event, false

from queue_engine.domain.model import Queue, Repository
from queue_engine.store import Store, Transaction, WakeupKind
from queue_engine.store import queues as statements
from tests.store.examples import LEASE, NOW, OTHER, SOON, TICK, changed, claim, queue, stand


async def in_trouble(t: Transaction, main: Queue, number: int, *, priority: int = 0) -> None:
    added = await stand(t, main, number, priority=priority)
    await t.entries.save(changed(added, github_failures=3, github_failing_since=NOW))


async def test_wake_of_a_queue_whose_front_waits_for_trouble_to_pass_counts_and_shortens_nothing(
    t: Transaction,
) -> None:
    """A backoff is a backoff, however many hints come meanwhile, and whichever process restarts in between."""
    main, other = await queue(t), await queue(t, "main", OTHER)
    await in_trouble(t, main, 1)
    for each in (main, other):
        await t.queues.wake(each.id, NOW + SOON)
        await t.queues.wake(each.id, NOW)
    woken = {each.id: (each.due_at, each.wake_count) for each in await t.queues.all()}
    assert woken == {main.id: (NOW + SOON, 2), other.id: (NOW, 2)}


async def test_wake_of_a_queue_whose_failure_is_behind_the_front_counts(t: Transaction) -> None:
    """An overtaken entry delays no other by its earlier failures."""
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
    assert await t.queues.release(main.id, "w", due_at=NOW + SOON, wake_count=claimed.wake_count, now=NOW)
    released = await t.queues.get(main.id)
    assert released is not None
    assert released.due_at == NOW + SOON


async def test_wake_keeps_the_earlier_instant_and_counts(t: Transaction) -> None:
    """A call for later attention never puts off one for earlier."""
    main = await queue(t)
    claims = []
    for at in (NOW + SOON, NOW, NOW + 2 * SOON):
        await t.queues.wake(main.id, at)
        woken = await t.queues.get(main.id)
        assert woken is not None
        claims.append((woken.due_at, woken.wake_count))
    assert claims == [(NOW + SOON, 1), (NOW, 2), (NOW, 3)]


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
    assert not await t.queues.release(main.id, "died", due_at=None, wake_count=1, now=NOW)
    assert await t.queues.release(main.id, "w", due_at=None, wake_count=1, now=NOW)


async def test_renew_keeps_others_away_for_longer(t: Transaction) -> None:
    """A long advance keeps its lease."""
    main = await queue(t)
    await t.queues.wake(main.id, NOW)
    await claim(t, owner="w")
    assert await t.queues.renew(main.id, "w", NOW + 2 * LEASE)
    assert await claim(t, now=NOW + LEASE) == ()


async def test_release_sets_the_next_pass(t: Transaction) -> None:
    """A queue given back is due when its worker said."""
    main = await queue(t)
    await t.queues.wake(main.id, NOW)
    (claimed,) = await claim(t)
    assert await t.queues.release(main.id, "w", due_at=NOW + SOON, wake_count=claimed.wake_count, now=NOW)
    assert await claim(t) == ()
    assert await t.queues.next_due() == NOW + SOON
    (claimed,) = await claim(t, now=NOW + SOON)
    await t.queues.release(main.id, "w", due_at=None, wake_count=claimed.wake_count, now=NOW)
    assert await t.queues.next_due() is None


async def test_release_after_a_wake_that_was_missed_is_due_at_once(t: Transaction) -> None:
    """A hint that arrives between a worker's last look and its release is not lost."""
    main = await queue(t)
    await t.queues.wake(main.id, NOW)
    (claimed,) = await claim(t)
    await t.queues.wake(main.id, NOW + SOON)
    await t.queues.release(main.id, "w", due_at=None, wake_count=claimed.wake_count, now=NOW + SOON)
    assert await t.queues.next_due() == NOW + SOON


async def test_wake_of_a_leased_queue_is_for_its_holder_alone(store: Store) -> None:
    """The holder looks for more at the end of its pass; a claim by any other worker would be in vain."""
    async with store.transaction() as tx:
        main = await queue(tx)
        await tx.queues.wake(main.id, NOW)
        assert tx.due == {WakeupKind.QUEUES}
        await claim(tx)
    for after, due in ((LEASE - TICK, set()), (LEASE, {WakeupKind.QUEUES})):
        async with store.transaction() as tx:
            await tx.queues.wake(main.id, NOW + after)
            assert tx.due == due


async def test_release_all_at_the_start_of_the_only_process_makes_held_queues_due(t: Transaction) -> None:
    """After a restart no queue waits for the lease of a process that is no more."""
    main = await queue(t)
    await t.queues.wake(main.id, NOW)
    await claim(t, owner="before")
    await t.queues.release_all()
    assert [q.id for q in await claim(t, owner="after")] == [main.id]


async def busy(t: Transaction, repository: Repository, count: int, *, since: datetime = NOW) -> list[int]:
    """Queues of this repository that are due, the longest due first."""
    ids = [(await queue(t, f"branch-{number}", repository)).id for number in range(count)]
    for number, queue_id in enumerate(ids):
        await t.queues.wake(queue_id, since + number * TICK)
    return ids


def repository(number: int, installation: int) -> Repository:
    return Repository(id=number, owner="acme", name=f"r{number}", installation_id=installation)


async def test_claim_due_alternates_installations_and_repositories_within_them(t: Transaction) -> None:
    """However many queues of one are due, and however long: each other one is served before its second."""
    first, second = await busy(t, repository(1, 10), 6), await busy(t, repository(2, 10), 6, since=NOW + SOON)
    other = await busy(t, repository(3, 20), 2, since=NOW + 2 * SOON)
    claimed = [q.id for q in await claim(t, now=NOW + LEASE, limit=6)]
    assert claimed == [first[0], other[0], second[0], other[1], first[1], second[1]]


async def test_claim_due_counts_what_its_worker_has_under_way(t: Transaction) -> None:
    """Claims continue from there, so that a repository whose passes take long is not served first again and again."""
    slow = await busy(t, repository(1, 10), 4)
    assert [q.id for q in await claim(t, now=NOW + SOON, limit=2)] == slow[:2]
    quiet = await busy(t, repository(2, 10), 3, since=NOW + SOON)
    assert [q.id for q in await claim(t, now=NOW + LEASE - TICK, limit=3)] == [*quiet[:2], slow[2]]


async def test_claim_due_takes_no_more_of_one_repository_or_installation_than_allowed(t: Transaction) -> None:
    """What one may have at once is bounded, what is under way counts, and other workers have bounds of their own."""
    big, small, other = [
        await busy(t, repository(n, inst), count) for n, inst, count in ((1, 10, 5), (2, 10, 5), (3, 20, 5))
    ]

    async def taken(owner: str, limit: int = 9) -> list[int]:
        now = NOW + SOON
        claimed = await t.queues.claim_due(
            owner=owner, now=now, lease=LEASE, limit=limit, of_repository=2, of_installation=3
        )
        return sorted(q.id for q in claimed)

    assert await taken("w") == [*big[:2], small[0], *other[:2]]
    assert await taken("w") == []
    assert await taken("x", limit=1) == [small[1]]


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


async def test_claim_of_queues_that_others_have_locked_changes_nothing(
    t: Transaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of several workers that a burst wakes would pay for an update without rows."""
    await t.queues.wake((await queue(t)).id, NOW)
    monkeypatch.setattr(statements, "_LOCK", statements._LOCK.where(false()))
    made: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        made.append(statement.split()[0])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        assert await claim(t) == ()
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert set(made) <= {"SELECT", "WITH"}
