"""Report this process to the others, and answer for all of them.

A worker serves no HTTP, and of several web processes a scrape meets any one. So each of them writes its figures to
the database every half minute, and each answers with the latest reports of all. A process that is alone
on its SQLite file writes nothing.
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
from bot.metrics.exposition import CONTENT_TYPE, merged, parsed, text, told_by
from queue_engine.core.concurrency.slots import SlotsStatus
from queue_engine.core.timing.clock import Clock
from queue_engine.store import Store
from queue_engine.store.operations.processes import ProcessReport

INTERVAL = timedelta(seconds=30)
"""Between two reports of a process."""

_FRESH = timedelta(seconds=5)
"""How long one page answers everybody, so that nobody can keep the database busy by asking."""

_PATIENCE = 5.0
"""Seconds in which the database must answer; Prometheus itself gives up after ten by default."""

_log = structlog.get_logger("imq.report")


class ProcessReporter:
    """What this process tells, and what it knows of the others. `role` is the command that started it."""

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
    ) -> None:
        self._store = store
        self.metrics = metrics
        self._clock = clock
        self._owner = owner
        self._role = role
        self._slots = slots
        self._budget = budget
        self._due = clock.now()
        self._told: list[Metric] | None = None
        self._reading: asyncio.Task[list[Metric]] | None = None
        self._page: tuple[datetime, str] | None = None
        alone = store.database.dialect == "sqlite"
        self.tells = role == "worker" or not alone
        """Whether anybody else might have to answer for this process."""
        # The host's name is nobody's business; on SQLite there is one of each role, and a name that outlives a
        # restart lets Prometheus see one counter that was reset instead of two.
        self.process = role if alone else f"{role}-{owner.rpartition(':')[2]}"
        metrics.add(gauges.LiveGauges(role=role, clock=clock, slots=slots, budget=budget))

    async def run_due(self) -> bool:
        """Tell the others, if it is time; whether it was."""
        now = self._clock.now()
        if not self.tells or self._due - INTERVAL <= now < self._due:
            return False
        told = self._live()
        async with self._store.transaction() as tx:
            await tx.processes.tell(self._owner, now, self.status(), text(told))
        self._due, self._told = now + INTERVAL, told
        return True

    async def next_due(self) -> datetime | None:
        """When the others are told next; None if there are none."""
        return self._due if self.tells else None

    async def close(self) -> None:
        """This process ends, and the others need not miss it; without a database they will for two minutes."""
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._told is None:
            return
        try:
            async with self._store.transaction() as tx:
                await tx.processes.forget(self._owner)
        except Exception as error:
            _log.warning("not_forgotten", error=repr(error))

    def status(self) -> dict[str, Any]:
        """This process as plain data: its role, its slots and lines, and what is left of GitHub's budgets."""
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
        """All figures in Prometheus's format: those of this process, of the others, and of the database.

        Who tells the others says here the same as there. Behind one address several processes answer in turn, and a
        counter that went back from what one of them knows to what it told would count as one that was reset.
        """
        now = self._clock.now()
        if self._page is not None and timedelta(0) <= now - self._page[0] < _FRESH:
            return self._page[1]
        page = text(merged(self._told or self._live(), await self._shared()))
        self._page = (now, page)
        return page

    async def handle(self, _request: web.Request) -> web.Response:
        """Answer `GET /metrics`. Nothing on it is secret, and no name of a person, a repository or a branch."""
        answer = web.Response(body=(await self.page()).encode(), headers={"Content-Type": CONTENT_TYPE})
        answer.enable_compression()
        return answer

    def _live(self) -> list[Metric]:
        return told_by(self.process, self.metrics.read())

    async def _shared(self) -> list[Metric]:
        """What the database says, if it does in time. A question under way is waited for, never asked twice."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        reading = self._reading
        done, _ = await asyncio.wait([reading], timeout=_PATIENCE)
        if not done:
            _log.warning("figures_late", seconds=_PATIENCE)
            return gauges.of_no_database()
        self._reading = None
        try:
            return reading.result()
        except Exception as error:
            _log.warning("figures_unread", error=repr(error))
            return gauges.of_no_database()

    async def _read(self) -> list[Metric]:
        now = self._clock.now()
        async with self._store.reading() as tx:
            jobs = await tx.figures.of_jobs(now)
            queues = await tx.figures.of_queues(now)
            letters = await tx.figures.of_letters(now)
            others = [report for report in await tx.processes.all(now) if report.owner != self._owner]
        roles = Counter([self._role, *(str(report.status.get("role")) for report in others)])
        return merged(gauges.of_the_database(jobs, queues, letters, roles, now), *map(_told, others))


def _told(report: ProcessReport) -> list[Metric]:
    try:
        return parsed(report.metrics)
    except ValueError as error:
        # A process of another version must not take the page from all.
        _log.warning("report_unreadable", error=repr(error))
        return []
