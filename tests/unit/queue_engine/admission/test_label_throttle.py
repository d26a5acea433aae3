"""IMQ refuses labels of a person without the right ever less often, and delays no other person's (P7, P5)."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from queue_engine.admission.throttle import count_label, labeling, numbers_put_off
from queue_engine.core.database.database import Database
from queue_engine.core.jobs.worker import Worker, WorkerSettings
from queue_engine.domain.facts import Permission, PullRequest, Snapshot
from queue_engine.domain.model import Repository
from queue_engine.domain.port import GitHub as Port
from queue_engine.effects.context import Engine
from queue_engine.handlers.inbox import Inbox
from queue_engine.handlers.reconciler import Reconciler
from queue_engine.rules.eligibility import Admit
from queue_engine.store import Store
from queue_engine.store.rejections import Throttle
from tests.support.policies import StaticPolicies
from tests.support.webhooks import a_webhook
from tests.unit.queue_engine.engine_setup import Clock, GitHub
from tests.unit.queue_engine.examples import HOUR, MINUTE, NOW, POLICY, REPOSITORY, SECOND, pull
from tests.unit.queue_engine.sweeps import a_job


class Moving(Clock):
    """Time that the test moves."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> datetime:
        return self.at


class LabeledGitHub(GitHub):
    """Every pull request carries the label, and shows `changes`; `reads` lists which ones IMQ read, and for whom."""

    def __init__(self) -> None:
        super().__init__()
        self.rights = {"tria": Permission.TRIAGE}
        self.changes: dict[str, Any] = {}
        self.reads: list[tuple[int, str | None]] = []

    async def own_login(self) -> str:
        return "imq[bot]"

    async def latest_pull_requests(self, *_: object) -> tuple[PullRequest, ...]:
        return tuple(_labeled_pull(number) for number in range(1, 31))

    async def snapshot(
        self, _repository: object, number: int, *, login: str | None, head_sha: str | None = None
    ) -> Snapshot:
        self.reads.append((number, login))
        shown = replace(_labeled_pull(number), **self.changes)
        return await self._answer("snapshot", Snapshot(shown, self.rights.get(login or "", Permission.WRITE)))


def _labeled_pull(number: int) -> PullRequest:
    return pull(number=number, head_sha=f"head-{number}", labels=frozenset({POLICY.trigger_label}), comments=0)


class RecordedHandler:
    """A worker that follows hints, on a clock that the test moves."""

    def __init__(self, database: Database) -> None:
        self.clock, self.github = Moving(), LabeledGitHub()
        self.store = Store(database)
        github = cast(Port, self.github)
        self.engine = Engine(self.store, github, self.clock, StaticPolicies(POLICY), random=lambda: 0.5, owner="w")
        self.sweeper = Reconciler(self.engine, interval=timedelta(minutes=10))
        self.inbox = Inbox(self.engine, self.sweeper)
        handlers = self.inbox.handlers()
        self.worker = Worker(database, self.clock, handlers, WorkerSettings("w", lambda: 0.5))

    async def label(self, numbers: Iterable[int], *, by: str = "tria") -> None:
        """Somebody labels pull requests at once, and what is due is done."""
        for number in numbers:
            await self.inbox.receive(_label_event(number, by, delivery=f"{by}-{number}-{self.clock.at}"))
        await self.work()

    async def work(self) -> None:
        with capture_logs():
            await self.worker.run_due()

    async def pass_time(self, duration: timedelta) -> None:
        end = self.clock.at + duration
        while (due := await self.worker.next_due()) is not None and due <= end:
            self.clock.at = max(due, self.clock.at)
            await self.work()
        self.clock.at = end

    async def refused(self) -> set[int]:
        async with self.store.reading() as tx:
            return {n for n in range(1, 31) if await tx.rejections.find(REPOSITORY.id, n) is not None}

    async def queued(self) -> list[int]:
        async with self.store.reading() as tx:
            return [entry.number for entry in await tx.entries.of_repository(REPOSITORY.id)]

    async def put_off(self, repository: Repository = REPOSITORY) -> set[int]:
        async with self.store.reading() as tx:
            return await numbers_put_off(tx, repository.id)

    async def times(self, by: str = "tria") -> int:
        async with self.store.reading() as tx:
            throttle = await tx.throttles.find(REPOSITORY.id, labeling(by))
        return 0 if throttle is None else throttle.times


def _label_event(number: int, by: str, *, delivery: str) -> Any:
    return a_webhook(
        "labeled",
        delivery=delivery,
        installation_id=REPOSITORY.installation_id,
        repository_id=REPOSITORY.id,
        owner=REPOSITORY.owner,
        name=REPOSITORY.name,
        number=number,
        branch="main",
        head_sha=f"head-{number}",
        label=POLICY.trigger_label,
        sender=by,
    )


@pytest.fixture
def handler(sqlite_database: Database) -> RecordedHandler:
    return RecordedHandler(sqlite_database)


@pytest.mark.parametrize("apart", [timedelta(0), 2 * SECOND], ids=["at once", "within a minute"])
@pytest.mark.thorough
async def test_twenty_labels_of_a_triager_cost_a_dozen_requests_an_hour_and_all_are_refused(
    handler: RecordedHandler, apart: timedelta
) -> None:
    """Four at once; another person's labels in between, also on one of these pull requests, are answered at once."""
    if apart:
        for number in range(1, 21):
            await handler.label([number])
            await handler.pass_time(apart)
    else:
        await handler.label(range(1, 21))
    assert len(handler.github.reads) == len(await handler.refused()) == (5 if apart else 4)
    await handler.label([20, 21], by="mona")
    assert await handler.queued() == [20, 21]
    await handler.pass_time(HOUR)
    assert 9 <= len(await handler.refused()) <= 12
    assert len(handler.github.reads) <= 12 + 2
    await handler.pass_time(12 * HOUR)
    assert await handler.refused() == set(range(1, 20))
    assert sorted(number for number, by in handler.github.reads if by == "tria") == list(range(1, 20))
    assert (await handler.queued(), await handler.put_off()) == ([20, 21], set())


async def test_sweep_asks_nothing_for_labels_that_wait(database: Database) -> None:
    """On both databases the sweep reads what no webhook reported, and leaves labels that wait to their job."""
    handler = RecordedHandler(database)
    await handler.label(range(1, 9))
    assert await handler.put_off() == {5, 6, 7, 8}
    assert await handler.put_off(replace(REPOSITORY, id=REPOSITORY.id * 10)) == set()
    await handler.sweeper.sweep_repository(a_job(asdict(REPOSITORY)))
    async with handler.store.reading() as tx:
        asked = [n for n in range(1, 11) if await tx.jobs.unfinished(f"{REPOSITORY.id}:{n}")]
    assert asked == [1, 2, 3, 4, 9, 10], "GitHub still shows the labels of the refused"


async def test_person_who_proves_to_have_the_right_queues_with_all_labels_that_wait(database: Database) -> None:
    """On both databases: a command of theirs, which labels do not hold up, is such a proof."""
    handler = RecordedHandler(database)
    await handler.label(range(1, 9))
    await handler.pass_time(31 * SECOND)
    assert await handler.refused() == {1, 2, 3, 4, 5}
    handler.github.rights["tria"] = Permission.WRITE
    async with handler.engine.change() as change:
        await count_label(change, REPOSITORY, "Tria", Admit())
    await handler.work()
    assert await handler.queued() == [6, 7, 8]
    assert await handler.times() == 0


async def test_maintainer_whose_conflicts_are_refused_is_never_put_off(handler: RecordedHandler) -> None:
    """And one refusal for want of the right is forgotten as soon as they prove to have it."""
    async with handler.store.transaction() as tx:
        await tx.throttles.put(REPOSITORY.id, labeling("mona"), Throttle(3, NOW))
    handler.github.changes = {"mergeable": False}
    await handler.label(range(1, 11), by="mona")
    assert await handler.refused() == set(range(1, 11))
    assert await handler.times("mona") == 0
    handler.github.changes = {}
    await handler.label(range(11, 21), by="mona")
    assert await handler.queued() == list(range(11, 21))


async def test_label_set_again_and_again_waits_once(handler: RecordedHandler) -> None:
    """Of repeated labels only the newest is stored."""
    await handler.label(range(1, 6))
    for _ in range(5):
        await handler.pass_time(SECOND)
        await handler.label([5])
    async with handler.store.reading() as tx:
        waiting = await tx.jobs.unfinished(f"throttled_label:{REPOSITORY.id}:tria")
    assert [job.request["delivery"] for job in waiting] == [f"tria-5-{handler.clock.at}"]
    assert await handler.times() == 4


async def test_label_that_is_removed_at_once_is_counted_as_well(handler: RecordedHandler) -> None:
    """Otherwise a person who takes each label off again would cost a request for each."""
    handler.github.changes = {"labels": frozenset()}
    await handler.label(range(1, 21))
    assert len(handler.github.reads) == 4
    await handler.pass_time(MINUTE * 20)
    assert len(handler.github.reads) <= 10
