"""Report the figures of this process to the others, and show those of all processes.

A worker serves no HTTP, and a scrape reaches any of several web processes. So each process writes its figures to
the database every half minute, and each answers with the latest reports of all. A process that is the only one on its
SQLite file writes nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import structlog
from aiohttp import web
from prometheus_client import Metric

from bot.gateway.http.limits import Budget
from bot.metrics import Metrics, gauges
from bot.metrics.gauges import CONTENT_TYPE, merged, parsed, text, with_process_label
from queue_engine.core.concurrency.slots import SlotsStatus
from queue_engine.core.timing.clock import Clock
from queue_engine.store import Store
from queue_engine.store.departures import day_of
from queue_engine.store.figures import ProcessReport

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
        metrics.add(gauges.ProcessGauges(role=role, clock=clock, slots=slots, budget=budget, accepted=accepted))

    async def run_due(self) -> bool:
        """Report if it is due; return whether it was."""
        now = self._clock.now()
        if not self.is_enabled or self._due - INTERVAL <= now < self._due:
            return False
        figures = self._own_figures()
        async with self._store.transaction() as tx:
            await tx.processes.report(self._owner, now, self.status(), text(figures))
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
            async with self._store.transaction() as tx:
                await tx.processes.forget(self._owner)
        except Exception as error:
            _log.warning("not_forgotten", exc_info=error)

    def status(self) -> dict[str, Any]:
        """Return the role, slots and remaining budgets of this process as plain data."""
        now = self._clock.now()
        budget = {
            gauges.name_of(key): {
                "limit": each.limit,
                "remaining": gauges.remaining(each, now),
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
            return gauges.database_down_gauges()
        self._reading = None
        try:
            return reading.result()
        except Exception as error:
            _log.warning("figures_unread", exc_info=error)
            return gauges.database_down_gauges()

    async def _read(self) -> list[Metric]:
        now = self._clock.now()
        async with self._store.reading() as tx:
            jobs = await tx.figures.of_jobs(now)
            queues = await tx.figures.of_queues(now)
            outbox = await tx.figures.of_outbox(now)
            others = [report for report in await tx.processes.all(now) if report.owner != self._owner]
        roles = Counter([self._role, *(str(report.status.get("role")) for report in others)])
        return merged(gauges.database_gauges(jobs, queues, outbox, roles, now), *map(_parse_metrics, others))


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
        async with self._store.transaction() as tx:
            await tx.statistics.count_requests(day_of(now), counts)
        # Requests that were sent meanwhile stay.
        self._counts.subtract(counts)
        for each in [repository_id for repository_id, count in self._counts.items() if not count]:
            del self._counts[each]
