"""Runs of several members, and what plans remember, are stored as they were written; no writer overwrites another."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select

from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import Queue, TimelineEvent
from queue_engine.domain.run import (
    RUN_STARTED,
    CandidateTrigger,
    Run,
    RunMember,
    RunState,
)
from queue_engine.queries.train_status import load_train_statistics
from queue_engine.store import Transaction
from queue_engine.store.departures import DepartureQuery, day_of
from queue_engine.store.tables import runs
from queue_engine.store.trains import TrainMemory
from tests.store.examples import NOW, OTHER, REPOSITORY, SOON, queue, stand

TESTING = RunState.TESTING


def whole(main: Queue) -> Run:
    """A run with a value in every field."""
    return Run(
        id=None,
        queue_id=main.id,
        base_branch="main",
        base_tip="base",
        members=(
            RunMember(1, "e1", "h1", MergeMethod.SQUASH, "c1", "t1", "landed"),
            RunMember(2, "e2", "h2"),
        ),
        tested=frozenset({2}),
        trigger=CandidateTrigger.PULL_REQUEST,
        state=TESTING,
        started_at=NOW,
        candidate="c2",
        published_at=NOW + SOON,
        pull_request=9,
        pending_checks=("ci",),
        next_poll_at=NOW + SOON,
    )


async def test_run_on_a_branch_is_read_as_it_was_written(t: Transaction) -> None:
    """Its branches have its id, which the store gives."""
    main = await queue(t)
    stored = await t.runs.add(whole(main))
    assert stored.branch == f"imq/main/{stored.id}"
    assert await t.runs.of_queue(main.id) == (stored,)
    assert await t.runs.of_queues([main.id]) == (stored,)
    assert await t.runs.of_commit(REPOSITORY.id, "c2") == (stored,)
    assert await t.runs.of_commit(REPOSITORY.id + 1, "c2") == ()
    assert await t.runs.of_repository(REPOSITORY.id) == (stored,)
    assert replace(stored, id=None, version=0) == whole(main)


async def test_run_changed_by_another_is_stale(t: Transaction) -> None:
    """Its version is compared and set."""
    first = await t.runs.add(whole(await queue(t)))
    second = await t.runs.save(replace(first, state=RunState.PASSED))
    with pytest.raises(StaleRecord):
        await t.runs.save(first)
    await t.runs.save(replace(second, polls=1))
    with pytest.raises(StaleRecord):
        await t.runs.save(second)


async def test_member_that_landed_alone_has_the_commit_that_landed_it(t: Transaction) -> None:
    """P2: it is stored with the landing of the entry; a run that was removed has nothing to store."""
    stored = await t.runs.add(whole(await queue(t)))
    assert stored.id is not None
    await t.runs.note_landed(stored.id, 2, "c9")
    found = await t.runs.get(stored.id)
    assert found is not None
    assert found.members == (stored.members[0], replace(stored.members[1], landed_sha="c9"))
    await t.runs.remove(found)
    await t.runs.note_landed(stored.id, 2, "c9")


async def test_run_that_ended_is_kept_until_it_is_removed(t: Transaction) -> None:
    """Its record is what IMQ deletes its branches by."""
    main = await queue(t)
    ended = await t.runs.save(replace(await t.runs.add(whole(main)), state=RunState.ENDED))
    assert ended.id is not None
    assert await t.runs.of_queue(main.id) == ()
    assert await t.runs.of_commit(REPOSITORY.id, "c2") == ()
    assert await t.runs.get(ended.id) == ended
    await t.runs.remove(ended)
    assert await t.runs.get(ended.id) is None
    assert (await t.connection.execute(select(func.count()).select_from(runs))).scalar_one() == 0


async def test_report_on_a_candidate_may_count(t: Transaction) -> None:
    """The lookup of webhooks finds candidates as it finds updated heads, and once for all members."""
    main = await queue(t)
    stored = await t.runs.add(whole(main))
    member = await stand(t, main, 1)
    await t.entries.save(replace(member, run=stored))
    assert await t.candidate_commits.under_way([REPOSITORY.id]) == ((REPOSITORY.id, "base", "c2"),)


async def test_memory_of_trains_changed_by_another_is_stale(t: Transaction) -> None:
    """Two passes that plan by one memory cannot both count an outcome."""
    main = await queue(t)
    none = await t.trains.get(main.id)
    first = await t.trains.save(TrainMemory(main.id, none.version, {"base_tip": "a"}))
    assert await t.trains.get(main.id) == first
    await t.trains.save(TrainMemory(main.id, first.version, {"base_tip": "b"}))
    with pytest.raises(StaleRecord):
        await t.trains.save(first)
    await t.trains.remove(main.id)
    assert (await t.trains.get(main.id)).version == 0


async def test_queue_remembers_that_it_is_in_trains(t: Transaction) -> None:
    """A queue that never had trains costs no statement more."""
    main = await queue(t)
    assert not main.in_trains
    await t.queues.note_trains(main.id, True)
    found = await t.queues.get(main.id)
    assert found is not None
    assert found.in_trains


async def test_statistics_of_trains_count_only_the_queues_that_are_asked_for(t: Transaction) -> None:
    """A person reads no sums of a repository that GitHub does not show to that person."""
    for repository, branch, members in ((REPOSITORY, "main", 1), (REPOSITORY, "dev", 2), (OTHER, "main", 3)):
        of = await queue(t, branch, repository)
        await t.queues.note_trains(of.id, True)
        for _ in range(members):
            await t.timeline.append(TimelineEvent(NOW, RUN_STARTED, repository.id, branch, 0))
    day = day_of(NOW)

    async def counted(**chosen: Any) -> int:
        found = await load_train_statistics(t, DepartureQuery(day, day, **chosen))
        return 0 if found is None else found.runs

    assert await counted() == 6
    assert await counted(repository_ids=frozenset({REPOSITORY.id})) == 3
    assert await counted(repository_ids=frozenset({REPOSITORY.id}), base_branch="dev") == 2
    assert await counted(repository_ids=frozenset()) == 0
