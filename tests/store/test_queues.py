"""Queues are found, woken, claimed in turn, paused and released.

Covers `queue_engine/store/pauses.py` and `queue_engine/store/store.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime

import pytest

from queue_engine.domain.model import Pause, Queue, RedBase, Repository, Stall
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store, Transaction
from tests.store.examples import LEASE, NOW, OTHER, REPOSITORY, SOON, TICK, changed, queue, stand

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
    assert (created.repository, created.base_branch, created.pauses, created.due_at, created.wake_count) == (
        REPOSITORY,
        "main",
        (),
        None,
        0,
    )
    assert await t.queues.find(REPOSITORY.id, "release") is None
    assert await t.queues.get(created.id + 1) is None


async def test_queue_of_a_pull_request_is_that_of_its_entry(t: Transaction) -> None:
    """Another repository's pull request of the same number has its own."""
    main, release, other = await queue(t), await queue(t, "release"), await queue(t, "main", OTHER)
    await stand(t, main, 1)
    await stand(t, release, 2)
    await stand(t, other, 2)
    found = [await t.queues.of_pull_request(REPOSITORY.id, number) for number in (1, 2, 3)]
    assert [each and each.id for each in found] == [main.id, release.id, None]


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


async def test_some_repository_is_one_of_the_owner_where_there_is_one(t: Transaction) -> None:
    """Whatever stands in for a name that is not known is asked of the same installation, if it can be."""
    assert await t.queues.some_repository("acme") is None
    strangers = replace(REPOSITORY, id=1, owner="globex", installation_id=9)
    for each in (strangers, REPOSITORY):
        await t.queues.refresh_repository(each)
    assert await t.queues.some_repository("ACME") == REPOSITORY
    assert await t.queues.some_repository("nobody") == strangers
    assert await t.queues.repository_by_id(1) == strangers
    assert await t.queues.repository_by_id(4711) is None


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
    assert await t.queues.release(main.id, "w", due_at=NOW + SOON, seen_wakes=claimed.wake_count, now=NOW)
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
        seen.append((woken.due_at, woken.wake_count))
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
    assert await t.queues.release(main.id, "w", due_at=NOW + SOON, seen_wakes=claimed.wake_count, now=NOW)
    assert await claim(t) == ()
    assert await t.queues.next_due() == NOW + SOON
    (claimed,) = await claim(t, now=NOW + SOON)
    await t.queues.release(main.id, "w", due_at=None, seen_wakes=claimed.wake_count, now=NOW)
    assert await t.queues.next_due() is None


async def test_release_after_a_wake_that_was_not_seen_is_due_at_once(t: Transaction) -> None:
    """A hint that arrives between a worker's last look and its release is not lost."""
    main = await queue(t)
    await t.queues.wake(main.id, NOW)
    (claimed,) = await claim(t)
    await t.queues.wake(main.id, NOW + SOON)
    await t.queues.release(main.id, "w", due_at=None, seen_wakes=claimed.wake_count, now=NOW + SOON)
    assert await t.queues.next_due() == NOW + SOON


async def test_release_all_at_the_start_of_the_only_process_makes_held_queues_due(t: Transaction) -> None:
    """After a restart nobody waits for the lease of a process that is no more."""
    main = await queue(t)
    await t.queues.wake(main.id, NOW)
    await claim(t, owner="before")
    await t.queues.release_all()
    assert [q.id for q in await claim(t, owner="after")] == [main.id]


async def test_pause_makes_a_queue_due_so_that_those_who_wait_are_told(t: Transaction) -> None:
    """A paused queue is claimed as any other is: its pass tells why nothing goes on, and does nothing else."""
    main = await queue(t)
    await t.pauses.put(main.id, PAUSE)
    (claimed,) = await claim(t)
    assert (claimed.pauses, claimed.wake_count) == ((PAUSE,), 1)
    await t.queues.release(main.id, "w", due_at=None, seen_wakes=1, now=NOW)
    assert await t.queues.next_due() is None
    await t.pauses.lift(main.id, PAUSE.reason, now=NOW + SOON)
    (resumed,) = await claim(t, now=NOW + SOON)
    assert resumed.pauses == ()


async def test_pause_with_an_end_is_kept_whole(t: Transaction) -> None:
    """Who paused it, and until when, is what the answers to people are made of."""
    main = await queue(t)
    freeze = Pause(Reason.FROZEN, "the holidays", NOW, NOW + SOON, "rhea")
    await t.pauses.put(main.id, freeze)
    paused = await t.queues.get(main.id)
    assert paused is not None
    assert paused.pauses == (freeze,)


async def busy(t: Transaction, repository: Repository, count: int, *, since: datetime = NOW) -> list[int]:
    """Queues of this repository that are due, the longest due first."""
    ids = [(await queue(t, f"branch-{number}", repository)).id for number in range(count)]
    for number, queue_id in enumerate(ids):
        await t.queues.wake(queue_id, since + number * TICK)
    return ids


def repository(number: int, installation: int) -> Repository:
    return Repository(id=number, owner="acme", name=f"r{number}", installation_id=installation)


async def test_claim_due_serves_installations_in_turn_and_repositories_within_them(t: Transaction) -> None:
    """However many queues of one are due, and however long: each other one is served before its second."""
    first, second = await busy(t, repository(1, 10), 6), await busy(t, repository(2, 10), 6, since=NOW + SOON)
    other = await busy(t, repository(3, 20), 2, since=NOW + 2 * SOON)
    claimed = [q.id for q in await claim(t, now=NOW + LEASE, limit=6)]
    assert claimed == [first[0], other[0], second[0], other[1], first[1], second[1]]


async def test_claim_due_counts_what_its_worker_has_under_way(t: Transaction) -> None:
    """Turns go on from there, so that a repository whose passes take long is not served first again and again."""
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


async def test_red_base_is_looked_at_when_its_tip_reports_and_again_when_it_moves(t: Transaction) -> None:
    """Reports on other commits, and on other repositories, wake nobody."""
    main, other = await queue(t), await queue(t, "main", OTHER)
    red = RedBase("ci", "tip-1", NOW, 3, NOW + LEASE, 10)
    await t.red_bases.note(main.id, red)
    assert await t.red_bases.tips({REPOSITORY.id, OTHER.id}) == {(REPOSITORY.id, "tip-1")}
    await t.red_bases.reported(OTHER.id, "tip-1", NOW)
    await t.red_bases.reported(REPOSITORY.id, "tip-0", NOW)
    assert await claim(t) == ()
    await t.red_bases.reported(REPOSITORY.id, "tip-1", NOW)
    (woken,) = await claim(t)
    assert woken.red == replace(red, look_at=NOW)
    await t.red_bases.moved(woken, "tip-1", NOW + SOON)
    await t.red_bases.moved(other, "tip-2", NOW + SOON)
    assert await t.queues.get(main.id) == woken
    await t.red_bases.moved(woken, "tip-2", NOW + SOON)
    moved = await t.queues.get(main.id)
    assert moved is not None
    assert moved.red == RedBase("ci", "tip-2", NOW, 0, NOW + SOON, 10)
    assert not await t.red_bases.note(main.id, None, seen=red), "it is another by now"
    assert await t.red_bases.tips({REPOSITORY.id}) == {(REPOSITORY.id, "tip-2")}
    assert await t.red_bases.note(main.id, None, seen=moved.red)
    assert await t.red_bases.tips({REPOSITORY.id}) == set()


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


async def test_stall_is_kept_with_its_queue_and_hears_of_the_ci_once(t: Transaction) -> None:
    """A report on another commit says that the CI is up, the first one when; every report has the queue looked at."""
    main = await queue(t)
    stall = Stall(NOW, "head-1", "ci")
    await t.stalls.note(main.id, stall)
    assert await t.stalls.repositories({REPOSITORY.id, OTHER.id}) == {REPOSITORY.id}
    assert (await t.stalls.heads(REPOSITORY.id), await t.stalls.heads(OTHER.id)) == ({"head-1"}, set())
    await t.stalls.reported(OTHER.id, "head-2", NOW)
    await t.stalls.reported(REPOSITORY.id, "head-1", NOW)
    found = await t.queues.get(main.id)
    assert found is not None
    assert (found.stall, found.due_at) == (stall, NOW)
    for at in (SOON, SOON + TICK):
        await t.stalls.reported(REPOSITORY.id, "head-2", NOW + at)
    found = await t.queues.get(main.id)
    assert found is not None
    assert found.stall == replace(stall, ci_seen_at=NOW + SOON)
    await t.stalls.note(main.id, None)
    assert await t.stalls.repositories({REPOSITORY.id}) == set()
