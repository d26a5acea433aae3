"""Departures that a page is about: find its queues, parse its filter, and link both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Literal
from urllib.parse import urlencode

from aiohttp import web
from pydantic import Field

from bot.api import request_scope
from bot.api.payload import query
from bot.api.statistics import StatisticsQuery
from bot.web.addresses import queue_url
from bot.web.pages.site import Site
from queue_engine.domain.departure import WaitKind
from queue_engine.domain.model import EntryStatus, Repository
from queue_engine.domain.reasons import Reason
from queue_engine.queries.statistics import LandingCount, ReasonCount, period
from queue_engine.store.departures import DepartureQuery, day_of

_NAME = 300


class PullsQuery(StatisticsQuery):
    """Parameters of a list of departures."""

    since: date | None = None
    until: date | None = None
    outcome: Literal["landed", "failed", "cancelled"] | None = None
    reason: Reason | None = None
    once: bool = False
    """Only the last departure of each pull request."""
    waited_for: WaitKind | None = None
    check: str | None = Field(None, max_length=_NAME)
    job: str | None = Field(None, max_length=_NAME)
    before: int | None = Field(None, ge=0, le=2**63 - 1)


@dataclass(frozen=True, slots=True)
class Scope:
    """The queues that a page is about: one, or all that the viewer may see."""

    repositories: Mapping[int, Repository]
    """The visible repositories by their ids."""
    repository: Repository | None = None
    branch: str | None = None
    complete: bool = True
    """Whether IMQ knows of each repository if the viewer may see it."""

    @property
    def address(self) -> str:
        """The address of the statistics of these queues."""
        if self.repository is None or self.branch is None:
            return "/statistics"
        return f"{queue_url(self.repository, self.branch)}/statistics"

    @property
    def name(self) -> str:
        """The queue, or all queues."""
        if self.repository is None:
            return "all queues"
        return f"{self.repository.full_name}, {self.branch}"

    def departures(self, days: int, now: datetime) -> DepartureQuery:
        """Return the query of these queues in the last days."""
        first, last = period(now, days)
        return DepartureQuery(first, last, frozenset(self.repositories), self.branch)

    def pulls(self, asked: PullsQuery, now: datetime) -> DepartureQuery:
        """Return the query of a list; days outside the period are not in it."""
        whole = self.departures(asked.days, now)
        return replace(
            whole,
            first_day=whole.first_day if asked.since is None else max(whole.first_day, _day(asked.since)),
            last_day=whole.last_day if asked.until is None else min(whole.last_day, _day(asked.until)),
            outcome=asked.outcome and EntryStatus(asked.outcome),
            reason=asked.reason,
            last_only=asked.once,
            waited_for=asked.waited_for,
            check=asked.check,
            job=asked.job,
        )

    def landings_url(self, days: int, count: LandingCount) -> str:
        """Return the address of the pull requests behind a bar of landings."""
        return self._list(days=days, outcome="landed", since=count.first, until=count.last)

    def reason_url(self, days: int, count: ReasonCount) -> str:
        """Return the address of the pull requests behind a bar of reasons."""
        reason = {} if count.reason is None else {"reason": count.reason.value}
        return self._list(days=days, outcome=count.outcome.value, **reason, once=1)

    def wait_url(self, days: int, kind: WaitKind) -> str:
        """Return the address of the landings that waited for this."""
        return self._list(days=days, outcome="landed", waited_for=kind.value)

    def check_url(self, days: int, name: str) -> str:
        """Return the address of the pull requests in which a check was flaky."""
        return self._list(days=days, check=name)

    def job_url(self, days: int, name: str) -> str:
        """Return the address of the pull requests in which a job was flaky."""
        return self._list(days=days, job=name)

    def _list(self, **query: object) -> str:
        return f"{self.address}/pulls?{urlencode(query)}"


async def scope_of(site: Site, request: web.Request) -> Scope:
    """Return the queues of a request that the viewer may see. Raises ApiError 404 and LoginNeeded."""
    engine = site.engine
    if "owner" in request.match_info:
        repository = await site.access.readable(request)
        branch = request_scope.branch_of(request)
        async with engine.store.reading() as tx:
            if await tx.queues.find(repository.id, branch) is None:
                raise request_scope.no_such_branch()
        return Scope({repository.id: repository}, repository, branch)
    who = site.entrance(request)
    async with engine.store.reading() as tx:
        known = {queue.repository.id: queue.repository for queue in await tx.queues.all()}
    visible = await site.access.visible(who.token, known.values(), ())
    complete = await site.access.knows_all(who.token, known.values())
    return Scope({each: known[each] for each in known if each in visible}, complete=complete)


def statistics_query(request: web.Request) -> StatisticsQuery:
    """Parse the query of statistics. Raises ApiError 400."""
    return query(request, StatisticsQuery)


def pulls_query(request: web.Request) -> PullsQuery:
    """Parse the query of a list. Raises ApiError 400."""
    return query(request, PullsQuery)


def _day(value: date) -> int:
    return day_of(datetime(value.year, value.month, value.day, tzinfo=UTC))
