"""Read the gauges of this process and of the database, and write Prometheus's text format for all processes.

A worker serves no HTTP, and a scrape reaches any of several web processes. So each process writes its figures to
the database every half minute, and each answers with the latest reports of all. A process that is the only one on its
SQLite file writes nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import structlog
from aiohttp import web
from prometheus_client import Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from bot import __version__
from bot.gateway.http.limits import Budget
from bot.metrics import Metrics
from bot.metrics.families import FAMILIES, PREFIX
from queue_engine.core.concurrency.request_context import RequestPriority
from queue_engine.core.concurrency.slots import SlotsStatus
from queue_engine.core.timing.clock import Clock
from queue_engine.store import Store
from queue_engine.store.departures import day_of
from queue_engine.store.figures import ProcessReport

ROLES = ("run", "web", "worker")
"""The commands that start a process."""

_BY_NAME = {family.name: family for family in FAMILIES}


class ProcessGauges(Collector):
    """Gauges of this process, its slots and its budgets, without any request."""

    def __init__(
        self,
        *,
        role: str,
        clock: Clock,
        slots: Callable[[], SlotsStatus],
        budget: Callable[[], Mapping[int | None, Budget]],
        accepted: Callable[[], bool | None] = lambda: None,
    ) -> None:
        self._role = role
        self._clock = clock
        self._started = clock.now()
        self._slots = slots
        self._budget = budget
        self._accepted = accepted

    def collect(self) -> Iterator[Metric]:
        """Return the current gauges."""
        slots = self._slots()
        yield _labeled("build_info", {(__version__, self._role): 1})
        yield _single("start_time_seconds", self._started.timestamp())
        yield _single("slots", slots.total_slots)
        yield _single("slots_available", slots.available_slots)
        yield _labeled(
            "slots_waiting", {(RequestPriority.NOW,): slots.rt_queue, (RequestPriority.BACKGROUND,): slots.be_queue}
        )
        accepted = self._accepted()
        yield _labeled("app_accepted", {} if accepted is None else {(): float(accepted)})
        left = {(name_of(key),): budget for key, budget in self._budget().items()}
        now = self._clock.now()
        yield _labeled("github_budget_limit", {labels: budget.limit for labels, budget in left.items()})
        yield _labeled("github_budget_remaining", {labels: remaining(each, now) for labels, each in left.items()})


def name_of(installation_id: int | None) -> str:
    """Return an installation's name in labels and reports: its id, or `app` for the App itself."""
    return "app" if installation_id is None else str(installation_id)


def remaining(budget: Budget, now: datetime) -> int:
    """Return the requests left of a budget, all of them once it was renewed."""
    return budget.limit if budget.resets_at <= now else budget.remaining


def database_down_gauges() -> list[Metric]:
    """Return the gauges while the database does not answer."""
    return [_single("database_up", 0)]


def _single(name: str, value: float) -> Metric:
    return _labeled(name, {(): value})


def _labeled(name: str, values: Mapping[tuple[str, ...], float]) -> Metric:
    family = _BY_NAME[PREFIX + name]
    metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    for labels, value in values.items():
        metric.add_metric(labels, value)
    return metric


CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The format that `text` writes."""


class _Page(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def text(families: Sequence[Metric]) -> str:
    """Format the families as text; each name must occur once, as after `merged`."""
    return generate_latest(_Page(families)).decode()


def parsed(page: str) -> list[Metric]:
    """Parse families. Raises ValueError for invalid text."""
    return list(text_string_to_metric_families(page))


def with_process_label(process: str, families: Iterable[Metric]) -> list[Metric]:
    """Add the label `process` to every sample. Samples with times of creation are left out."""
    labeled = []
    for family in families:
        metric = Metric(family.name, family.documentation, family.type)
        metric.samples = [
            sample._replace(labels=sample.labels | {"process": process})
            for sample in family.samples
            if not sample.name.endswith("_created")
        ]
        labeled.append(metric)
    return labeled


def merged(*pages: Iterable[Metric]) -> list[Metric]:
    """Merge pages into one family per name. Samples that contradict an earlier page are left out.

    Processes of two versions run side by side during a deploy: a family that changed its type between them would make
    the whole page unreadable.
    """
    families: dict[str, Metric] = {}
    known_samples: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for page in pages:
        for family in page:
            known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            if known.type == family.type:
                known.samples += [sample for sample in family.samples if _is_new(sample, known_samples)]
    return list(families.values())


def _is_new(sample: Sample, known_samples: set[tuple[str, tuple[tuple[str, str], ...]]]) -> bool:
    identity = (sample.name, tuple(sorted(sample.labels.items())))
    if identity in known_samples:
        return False
    known_samples.add(identity)
    return True


INTERVAL = timedelta(seconds=30)
"""Between two reports of a process."""

_CACHED_FOR = timedelta(seconds=5)
"""How long a page is cached, so that requests cannot keep the database busy."""

_TIMEOUT_SECONDS = 5.0
"""Seconds in which the database must answer; Prometheus itself gives up after ten by default."""

_log = structlog.get_logger("imq.report")


class ProcessReporter:
    """Reports this process, and reads the reports of the others. `role` is the command that started it."""

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        clock: Clock,
        *,
        owner: str,
        role: str,
        slots: Callable[[], SlotsStatus],
        budget: Callable[[], Mapping[int | None, Budget]],
        accepted: Callable[[], bool | None] = lambda: None,
    ) -> None:
        """`accepted` returns whether GitHub accepts the App's credentials; None while that is unknown."""
        self._store = store
        self.metrics = metrics
        self._clock = clock
        self._owner = owner
        self._role = role
        self._slots = slots
        self._budget = budget
        self._due = clock.now()
        self._last_report: list[Metric] | None = None
        self._reading: asyncio.Task[list[Metric]] | None = None
        self._page: tuple[datetime, str] | None = None
        alone = store.database.dialect == "sqlite"
        self.is_enabled = role == "worker" or not alone
        """Whether this process reports to others."""
        # The host's name is not published. On SQLite there is one process of each role, and a name that outlives a
        # restart lets Prometheus see one counter that was reset instead of two.
        self.process = role if alone else f"{role}-{owner.rpartition(':')[2]}"
        metrics.add(ProcessGauges(role=role, clock=clock, slots=slots, budget=budget, accepted=accepted))

    async def run_due(self) -> bool:
        """Report if it is due; return whether it was."""
        now = self._clock.now()
        if not self.is_enabled or self._due - INTERVAL <= now < self._due:
            return False
        figures = self._own_figures()
        await self._store.write(lambda tx: tx.processes.report(self._owner, now, self.status(), text(figures)))
        self._due, self._last_report = now + INTERVAL, figures
        return True

    async def next_due(self) -> datetime | None:
        """Return when the next report is due; None if this process does not report."""
        return self._due if self.is_enabled else None

    async def close(self) -> None:
        """Delete this process's report; if the database is down, it expires after two minutes."""
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._last_report is None:
            return
        try:
            await self._store.write(lambda tx: tx.processes.forget(self._owner))
        except Exception as error:
            _log.warning("not_forgotten", exc_info=error)

    def status(self) -> dict[str, Any]:
        """Return the role, slots and remaining budgets of this process as plain data."""
        now = self._clock.now()
        budget = {
            name_of(key): {
                "limit": each.limit,
                "remaining": remaining(each, now),
                "resets_at": each.resets_at.isoformat(),
            }
            for key, each in self._budget().items()
        }
        return {"role": self._role, **asdict(self._slots()), "budget": budget}

    async def page(self) -> str:
        """Return all figures in Prometheus's format: those of this process, of the others, and of the database.

        A process that reports shows its last report here, too. Otherwise a counter could decrease between the answers
        of two processes behind one address, which would count as a reset.
        """
        now = self._clock.now()
        if self._page is not None and timedelta(0) <= now - self._page[0] < _CACHED_FOR:
            return self._page[1]
        page = text(merged(self._last_report or self._own_figures(), await self._database_figures()))
        self._page = (now, page)
        return page

    async def handle(self, _request: web.Request) -> web.Response:
        """Answer `GET /metrics`, without secrets and names of people, repositories or branches."""
        answer = web.Response(body=(await self.page()).encode(), headers={"Content-Type": CONTENT_TYPE})
        answer.enable_compression()
        return answer

    def _own_figures(self) -> list[Metric]:
        return with_process_label(self.process, self.metrics.read())

    async def _database_figures(self) -> list[Metric]:
        """Read figures from the database, if it answers in time. Concurrent callers share one read."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        reading = self._reading
        done, _ = await asyncio.wait([reading], timeout=_TIMEOUT_SECONDS)
        if not done:
            _log.warning("figures_late", seconds=_TIMEOUT_SECONDS)
            return database_down_gauges()
        self._reading = None
        try:
            return reading.result()
        except Exception as error:
            _log.warning("figures_unread", exc_info=error)
            return database_down_gauges()

    async def _read(self) -> list[Metric]:
        now = self._clock.now()
        async with self._store.reading() as tx:
            read = tx.figures
            stored = await read.of_jobs(now) | await read.of_queues(now) | await read.of_outbox(now)
            others = [report for report in await tx.processes.all(now) if report.owner != self._owner]
        roles = Counter([self._role, *(str(report.status.get("role")) for report in others)])
        stored |= {"database_up": 1, "processes": {(role,): roles[role] for role in ROLES}}
        database = (_labeled(name, each if isinstance(each, Mapping) else {(): each}) for name, each in stored.items())
        return merged(database, *map(_parse_metrics, others))


def _parse_metrics(report: ProcessReport) -> list[Metric]:
    try:
        return parsed(report.metrics)
    except ValueError as error:
        # A process of another version must not take the page from all.
        _log.warning("report_unreadable", error=repr(error))
        return []


COUNTED_EVERY = timedelta(minutes=1)
"""Between two writes, while there are requests to count."""


class RequestCounts:
    """Stores how many requests this process sent to GitHub for each repository, for the statistics.

    A killed process loses the counts of its last minute.
    """

    def __init__(self, store: Store, clock: Clock, counts: Counter[int]) -> None:
        """Take the counts, which this empties."""
        self._store, self._clock, self._counts = store, clock, counts
        self._due = clock.now() + COUNTED_EVERY

    async def run_due(self) -> bool:
        """Store the counts if it is due; return whether it was."""
        now = self._clock.now()
        if self._due - COUNTED_EVERY <= now < self._due:
            return False
        await self._write(now)
        self._due = now + COUNTED_EVERY
        return True

    async def next_due(self) -> datetime | None:
        """Return when the next write is due."""
        return self._due

    async def close(self) -> None:
        """Store the last counts; without a database they are lost."""
        try:
            await self._write(self._clock.now())
        except Exception as error:
            _log.warning("requests_not_counted", exc_info=error)

    async def _write(self, now: datetime) -> None:
        if not (counts := dict(self._counts)):
            return
        await self._store.write(lambda tx: tx.statistics.count_requests(day_of(now), counts))
        # Requests that were sent meanwhile stay.
        self._counts.subtract(counts)
        for each in [repository_id for repository_id, count in self._counts.items() if not count]:
            del self._counts[each]
