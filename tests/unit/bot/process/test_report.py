"""The page that answers for all processes, and the board by which they know of each other."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from bot import __version__
from bot.gateway.http.limits import Budget
from bot.metrics import FAMILIES, Metrics
from bot.metrics.families import Source
from bot.metrics.gauges import parsed
from bot.process.report import INTERVAL, ProcessReporter
from queue_engine.core.concurrency.slots import SlotsStatus
from queue_engine.core.database.database import Database
from queue_engine.store import Store
from tests.support.claims import claim_one
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.metrics.test_meter import values

SLOTS = SlotsStatus(rt_queue=3, be_queue=2, total_slots=16, available_slots=5, accepting=True, max_queue_depth=400)


NOTHING_KNOWN: Mapping[int | None, Budget] = {}


def reporter(
    store: Store, clock: ManualClock, role: str, name: str, budget: Mapping[int | None, Budget] = NOTHING_KNOWN
) -> ProcessReporter:
    """The reporter of a process on a host whose name must stay private."""
    return ProcessReporter(
        store,
        Metrics(),
        clock,
        owner=f"adas-laptop:4711:{name}",
        role=role,
        slots=lambda: SLOTS,
        budget=lambda: budget,
    )


def families(page: str) -> set[str]:
    """The names of the families on a page, as they are described."""
    return {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")}


async def test_page_has_every_figure_there_is_and_no_other(store: Store, clock: ManualClock) -> None:
    """The documented table and what Prometheus gets are the same, on a new installation already."""
    left = Budget(limit=5000, remaining=4000, resets_at=clock.now() + timedelta(minutes=1))
    page = await reporter(store, clock, "run", "1a", {9: left}).page()
    assert families(page) == {family.name for family in FAMILIES}
    by_name = {family.name: family for family in FAMILIES}
    for metric in parsed(page):
        family = by_name[f"{metric.name}_total" if metric.type == "counter" else metric.name]
        process = {"process"} if family.source is Source.PROCESS else set()
        for sample in metric.samples:
            assert set(sample.labels) - {"le"} == {*family.labels, *process}, sample


async def test_page_has_the_figures_of_this_process(store: Store, clock: ManualClock) -> None:
    """Slots, lines, what is left of GitHub's budget, the version and the start."""
    budget = {
        9: Budget(limit=5000, remaining=4000, resets_at=clock.now() + timedelta(minutes=1)),
        None: Budget(limit=5000, remaining=4999, resets_at=clock.now() + timedelta(minutes=1)),
    }
    asked = reporter(store, clock, "run", "1a", budget)
    page, me = await asked.page(), asked.process
    assert values(page, "imq_slots") == {(me,): 16}
    assert values(page, "imq_slots_available") == {(me,): 5}
    assert values(page, "imq_slots_waiting") == {("now", me): 3, ("background", me): 2}
    assert values(page, "imq_github_budget_limit") == {("9", me): 5000, ("app", me): 5000}
    assert values(page, "imq_github_budget_remaining") == {("9", me): 4000, ("app", me): 4999}
    assert values(page, "imq_build_info") == {(me, "run", __version__): 1}
    assert values(page, "imq_start_time_seconds") == {(me,): clock.now().timestamp()}
    assert values(page, "imq_database_up") == {(): 1}


async def test_budget_whose_hour_is_over_is_whole_again(store: Store, clock: ManualClock) -> None:
    """A quiet installation that had used its budget up is no alarm for ever."""
    used_up = Budget(limit=5000, remaining=0, resets_at=clock.now() + INTERVAL)
    asked = reporter(store, clock, "run", "1a", {9: used_up})
    assert set(values(await asked.page(), "imq_github_budget_remaining").values()) == {0}
    clock.instant += INTERVAL
    assert set(values(await asked.page(), "imq_github_budget_remaining").values()) == {5000}
    assert asked.status()["budget"]["9"]["remaining"] == 5000


async def test_page_of_the_web_answers_for_the_worker(store: Store, clock: ManualClock) -> None:
    """A worker has no port: every web process shows the worker's last report beside its own figures."""
    web, worker = reporter(store, clock, "web", "1a"), reporter(store, clock, "worker", "2b")
    web.metrics.count("jobs_reprocessed", kind="webhook")
    worker.metrics.count("jobs_done", 7, kind="webhook")
    assert await worker.run_due()
    await web.run_due()
    page = await web.page()
    assert values(page, "imq_jobs_done_total") == {("webhook", worker.process): 7}
    assert values(page, "imq_jobs_reprocessed_total") == {("webhook", web.process): 1}
    assert values(page, "imq_processes") == {("run",): 0, ("web",): 1, ("worker",): 1}
    assert values(page, "imq_database_up") == {(): 1}
    assert len(families(page)) == page.count("# HELP ") == page.count("# TYPE ")
    assert "laptop" not in page


@pytest.mark.postgres
async def test_figures_of_the_database_stand_once_however_many_processes_there_are(
    postgres_database: Database, clock: ManualClock
) -> None:
    """Three processes, one backlog: the sum over the page is the backlog."""
    store = Store(postgres_database)
    boards = [reporter(store, clock, "worker", name) for name in ("1a", "2b", "3c")]
    for each in boards:
        await each.run_due()
    async with store.transaction() as tx:
        await tx.jobs.enqueue(kind="webhook", request={}, process_id="p", now=clock.now())
    for each in boards:
        page = await each.page()
        assert values(page, "imq_jobs") == {("webhook", "pending"): 1}
        assert values(page, "imq_processes")["worker",] == 3
        assert len(values(page, "imq_slots")) == 3


@pytest.mark.postgres
async def test_counter_never_goes_back_whichever_process_answers(
    postgres_database: Database, clock: ManualClock
) -> None:
    """Behind one address scrapes meet now one web process, now another: a lower figure would look like a restart."""
    store = Store(postgres_database)
    one, two = reporter(store, clock, "web", "1a"), reporter(store, clock, "web", "2b")
    reported = []
    for _ in range(4):
        await one.run_due()
        await two.run_due()
        for asked in (one, two):
            one.metrics.count("jobs_reprocessed", kind="webhook")
            reported.append(values(await asked.page(), "imq_jobs_reprocessed_total").get(("webhook", one.process), 0))
            clock.instant += INTERVAL / 3
    assert reported == sorted(reported)
    assert reported[-1] > 3


async def test_report_is_made_every_half_minute_and_after_a_clock_was_set_back(
    store: Store, clock: ManualClock
) -> None:
    """Neither a busy loop nor a wrong clock keeps a process from its reports."""
    worker = reporter(store, clock, "worker", "2b")
    assert await worker.run_due()
    assert not await worker.run_due()
    assert await worker.next_due() == clock.now() + INTERVAL
    clock.instant += INTERVAL
    assert await worker.run_due()
    clock.instant -= timedelta(days=1)
    assert await worker.run_due()


async def test_report_says_as_data_what_the_status_needs(store: Store, clock: ManualClock) -> None:
    """Role, lines, slots and budgets of one process."""
    resets = clock.now() + timedelta(minutes=1)
    worker = reporter(store, clock, "worker", "2b", {9: Budget(limit=5000, remaining=4000, resets_at=resets)})
    await worker.run_due()
    async with store.reading() as tx:
        (report,) = await tx.processes.all(clock.now())
    assert report.status == {
        "role": "worker",
        "rt_queue": 3,
        "be_queue": 2,
        "total_slots": 16,
        "available_slots": 5,
        "accepting": True,
        "max_queue_depth": 400,
        "budget": {"9": {"limit": 5000, "remaining": 4000, "resets_at": resets.isoformat()}},
    }


async def test_page_has_what_waits_and_for_how_long(store: Store, clock: ManualClock) -> None:
    """In seconds; what was stored under a clock that ran ahead has no age, rather than one below zero."""
    async with store.transaction() as tx:
        await tx.jobs.enqueue(kind="webhook", request={}, process_id="p", now=clock.now())
        await tx.jobs.enqueue(kind="sweep", request={}, process_id="q", now=clock.now(), priority=1)
        job = await claim_one(tx.jobs, owner="w", now=clock.now(), lease=INTERVAL)
        assert job is not None
        await tx.dead_letters.add(job, "broken", clock.now() + 3 * INTERVAL, attempts=9, retryable=True)
    asked = reporter(store, clock, "run", "1a")
    for waited, dead_for in ((60, 0), (120, 30)):
        clock.instant += 2 * INTERVAL
        page = await asked.page()
        assert values(page, "imq_jobs") == {("webhook", "pending"): 1}
        assert values(page, "imq_jobs_oldest_due_seconds") == {(): waited}
        assert values(page, "imq_dead_letters") == {("sweep",): 1}
        assert values(page, "imq_dead_letters_retryable") == {(): 1}
        assert values(page, "imq_dead_letters_last_hour") == {(): 1}
        assert values(page, "imq_dead_letters_oldest_seconds") == {(): dead_for}


async def test_process_that_ends_is_gone_from_the_page(store: Store, clock: ManualClock) -> None:
    """A worker that was stopped is not counted as running for two minutes more."""
    web, worker = reporter(store, clock, "web", "1a"), reporter(store, clock, "worker", "2b")
    await worker.run_due()
    await worker.close()
    assert values(await web.page(), "imq_processes") == {("run",): 0, ("web",): 1, ("worker",): 0}


async def test_process_alone_on_its_file_writes_nothing(sqlite_database: Database, clock: ManualClock) -> None:
    """`imq run` on SQLite reports to no other process; its name on the page outlives a restart."""
    store = Store(sqlite_database)
    alone = reporter(store, clock, "run", "1a")
    assert not await alone.run_due()
    assert await alone.next_due() is None
    assert alone.process == "run"
    async with store.reading() as tx:
        assert await tx.processes.all(clock.now()) == ()
    assert values(await alone.page(), "imq_processes")["run",] == 1
    await alone.close()


async def test_report_that_cannot_be_read_costs_no_other_its_place(store: Store, clock: ManualClock) -> None:
    """A process of another version, or a damaged row, is left out."""
    web, worker = reporter(store, clock, "web", "1a"), reporter(store, clock, "worker", "2b")
    await worker.run_due()
    async with store.transaction() as tx:
        await tx.processes.report("odd", clock.now(), {"role": "run"}, 'imq_jobs_done_total{kind="x')
    page = await web.page()
    assert worker.process in page
    assert values(page, "imq_processes") == {("run",): 1, ("web",): 1, ("worker",): 1}


class Away:
    """A database that does not answer until it is let."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.dialect = database.dialect
        self.asked = 0
        self.answers = asyncio.Event()
        self.raises: Exception | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        self.asked += 1
        if self.raises is not None:
            raise self.raises
        await self.answers.wait()
        async with self._database.reading() as connection:
            yield connection

    def transaction(self) -> Any:
        raise OSError("away")


async def test_page_without_a_database_has_the_figures_of_this_process(database: Database, clock: ManualClock) -> None:
    """An outage of the database is seen on the page instead of taking it away, and as itself."""
    away: Any = Away(database)
    away.raises = OSError("postgres://u:password@db is away")
    web = reporter(Store(away), clock, "web", "1a")
    page = await web.page()
    assert values(page, "imq_database_up") == {(): 0}
    assert values(page, "imq_slots") == {(web.process,): 16}
    assert "imq_jobs{" not in page
    assert "imq_queues_paused" not in page
    assert "password" not in page
    with pytest.raises(OSError, match="away"):
        await reporter(Store(away), clock, "worker", "2b").run_due()


@pytest.mark.process
async def test_page_does_not_wait_for_a_database_that_hangs(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prometheus gives up after ten seconds; a question that hangs is waited for later, not asked again each time."""
    monkeypatch.setattr("bot.process.report._TIMEOUT_SECONDS", 0.0)
    away: Any = Away(database)
    web = reporter(Store(away), clock, "web", "1a")
    for _ in range(3):
        assert values(await web.page(), "imq_database_up") == {(): 0}
        clock.instant += INTERVAL
    assert away.asked == 1
    away.answers.set()
    await web.close()
    assert values(await web.page(), "imq_database_up") == {(): 1}
    assert away.asked == 1


async def test_page_is_made_once_for_many_who_ask_at_once(database: Database, clock: ManualClock) -> None:
    """The page may be public: asking for it often costs the database nothing."""
    watched: Any = Away(database)
    watched.answers.set()
    web = reporter(Store(watched), clock, "web", "1a")
    pages = await asyncio.gather(*(web.page() for _ in range(20)))
    assert len(set(pages)) == 1
    clock.instant += timedelta(seconds=4)
    await web.page()
    assert watched.asked == 1
    clock.instant += timedelta(seconds=1)
    await web.page()
    assert watched.asked == 2


async def test_process_ends_in_order_without_a_database(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that cannot report its end ends all the same."""
    worker = reporter(store, clock, "worker", "2b")
    await worker.run_due()
    monkeypatch.setattr(store, "transaction", Away(store.database).transaction)
    await worker.close()
