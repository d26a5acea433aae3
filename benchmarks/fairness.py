"""What a busy repository costs the quiet ones: how soon they are served while it has far more to do than there is room.

Real queues in a real database and the scheduler as it is; GitHub is a double that takes its time. All are of one
installation, which is the harder case.
"""

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, cast

from benchmarks.sizes import Size, database_urls
from benchmarks.table import Row, timed
from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.facts import (
    BranchRules,
    CheckReport,
    CheckSuite,
    Commit,
    Comparison,
    MergeMethod,
    PullRequest,
    RequiredCheck,
    Snapshot,
    WorkflowRun,
)
from queue_engine.domain.model import EntryStatus, Repository
from queue_engine.domain.port import GitHub
from queue_engine.effects.context import Engine
from queue_engine.executor.scheduler import Scheduler
from queue_engine.migrations import migrate
from queue_engine.store import Store, WakeupKind
from tests.store.examples import changed
from tests.support.policies import StaticPolicies
from tests.support.real_time import LIMIT

_GOAL_SECONDS = 0.3
_GOAL_TIMES = 2
"""On a machine that is slow already: so many times what it takes without the busy one."""
_QUIET = 10
_INSTALLATION = 1
_BUSY = Repository(1, "acme", "busy", _INSTALLATION)


class _Slow:
    """GitHub as the passes of this measure need it: the busy repository waits for each answer, others do not."""

    def __init__(self, think: Callable[[], Awaitable[object]]) -> None:
        self._think = think
        self.asked: dict[int, asyncio.Event] = {}
        self.busy_with = 0
        self.most_at_once = 0

    async def comparison(self, repository: Repository, base_branch: str, head_sha: str) -> Comparison:
        """Behind, so that an update is asked for."""
        await self._answer(repository)
        return Comparison("tip", "base", 1, Commit(head_sha, f"tree-{head_sha}", ("work",)))

    async def snapshot(self, repository: Repository, number: int, **_: object) -> Snapshot:
        """The pull request, and that its head is behind."""
        await self._answer(repository)
        pull = PullRequest(
            number=number,
            title="A change",
            author="ada",
            assignees=(),
            open=True,
            merged=False,
            draft=False,
            head_sha=f"head-{number}",
            head_repository=repository.full_name,
            base_branch=f"branch-{number - 1}",
            mergeable=True,
            labels=frozenset({"merge-queue"}),
            merge_sha=None,
            maintainer_can_modify=True,
            methods=tuple(MergeMethod),
        )
        return Snapshot(pull, base_tip="tip", behind=1)

    async def update_branch(self, repository: Repository, number: int, expected_head: str) -> None:
        """Accepted."""
        await self._answer(repository)

    async def branch_rules(self, repository: Repository, base_branch: str) -> BranchRules:
        """One check, as remembered."""
        return BranchRules(frozenset({RequiredCheck("ci", None)}), native_queue=False, linear_history=False)

    async def check_reports(self, repository: Repository, *_: object) -> tuple[CheckReport, ...]:
        """Nothing yet."""
        self.asked[repository.id].set()
        return ()

    async def cancelled_for(self, *_: object) -> tuple[str, ...]:
        """Nothing is cancelled."""
        return ()

    async def check_suites(self, *_: object) -> tuple[CheckSuite, ...]:
        """No App has begun."""
        return ()

    async def workflow_runs(self, *_: object) -> tuple[WorkflowRun, ...]:
        """Nothing waits for approval."""
        return ()

    async def _answer(self, repository: Repository) -> None:
        if repository.id != _BUSY.id:
            return
        self.busy_with += 1
        self.most_at_once = max(self.most_at_once, self.busy_with)
        await self._think()
        self.busy_with -= 1


async def fairness_rows(size: Size, seed: int) -> list[Row]:
    """The quiet repositories' reaction beside the busy one and alone, on each database."""
    branches, rounds, seconds, apart = size.of((200, 3, 0.2, 0.5), (20, 1, 0.2, 0.5), (10, 1, 0.0, 0.0))
    think = partial(asyncio.sleep, seconds)
    with tempfile.TemporaryDirectory() as name, database_urls(size, Path(name)) as urls:
        return [await fairness_on(url, branches, rounds, think, random.Random(seed), apart) for url in urls]


async def fairness_on(
    url: str, branches: int, rounds: int, think: Callable[[], Awaitable[object]], chance: random.Random, apart: float
) -> Row:
    """The row for one database.

    `think`: what GitHub waits for before it answers about the busy repository; `apart`: within how many seconds the
    quiet ones are woken.
    """
    async with _engine(url, think) as (engine, github):
        await _fill(engine, branches)
        async with _processing(engine):
            alone = await _reactions(engine, github, rounds, chance, apart)
            await _wake_busy(engine)
            beside = await _reactions(engine, github, rounds, chance, apart)
            left = await _left(engine)
    kind = url.partition(":")[0]
    return Row(
        name=f"fairness {kind}",
        what=f"a quiet repository's queue is woken -> GitHub is asked, beside one with {branches} queues to update and "
        f"slow answers, {kind}",
        measured=timed(beside),
        value=median(beside),
        goal=f"< {_GOAL_SECONDS} s, each, or a median of at most {_GOAL_TIMES} x without",
        met=max(beside) < _GOAL_SECONDS or median(beside) <= _GOAL_TIMES * median(alone),
        reference=f"without the busy one {timed(alone)}",
        reference_value=median(alone),
        note=f"{_QUIET} quiet repositories, of the same installation; the busy one had up to {github.most_at_once} of "
        f"8 passes at once, and {left} of its queues to go when the last quiet one was served",
    )


@asynccontextmanager
async def _engine(url: str, think: Callable[[], Awaitable[object]]) -> AsyncIterator[tuple[Engine, _Slow]]:
    database, github = Database(url), _Slow(think)
    engine = Engine(
        Store(database),
        cast(GitHub, github),
        SystemClock(),
        StaticPolicies(Policy()),
        random=random.random,
        owner="bench",
    )
    try:
        await migrate(database)
        yield engine, github
    finally:
        await database.close()


@asynccontextmanager
async def _processing(engine: Engine) -> AsyncIterator[None]:
    """The scheduler's loop, as a process has it."""
    scheduler, waiter, over = Scheduler(engine), engine.wakeup.waiter((WakeupKind.QUEUES,)), asyncio.Event()

    async def loop() -> None:
        while not over.is_set():
            if not await scheduler.start_due():
                await waiter.wait(timedelta(seconds=LIMIT))  # each change and each end of a pass wakes it

    task = asyncio.create_task(loop())
    try:
        yield
    finally:
        over.set()
        engine.wakeup.notify()
        await task
        await scheduler.cancel()


def _quiet(number: int) -> Repository:
    return Repository(100 + number, "acme", f"quiet-{number}", _INSTALLATION)


async def _fill(engine: Engine, branches: int) -> None:
    """The busy repository's queues, each with a front that is behind; the quiet ones', each being checked."""
    for number in range(branches):
        await _stand(engine, _BUSY, f"branch-{number}", number + 1)
    for number in range(_QUIET):
        await _stand(engine, _quiet(number), "main", 1, status=EntryStatus.CHECKING, pending_checks=("ci",))


async def _stand(engine: Engine, repository: Repository, branch: str, number: int, **changes: Any) -> None:
    async with engine.change() as change:
        tx, now = change.tx, change.now
        queue = await tx.queues.find_or_create(repository, branch, now)
        added = await tx.entries.add(
            queue_id=queue.id,
            number=number,
            title=f"Change {number}",
            author="mona",
            queued_by="mona",
            queued_head=f"head-{number}",
            enqueued_at=now,
        )
        later = now + timedelta(hours=1)
        await tx.entries.save(changed(added, next_poll_at=later, **changes))


async def _wake_busy(engine: Engine) -> None:
    async with engine.change() as change:
        for queue in await change.tx.queues.of_repository(_BUSY.id):
            await change.tx.queues.wake(queue.id, change.now)


async def _left(engine: Engine) -> int:
    """How many of the busy repository's queues have not been served yet."""
    async with engine.store.reading() as tx:
        standing = await tx.entries.of_repository(_BUSY.id)
    return sum(entry.status is EntryStatus.PENDING for entry in standing)


async def _reactions(engine: Engine, github: _Slow, rounds: int, chance: random.Random, apart: float) -> list[float]:
    """Seconds from a report's wake to the question that follows it, of each quiet repository in each round."""

    async def one(number: int) -> float:
        await asyncio.sleep(chance.uniform(0, apart))
        repository = _quiet(number)
        asked = github.asked[repository.id] = asyncio.Event()
        start = perf_counter()
        async with engine.change() as change:
            (entry,) = await change.tx.entries.of_repository(repository.id)
            await change.tx.entries.save(changed(entry, next_poll_at=change.now))
            await change.tx.queues.wake(entry.queue_id, change.now)
        await asked.wait()
        return perf_counter() - start

    found: list[float] = []
    for _ in range(rounds):
        found += await asyncio.gather(*(one(number) for number in range(_QUIET)))
    return found
