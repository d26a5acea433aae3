"""The scheduler: one pass over a queue at a time, as part of a work that has a name."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime

import pytest

from queue_engine.core.concurrency.request_context import RequestContext, RequestPriority, current_work
from queue_engine.core.database.database import Database
from queue_engine.domain.model import Queue, Repository
from queue_engine.effects.context import Engine
from queue_engine.executor import scheduler
from queue_engine.executor.queue_pass import LeaseLost
from queue_engine.executor.scheduler import Scheduler
from queue_engine.store import Store, Transaction
from tests.support.policies import UncachedPolicies
from tests.support.real_time import LIMIT
from tests.unit.bot.conftest import ManualClock
from tests.unit.queue_engine.core.recorded_worker import Clock
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import HOUR, MINUTE, NOW, POLICY


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


class Passes:
    """Stands for `advance`: passes that go on until they are let go."""

    def __init__(self) -> None:
        self.works: list[RequestContext] = []
        self.begun, self.end = asyncio.Event(), asyncio.Event()

    async def begin(self, scene: Setup, monkeypatch: pytest.MonkeyPatch) -> tuple[Queue, Scheduler]:
        """A queue with work, and the scheduler whose pass over it is under way."""
        monkeypatch.setattr(scheduler, "advance", self)
        queue = await scene.front()
        async with scene.store.transaction() as tx:
            await tx.queues.wake(queue.id, NOW)
        parts = Scheduler(scene.engine)
        assert await parts.start_due()
        await self.begun.wait()
        return queue, parts

    async def __call__(self, engine: Engine, queue: Queue, held: object) -> datetime | None:
        self.works.append(current_work())
        self.begun.set()
        await self.end.wait()
        return None


async def test_scheduler_claims_again_what_it_is_advancing_and_starts_no_second_pass(
    scene: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that jumps, or a database that was away, ends a lease under a pass that continues."""
    passes = Passes()
    queue, parts = await passes.begin(scene, monkeypatch)
    async with scene.store.transaction() as tx:
        await tx.queues.release_all()
    assert not await parts.start_due()
    passes.end.set()
    await parts.drain()
    assert passes.works == [RequestContext(RequestPriority.NOW, f"queue:{queue.id}", None)]
    async with scene.store.reading() as tx:
        assert await tx.queues.next_due() is None, "the one pass gave the queue back"


async def test_scheduler_advances_a_queue_again_after_its_pass(scene: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ended is under way no more, be it by an error; then it is advanced again when the backoff has passed."""
    calls: list[int] = []
    clock = ManualClock()
    clock.instant = NOW

    async def fails(engine: Engine, queue: Queue, held: object) -> datetime | None:
        calls.append(queue.errors)
        if len(calls) < 3:
            raise ValueError("a fault of our own")
        return NOW + HOUR

    monkeypatch.setattr(scheduler, "advance", fails)
    queue = await scene.front()
    parts = Scheduler(replace(scene.engine, clock=clock))
    async with scene.store.transaction() as tx:
        await tx.queues.wake(queue.id, NOW)
    assert await parts.run_due()
    assert not await parts.run_due()
    async with scene.store.transaction() as tx:
        await tx.queues.wake(queue.id, NOW)
    assert not await parts.run_due(), "no hint shortens the backoff"
    for minutes in (1, 2, 60):
        clock.instant = NOW + minutes * MINUTE
        assert await parts.run_due()
    assert calls == [0, 1, 2, 0], "a pass that succeeds ends the count"


async def test_scheduler_advances_a_queue_at_once_that_was_woken_during_its_pass(
    scene: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass may have read the state from before the webhook; so it does not decide when the next one is due."""
    passes = Passes()
    queue, parts = await passes.begin(scene, monkeypatch)
    async with scene.store.transaction() as tx:
        await tx.queues.wake(queue.id, NOW)
    passes.end.set()
    await parts.drain()
    assert await parts.run_due()
    assert not await parts.run_due()


class Leased:
    """Stands for `advance`: one pass that asks before its next step whether it still holds the lease."""

    def __init__(self) -> None:
        self.begun, self.lost = asyncio.Event(), asyncio.Event()

    async def __call__(self, engine: Engine, queue: Queue, held: Callable[[], bool]) -> datetime | None:
        self.begun.set()
        async with asyncio.timeout(LIMIT):
            while held():  # noqa: ASYNC110 - nobody tells a pass that its lease is lost
                await asyncio.sleep(0)
        self.lost.set()
        raise LeaseLost


async def claimed_by_another(scene: Setup, at: datetime) -> tuple[Queue, ...]:
    async with scene.store.transaction() as tx:
        return await tx.queues.claim_due(owner="another", now=at, lease=MINUTE, limit=9)


async def test_scheduler_claims_no_queue_whose_release_has_no_answer(
    scene: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL has released a woken queue, and its answer is late: a lease without a pass would last 30 seconds."""
    passes = Passes()
    queue, parts = await passes.begin(scene, monkeypatch)
    transaction, claims = scene.store.transaction, list[bool]()

    @asynccontextmanager
    async def answered_late() -> AsyncIterator[Transaction]:
        async with transaction() as tx:
            yield tx
        monkeypatch.setattr(scene.store, "transaction", transaction)
        claims.append(await parts.start_due())

    async with scene.store.transaction() as tx:
        await tx.queues.wake(queue.id, NOW)
    monkeypatch.setattr(scene.store, "transaction", answered_late)
    passes.end.set()
    await parts.drain()
    assert claims == [False]
    assert await parts.run_due()
    assert len(passes.works) == 2


async def test_scheduler_renews_the_lease_during_a_pass_and_ends_the_pass_that_lost_it(
    scene: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass may take longer than its lease; one that lost it takes no step, stores nothing and counts no error."""
    clock, leased = Clock(), Leased()
    clock.time = NOW
    monkeypatch.setattr(scheduler, "advance", leased)
    queue = await scene.front()
    parts = Scheduler(replace(scene.engine, clock=clock))
    async with scene.store.transaction() as tx:
        await tx.queues.wake(queue.id, NOW)
    assert await parts.start_due()
    await leased.begun.wait()
    for _ in range(4):
        await clock.pass_to_next_sleeper()
    assert clock.time - NOW > scene.engine.lease
    assert await claimed_by_another(scene, clock.time) == ()
    async with scene.store.transaction() as tx:
        await tx.queues.release_all()
    (taken,) = await claimed_by_another(scene, clock.time)
    assert not leased.lost.is_set()
    await clock.pass_to_next_sleeper()
    await parts.drain()
    assert leased.lost.is_set()
    async with scene.store.reading() as tx:
        after = await tx.queues.get(queue.id)
        assert (after, await tx.queues.next_due()) == (taken, clock.time - scene.engine.lease / 3 + MINUTE)


async def test_scheduler_leaves_a_queue_alone_whose_lease_it_lost_to_itself(
    scene: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease in the database may be its own again, for another pass: the one that ends gives nothing back."""

    async def lost(engine: Engine, queue: Queue, held: object) -> datetime | None:
        raise LeaseLost

    monkeypatch.setattr(scheduler, "advance", lost)
    queue = await scene.front()
    async with scene.store.transaction() as tx:
        await tx.queues.wake(queue.id, NOW)
    assert await Scheduler(scene.engine).run_due()
    async with scene.store.reading() as tx:
        after = await tx.queues.get(queue.id)
        assert await tx.queues.next_due() == NOW + scene.engine.lease
    assert after is not None
    assert after.errors == 0


class Served:
    """Stands for `advance`: passes that go on for ever; who has one."""

    def __init__(self) -> None:
        self.by_repository: Counter[int] = Counter()

    async def __call__(self, engine: Engine, queue: Queue, held: object) -> datetime | None:
        self.by_repository[queue.repository.id] += 1
        await asyncio.Event().wait()
        return None


async def wake(scene: Setup, repository: Repository, count: int, at: datetime) -> None:
    async with scene.store.transaction() as tx:
        for number in range(count):
            queue = await tx.queues.find_or_create(repository, f"branch-{number}", NOW)
            await tx.queues.wake(queue.id, at)


async def test_scheduler_keeps_room_for_others_beside_a_repository_and_an_installation_with_much_to_do(
    scene: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow their passes are: half of the places for one repository, three quarters for one installation."""
    served = Served()
    monkeypatch.setattr(scheduler, "advance", served)
    parts = Scheduler(replace(scene.engine, policies=UncachedPolicies(POLICY)), concurrency=8)
    busy, busy_too, quiet, other = (
        Repository(number, "acme", f"r{number}", installation) for number, installation in enumerate((1, 1, 1, 2))
    )
    await wake(scene, busy, 50, NOW - 9 * MINUTE)
    await parts.start_due()
    await wake(scene, busy_too, 50, NOW - 5 * MINUTE)
    await parts.start_due()
    await asyncio.sleep(0)
    assert served.by_repository == {busy.id: 4, busy_too.id: 2}
    await wake(scene, other, 50, NOW)
    await parts.start_due()
    await asyncio.sleep(0)
    assert served.by_repository == {busy.id: 4, busy_too.id: 2, other.id: 2}
    await parts.cancel()
    async with scene.store.transaction() as tx:
        await tx.queues.release_all()
    served.by_repository.clear()
    await wake(scene, quiet, 1, NOW)
    await parts.start_due()
    await asyncio.sleep(0)
    assert set(served.by_repository) == {busy.id, busy_too.id, quiet.id, other.id}, "everybody has one"
    await parts.cancel()
