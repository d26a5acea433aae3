"""Idle queues are released together, and every other queue gets its pass."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.model import Queue, Repository
from queue_engine.effects.context import Engine
from queue_engine.executor import scheduler
from queue_engine.executor.scheduler import PassBatch, Scheduler
from queue_engine.rules.policies import PolicyKey
from queue_engine.store import Store, Transaction
from tests.store.examples import changed, stand
from tests.support.policies import StaticPolicies, UncachedPolicies
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import HOUR, MINUTE, NOW, POLICY, READY, REPOSITORY

MANY = 20
"""More queues than a scheduler advances at once."""


class Passes:
    """Stands for `advance`: counts the passes by queue, each of which waits for an hour."""

    def __init__(self) -> None:
        self.of: Counter[int] = Counter()

    async def __call__(self, engine: Engine, queue: Queue, held: object) -> datetime | None:
        self.of[queue.id] += 1
        return NOW + HOUR


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    counted = Passes()
    monkeypatch.setattr(scheduler, "advance", counted)
    return counted


async def woken(scene: Setup, count: int = MANY) -> list[int]:
    """Queues whose fronts wait for a minute, all woken for nothing."""
    ids = []
    async with scene.store.transaction() as tx:
        for number in range(count):
            queue = await tx.queues.find_or_create(REPOSITORY, f"branch-{number}", NOW)
            added = await stand(tx, queue, number + 1)
            waiting = changed(added, status=READY, base_tip="base-1", next_poll_at=NOW + MINUTE)
            await tx.entries.save(waiting)
            await tx.queues.wake(queue.id, NOW)
            ids.append(queue.id)
    return ids


async def dues(scene: Setup) -> dict[int, datetime | None]:
    async with scene.store.reading() as tx:
        return {queue.id: queue.due_at for queue in await tx.queues.all()}


async def run(engine: Engine) -> None:
    """Advance all that is due."""
    parts = Scheduler(engine)
    while await parts.run_due():
        pass


async def test_idle_queues_that_are_woken_together_get_no_pass(scene: Setup, passes: Passes) -> None:
    """P7: each waits on, for as long as its pass would say."""
    ids = await woken(scene)
    await run(scene.engine)
    assert (passes.of, await dues(scene)) == (Counter(), dict.fromkeys(ids, NOW + MINUTE))
    async with scene.store.transaction() as tx:
        await tx.queues.wake(ids[0], NOW)
        assert len(await tx.queues.claim_due(owner="another", now=NOW, lease=MINUTE, limit=9)) == 1, "none is leased"


async def test_queue_that_is_due_alone_gets_its_pass(scene: Setup, passes: Passes) -> None:
    """A pass is as cheap then, and the way of a check's report to the merge has no step more."""
    (queue_id,) = await woken(scene, 1)
    await run(scene.engine)
    assert passes.of == {queue_id: 1}


async def test_queues_with_a_change_among_many_idle_ones_get_one_pass_each(scene: Setup, passes: Passes) -> None:
    """P2: also those that come late in the order of claims."""
    ids = await woken(scene)
    async with scene.store.transaction() as tx:
        for queue_id in ids[-9:]:
            (front,) = await tx.entries.of_queue(queue_id)
            await tx.entries.save(replace(front, needs_refetch=True))
    await run(scene.engine)
    assert passes.of == dict.fromkeys(ids[-9:], 1)
    assert await dues(scene) == {**dict.fromkeys(ids, NOW + MINUTE), **dict.fromkeys(ids[-9:], NOW + HOUR)}


async def test_queues_whose_policy_is_not_cached_get_a_pass(scene: Setup, passes: Passes) -> None:
    """P1: a changed configuration is read before anything is decided."""
    ids = await woken(scene)
    await run(replace(scene.engine, policies=UncachedPolicies(POLICY)))
    assert passes.of == dict.fromkeys(ids, 1)


class Generations(StaticPolicies):
    """Takes note of the generations that it is asked for."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.asked: set[tuple[int, int]] = set()

    def cached(self, repository: Repository, base_branch: str, generations: tuple[int, int]) -> Policy | None:
        self.asked.add(generations)
        return super().cached(repository, base_branch, generations)


async def test_policies_are_those_of_the_stored_generations(scene: Setup, passes: Passes) -> None:
    """P1: a change of the repository's rules or of its owner's counts in every process."""
    await woken(scene)
    async with scene.store.transaction() as tx:
        await tx.repositories.refresh(replace(REPOSITORY, owner="Acme"))
        await tx.repositories.refresh(replace(REPOSITORY, id=99, name=".github"))
        for repository_id in (REPOSITORY.id, 99, 99):
            await tx.repositories.renew_settings(repository_id)
    policies = Generations(POLICY)
    await run(replace(scene.engine, policies=policies))
    assert policies.asked == {(1, 2)}


@pytest.mark.parametrize("where", ["wait_of", "front_decides", "fronts"])
async def test_error_about_one_queue_leaves_each_queue_its_pass(
    scene: Setup, passes: Passes, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """P5: the pass over the broken queue meets the error again, and counts it there."""
    ids = await woken(scene)

    def fails(*_: object) -> Any:
        raise ValueError("a stored value that nobody wrote")

    async def fails_later(*_: object) -> Any:
        fails()

    if where == "fronts":
        monkeypatch.setattr("queue_engine.store.entries.QueueBatch.fronts", fails_later)
    else:
        monkeypatch.setattr(scheduler, where, fails)
    await run(scene.engine)
    # The judgement of all entries needs no other.
    assert passes.of == ({} if where == "front_decides" else dict.fromkeys(ids, 1))


async def test_entries_behind_the_front_are_read_where_they_count(scene: Setup, passes: Passes) -> None:
    """P3: a hotfix preempts the front, and an entry that was released from a block is the front; each has a pass."""
    ids = await woken(scene)
    async with scene.store.transaction() as tx:
        (main,) = [queue for queue in await tx.queues.all() if queue.id == ids[-1]]
        await stand(tx, main, 99, hotfix=True, preempts=True)
        (blocked,) = await tx.entries.of_queue(ids[-2])
        await tx.entries.save(replace(blocked, blocked_since=NOW, blocked_until=NOW + HOUR))
    await run(scene.engine)
    assert passes.of == {ids[-1]: 1}
    assert await dues(scene) == {**dict.fromkeys(ids, NOW + MINUTE), ids[-2]: NOW + HOUR, ids[-1]: NOW + HOUR}


async def test_queues_that_need_a_pass_are_read_here_once(scene: Setup, passes: Passes) -> None:
    """P7: while they wait for room, each pass that ends would read them all again."""
    ids = await woken(scene)
    read: Counter[int] = Counter()

    class Counted(UncachedPolicies):
        def cached(self, repository: Repository, base_branch: str, generations: tuple[int, int]) -> Policy | None:
            read[int(base_branch.removeprefix("branch-"))] += 1
            return None

    await run(replace(scene.engine, policies=Counted(POLICY)))
    assert passes.of == dict.fromkeys(ids, 1)
    assert max(read.values()) == 2, "once in a transaction, and once after the recall"


class SharedPolicies(StaticPolicies):
    """Returns as cached what it recalled; takes note of how many policies each recall wanted."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.recalled: set[PolicyKey] = set()
        self.wanted: list[int] = []

    def cached(self, repository: Repository, base_branch: str, generations: tuple[int, int]) -> Policy | None:
        return self._policy if (repository, base_branch, generations) in self.recalled else None

    async def recall(self, wanted: Sequence[PolicyKey]) -> Collection[PolicyKey]:
        self.recalled.update(wanted)
        self.wanted.append(len(wanted))
        return wanted


async def test_idle_queues_get_no_pass_once_their_policies_are_recalled(scene: Setup, passes: Passes) -> None:
    """P7: after a restart nothing is cached, so that the queues claimed before the recall get their pass."""
    ids = await woken(scene)
    policies = SharedPolicies(POLICY)
    await run(replace(scene.engine, policies=policies))
    assert len(policies.wanted) == 1
    assert sum(passes.of.values()) <= MANY - policies.wanted[0] + 4, "at most four of one repository meanwhile"
    assert await dues(scene) == {**dict.fromkeys(ids, NOW + MINUTE), **dict.fromkeys(passes.of, NOW + HOUR)}


async def test_queues_found_again_during_a_recall_are_not_recalled_twice(scene: Setup, passes: Passes) -> None:
    """P5: a pass that starts meanwhile finds the same queues without policies; the next recall is for others."""
    await woken(scene)
    wanted: list[PolicyKey] = []

    class Slow(UncachedPolicies):
        async def recall(self, keys: Sequence[PolicyKey]) -> Collection[PolicyKey]:
            wanted.extend(keys)
            async with scene.store.transaction() as tx:
                await batch.release_idle(tx, (), ())
            return ()

    batch = PassBatch(replace(scene.engine, policies=Slow(POLICY)))
    await batch.recall_policies()
    assert len(wanted) == MANY
    assert not batch.has_unread()


async def test_transaction_that_ends_after_a_recall_wants_none_of_its_policies(scene: Setup, passes: Passes) -> None:
    """P5: it read the cached policies before the recall, and another recall would find none either."""
    await woken(scene)
    read, ended = asyncio.Event(), asyncio.Event()

    class Slow(UncachedPolicies):
        async def recall(self, keys: Sequence[PolicyKey]) -> Collection[PolicyKey]:
            return ()

    batch = PassBatch(replace(scene.engine, policies=Slow(POLICY)))
    policies_of = batch._policies

    async def slowly(tx: Transaction, queues: Sequence[Queue]) -> dict[int, Policy]:
        found = await policies_of(tx, queues)
        read.set()
        await ended.wait()
        return found

    async def transaction() -> None:
        async with scene.store.transaction() as tx:
            await batch.release_idle(tx, (), ())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "_policies", slowly)
        under_way = asyncio.create_task(transaction())
        await read.wait()
        await batch.recall_policies()
        ended.set()
        await under_way
    assert not batch.has_unread()


async def test_recall_wants_no_policy_twice(scene: Setup, passes: Passes, monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: IMQ recalls the policies of later queues also if those of earlier ones are not stored."""
    monkeypatch.setattr(scheduler, "_AT_MOST", 6)
    monkeypatch.setattr(scheduler, "_READ_AT_MOST", 5)
    await woken(scene)
    wanted: list[PolicyKey] = []

    class Nothing(UncachedPolicies):
        async def recall(self, keys: Sequence[PolicyKey]) -> Collection[PolicyKey]:
            wanted.extend(keys)
            return ()

    await run(replace(scene.engine, policies=Nothing(POLICY)))
    assert len(wanted) == len({branch for _, branch, _ in wanted})
