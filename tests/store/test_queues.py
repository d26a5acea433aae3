"""Queues are found, woken, claimed in order, paused and released."""

import asyncio
from dataclasses import replace

from queue_engine.domain.model import Pause, RedBase, Stall
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store, Transaction
from tests.store.examples import LEASE, NOW, OTHER, REPOSITORY, SOON, TICK, claim, queue, stand

PAUSE = Pause(reason=Reason.TREE_MISMATCH, detail="what landed is not what was tested", since=NOW)


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
    """A rename reaches all rows of the repository, and no others."""
    main, other = await queue(t), await queue(t, "main", OTHER)
    await stand(t, main, 1)
    renamed = replace(REPOSITORY, owner="umbrella", name="missile", installation_id=71)
    await t.repositories.refresh(renamed)
    assert (await queue(t)).repository == renamed
    (entry,) = await t.entries.of_queue(main.id)
    assert entry.repository == renamed
    assert await t.queues.get(other.id) == other


async def test_repository_is_found_by_the_name_it_has_now_in_any_letters(t: Transaction) -> None:
    """Names compare as on GitHub; one that was only swept is known, and an old name is free or another repository's."""
    await t.repositories.refresh(REPOSITORY)
    await t.repositories.refresh(OTHER)
    assert await t.repositories.named("ACME", "Rocket") == REPOSITORY
    assert await t.repositories.named("acme", "rock") is None
    await t.repositories.refresh(replace(REPOSITORY, name="missile"))
    assert await t.repositories.named("acme", "rocket") is None
    heir = replace(REPOSITORY, id=9, name="sled")
    await t.repositories.refresh(heir)
    assert await t.repositories.named("acme", "sled") == heir


async def test_some_repository_is_one_of_the_owner_where_there_is_one(t: Transaction) -> None:
    """An unknown name is asked of the same installation, if it can be."""
    assert await t.repositories.some("acme") is None
    strangers = replace(REPOSITORY, id=1, owner="globex", installation_id=9)
    for each in (strangers, REPOSITORY):
        await t.repositories.refresh(each)
    assert await t.repositories.some("ACME") == REPOSITORY
    assert await t.repositories.some("nobody") == strangers
    assert await t.repositories.by_id(1) == strangers
    assert await t.repositories.by_id(4711) is None


async def test_pause_makes_a_queue_due_so_that_entries_announce_it(t: Transaction) -> None:
    """A paused queue is claimed as any other is: its pass announces the blocker, and does nothing else."""
    main = await queue(t)
    await t.pauses.put(main.id, PAUSE)
    (claimed,) = await claim(t)
    assert (claimed.pauses, claimed.wake_count) == ((PAUSE,), 1)
    await t.queues.release(main.id, "w", due_at=None, wake_count=1, now=NOW)
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


async def test_red_base_is_read_when_its_tip_reports_and_again_when_it_moves(t: Transaction) -> None:
    """Reports on other commits, and on other repositories, wake no queue."""
    main, other = await queue(t), await queue(t, "main", OTHER)
    red = RedBase("ci", "tip-1", NOW, 3, NOW + LEASE, 10)
    await t.red_bases.note(main.id, red)
    assert await t.red_bases.tips({REPOSITORY.id, OTHER.id}) == {(REPOSITORY.id, "tip-1")}
    await t.red_bases.reported(OTHER.id, "tip-1", NOW)
    await t.red_bases.reported(REPOSITORY.id, "tip-0", NOW)
    assert await claim(t) == ()
    await t.red_bases.reported(REPOSITORY.id, "tip-1", NOW)
    (woken,) = await claim(t)
    assert woken.red == replace(red, next_poll_at=NOW)
    await t.red_bases.moved(woken, "tip-1", NOW + SOON)
    await t.red_bases.moved(other, "tip-2", NOW + SOON)
    assert await t.queues.get(main.id) == woken
    await t.red_bases.moved(woken, "tip-2", NOW + SOON)
    moved = await t.queues.get(main.id)
    assert moved is not None
    assert moved.red == RedBase("ci", "tip-2", NOW, 0, NOW + SOON, 10)
    assert not await t.red_bases.note(main.id, None, expected=red), "it is another by now"
    assert await t.red_bases.tips({REPOSITORY.id}) == {(REPOSITORY.id, "tip-2")}
    assert await t.red_bases.note(main.id, None, expected=moved.red)
    assert await t.red_bases.tips({REPOSITORY.id}) == set()


async def test_stall_is_kept_with_its_queue_and_learns_of_the_ci_once(t: Transaction) -> None:
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
    assert found.stall == replace(stall, ci_active_at=NOW + SOON)
    await t.stalls.note(main.id, None)
    assert await t.stalls.repositories({REPOSITORY.id}) == set()
