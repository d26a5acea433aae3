"""`/statistics` and `/repositories/{owner}/{repo}/branches/{branch}/statistics`: charts, tables, JSON and CSV.

A spreadsheet in a country with a decimal comma takes the semicolon as separator (OWASP, "CSV Injection"). So what
follows a semicolon counts as a beginning, too, also behind spaces and quotes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from typing import Any, Literal
from urllib.parse import urlencode

import structlog
from aiohttp import web
from pydantic import Field

from bot.api import routes
from bot.api.api_errors import ApiError
from bot.api.branch_routes import STATISTICS, IssueQuery, StatisticsQuery
from bot.api.payload import json_data, query
from bot.api.routes import H
from bot.web.addresses import queue_url
from bot.web.pages.charts import Bar, columns, rows
from bot.web.pages.render import duration
from bot.web.pages.site import Pages, Site, get
from notifications.render.flake_issue import flake_issue
from notifications.render.status import job_text
from queue_engine.core.read_model import adapter
from queue_engine.domain.departure import Departure
from queue_engine.domain.model import EntryStatus, Repository
from queue_engine.domain.reasons import Reason, WaitKind
from queue_engine.queries.queue_states import FEWEST
from queue_engine.queries.queue_statistics import (
    JobReason,
    JobStatistics,
    LandingCount,
    QueueStatistics,
    ReasonCount,
    RerunCount,
    load_statistics,
    period,
)
from queue_engine.rules.job_rates import JobFigures
from queue_engine.store.departures import DepartureQuery, day_of

_log = structlog.get_logger("imq.pages")

_FORMULA = re.compile(r"""(^|;[\s"']*)(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])""")
"""The last four are the wide forms, which some spreadsheets read as the others."""

Cell = str | float | None


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return the rows as CSV; None is an empty cell."""
    return _written([header]) + _lines(rows)


def csv_response(name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> web.Response:
    """Return a file that a browser stores under this name."""
    text = csv_text(header, rows)
    return web.Response(text=text, content_type="text/csv", charset="utf-8", headers=_headers(name))


async def stream_csv(
    request: web.Request, name: str, header: Sequence[str], parts: AsyncIterator[Sequence[Sequence[Cell]]]
) -> web.StreamResponse:
    """Send a long file part by part: no other request waits for it, and memory holds one part."""
    first = await anext(parts, ())  # An error before the file begins has a page.
    response = web.StreamResponse(headers={**_headers(name), "Content-Type": "text/csv; charset=utf-8"})
    try:
        await response.prepare(request)
        if request.method != "HEAD":
            await response.write(csv_text(header, first).encode())
            async for part in parts:
                await response.write(_lines(part).encode())
    except Exception as error:
        if not isinstance(error, ConnectionError):
            _log.exception("page_failed", method=request.method, path=request.path)
        # Without its end, so that the browser does not take the file for whole.
        if request.transport is not None:
            request.transport.abort()
        return response
    await response.write_eof()
    return response


def _headers(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}


def _lines(rows: Iterable[Sequence[Cell]]) -> str:
    return _written([_safe(cell) for cell in row] for row in rows)


def _written(rows: Iterable[Sequence[Cell]]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()


def _safe(cell: Cell) -> Cell:
    return _FORMULA.sub(r"\1'", cell) if isinstance(cell, str) else cell


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

    def reason_url(self, days: int, count: ReasonCount | JobReason) -> str:
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

    def issue_url(self, days: int, kind: str, name: str) -> str:
        """Return the address of the text of an issue about a flake."""
        return f"{self.address}/issue?{urlencode({'days': days, 'kind': kind, 'name': name})}"

    def _list(self, **query: object) -> str:
        return f"{self.address}/pulls?{urlencode(query)}"


async def scope_of(site: Site, request: web.Request) -> Scope:
    """Return the queues of a request that the viewer may see. Raises ApiError 404 and LoginNeeded."""
    engine = site.engine
    if "owner" in request.match_info:
        repository = await site.access.readable(request)
        branch = routes.branch_of(request)
        async with engine.store.reading() as tx:
            if await tx.queues.find(repository.id, branch) is None:
                raise routes.no_such_branch()
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


PERIODS = (7, 30, 90, 365)
ON_PAGE = 100
"""How many pull requests a list shows at once."""
IN_FILE = 10_000
"""The most pull requests in a file."""
IN_PART = 250
"""How many of them are loaded at once: in a few milliseconds."""
_MOST_BARS = 12
_FEWEST_BARS = 7
"""So many days or weeks a chart of landings has at least."""
_WAIT_UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
_FEWEST_UNITS = 2
"""So many units the longest wait has at least."""
_TWENTY = 20
"""One pull request of fewer is more than the five in a hundred that two targets allow."""
_WAITS = {
    WaitKind.CAPACITY: "Others ahead",
    WaitKind.CHECKS: "Checks",
    WaitKind.PAUSED: "Pause or freeze",
    WaitKind.BASE_RED: "Red base",
    WaitKind.OTHER: "Everything else",
}
_FIGURES = (
    *("table", "name", "first", "last", "pull_requests", "reruns", "seconds", "ci_seconds"),
    *("ci_minutes", "ci_cost", "runs", "failures", "people", "pull_requests_before"),
)
_PULLS = (
    *(
        "repository",
        "queue",
        "number",
        "title",
        "author",
        "enqueued_at",
        "left_at",
        "outcome",
        "reason",
        "waited_seconds",
    ),
    *(f"{kind.value}_seconds" for kind in WaitKind),
    *("ci_seconds", "reruns", "flaky_checks", "ci_minutes", "ci_cost"),
)


def _at(ending: str) -> Callable[[H], H]:
    return get(*(f"{path}{ending}" for path in (STATISTICS, "/statistics")))


class StatisticsPages(Pages):
    """Statistics of one queue and of all, and the pull requests behind each bar."""

    @_at("")
    async def _page(self, request: web.Request) -> web.Response:
        days = statistics_query(request).days
        scope, found = await self._load(request)
        return await self._site.render(
            request,
            "statistics.html",
            scope=scope,
            days=days,
            periods=PERIODS,
            found=found,
            landings=(landings := _since_first(found.landings)),
            shown_from=landings[0].first if landings else found.first,
            unit=_unit(found)[0],
            charts=_charts(scope, found, landings, days),
            waits=[(_WAITS[kind], seconds, scope.wait_url(days, kind)) for kind, seconds in found.mean_wait.items()],
            health=_health(found),
            reason_name=reason_name,
            job_uses=() if found.jobs is None else [(JOB_USES[name], each) for name, each in _job_uses(found.jobs)],
            job_text=job_text,
        )

    @_at(".json")
    async def _json(self, request: web.Request) -> web.Response:
        _, found = await self._load(request)
        return web.json_response(json_data(found))

    @_at(".csv")
    async def _csv(self, request: web.Request) -> web.Response:
        _, found = await self._load(request)
        rows = [*_figures(found), *_job_figures(found)]
        padded = ((*each, *(None,) * (len(_FIGURES) - len(each))) for each in rows)
        return csv_response("statistics.csv", _FIGURES, padded)

    @_at("/issue")
    async def _issue(self, request: web.Request) -> web.Response:
        """Write the text of an issue, for people to copy."""
        asked = query(request, IssueQuery)
        _, found = await self._load(request, asked.days)
        if (text := flake_issue(found, asked.kind, asked.name)) is None:
            raise ApiError(404, "no flake of this name in these days")
        return web.Response(text=f"{text.title}\n\n{text.body}\n", content_type="text/plain", charset="utf-8")

    @_at("/pulls")
    async def _pulls(self, request: web.Request) -> web.Response:
        asked = pulls_query(request)
        scope, found = await self._listed(request, asked, ON_PAGE + 1)
        shown = found[:ON_PAGE]
        older = request.rel_url.update_query(before=shown[-1].id) if len(found) > ON_PAGE else None
        return await self._site.render(
            request,
            "departures.html",
            scope=scope,
            asked=asked,
            shown=shown,
            older=older and str(older),
            file=f"{request.rel_url.raw_path}.csv?{request.rel_url.raw_query_string}",
            waits=_WAITS,
            jobs_of=jobs_of,
        )

    @_at("/pulls.csv")
    async def _pulls_csv(self, request: web.Request) -> web.StreamResponse:
        asked, scope = pulls_query(request), await scope_of(self._site, request)
        return await stream_csv(request, "pull-requests.csv", _PULLS, self._pull_rows(scope, asked))

    async def _pull_rows(self, scope: Scope, asked: PullsQuery) -> AsyncIterator[Sequence[Sequence[Cell]]]:
        """Yield the rows of a file, part by part; no part keeps a connection to the database while it is sent."""
        wanted, before = scope.pulls(asked, self._site.engine.clock.now()), asked.before
        for first in range(0, IN_FILE, IN_PART):
            limit = min(IN_PART, IN_FILE - first)
            async with self._site.engine.store.reading() as tx:
                found = await tx.statistics.listed(wanted, before=before, limit=limit)
            if found:
                yield [_pull_row(scope, each) for each in found]
            if len(found) < limit:
                return
            before = found[-1].id

    async def _load(self, request: web.Request, days: int | None = None) -> tuple[Scope, QueueStatistics]:
        scope, engine = await scope_of(self._site, request), self._site.engine
        wanted = scope.departures(days or statistics_query(request).days, engine.clock.now())
        policy = None
        if scope.repository is not None and scope.branch is not None:
            policy = await engine.policies.of(scope.repository, scope.branch)
        async with engine.store.reading() as tx:
            return scope, await load_statistics(tx, wanted, scope.repository, policy)

    async def _listed(self, request: web.Request, asked: PullsQuery, limit: int) -> tuple[Scope, Sequence[Departure]]:
        scope, engine = await scope_of(self._site, request), self._site.engine
        wanted = scope.pulls(asked, engine.clock.now())
        async with engine.store.reading() as tx:
            return scope, await tx.statistics.listed(wanted, before=asked.before, limit=limit)


def reason_name(count: ReasonCount | JobReason) -> str:
    words = "" if count.reason is None else f": {count.reason.value.replace('_', ' ')}"
    return f"{count.outcome.value}{words}"


def jobs_of(each: Departure) -> str:
    """Say what the jobs of a departure cost; empty where none ran."""
    return job_text(JobFigures(each.ci_minutes, each.ci_cost if each.priced else None)) if each.ci_minutes else ""


def _since_first(landings: Sequence[LandingCount]) -> Sequence[LandingCount]:
    """Return the counts from the first landing on, which has the width of at least a week beside it."""
    first = next((place for place, each in enumerate(landings) if each.landed), 0)
    return landings[max(0, min(first, len(landings) - _FEWEST_BARS)) :]


def _unit(found: QueueStatistics) -> tuple[str, float]:
    """Return the unit that suits the longest mean wait, and its seconds."""
    longest = max(found.mean_wait.values(), default=0)
    return next((name, size) for name, size in _WAIT_UNITS if longest >= size * _FEWEST_UNITS or size == 1)


def _charts(scope: Scope, found: QueueStatistics, landings: Sequence[LandingCount], days: int) -> dict[str, str]:
    """Draw a chart for each table that has rows; each bar leads to its pull requests."""
    charts: dict[str, str] = {}
    if found.landed:
        text = f"{_pulls(found.landed)} landed from {found.first} to {found.last}."
        charts["landings"] = columns("landings", "Landings", text, list(_landing_bars(scope, landings, days)))
        text = "The mean time that a landing spent on each part of its wait."
        unit, size = _unit(found)
        bars = [
            Bar(
                _WAITS[kind],
                round(seconds / size, 1),
                f"{_WAITS[kind]}: {duration(seconds)}",
                scope.wait_url(days, kind),
            )
            for kind, seconds in found.mean_wait.items()
        ]
        charts["waits"] = rows("waits", f"Wait of a landing, in {unit}", text, bars)
    if found.reasons:
        text = "Each pull request counts once, by its last departure."
        bars = [_bar(reason_name(each), each.pulls, scope.reason_url(days, each)) for each in found.reasons]
        charts["reasons"] = rows("reasons", "Why pull requests left", text, bars[:_MOST_BARS])
    if found.flaky_checks:
        text = "In how many departures each check failed, and passed in a rerun."
        bars = [_bar(each.name, each.pulls, scope.check_url(days, each.name)) for each in found.flaky_checks]
        charts["flaky"] = rows("flaky", "Flaky checks", text, bars[:_MOST_BARS])
    return charts


def _bar(name: str, pulls: int, address: str) -> Bar:
    return Bar(name, pulls, f"{name}: {_pulls(pulls)}", address)


def _pulls(count: int) -> str:
    return "1 pull request" if count == 1 else f"{count} pull requests"


def _landing_bars(scope: Scope, landings: Sequence[LandingCount], days: int) -> Iterator[Bar]:
    for each in landings:
        span = f"{each.first}" if each.first == each.last else f"{each.first} to {each.last}"
        text = f"{span}: {each.landed} landed"
        yield Bar(f"{each.first:%b} {each.first.day}", each.landed, text, scope.landings_url(days, each))


def _health(found: QueueStatistics) -> list[dict[str, Any]]:
    """Describe each figure with its limit."""
    health = found.health
    figures = [
        ("Median wait", health.median_wait, duration, FEWEST),
        ("95 of 100 wait at most", health.p95_wait, duration, _TWENTY),
        ("Failures", health.failures, lambda share: f"{share * 100:.1f} %", _TWENTY),
    ]
    return [
        {
            "name": name,
            "figure": "not known" if each.figure is None else words(each.figure),
            "limit": words(each.limit),
            "met": each.met,
            "known": health.counted >= fewest and each.figure is not None,
        }
        for name, each, words, fewest in figures
    ]


def _figures(found: QueueStatistics) -> Iterator[Sequence[Cell]]:
    """Yield the rows of a file: all tables of the page beneath each other."""
    first, last = found.first.isoformat(), found.last.isoformat()
    for name, seconds in (("median", found.median_wait), ("p95", found.p95_wait)):
        yield "wait", name, first, last, found.landed, None, seconds, None
    for kind, seconds in found.mean_wait.items():
        yield "mean_wait", kind.value, first, last, found.landed, None, seconds, None
    yield "ci", "all", first, last, found.pulls, found.reruns, None, found.ci_seconds
    yield "ci", "per_landing", first, last, found.landed, None, None, found.ci_seconds_per_landing
    if found.trains is not None:
        yield "trains", "runs", first, last, found.trains.landed, found.trains.runs, None, None
        yield "trains", "saved", first, last, None, found.trains.runs_saved, found.trains.seconds_saved, None
    yield "requests", "all", first, last, found.requests, None, None, None
    for each in found.landings:
        yield "landings", "landed", each.first.isoformat(), each.last.isoformat(), each.landed, None, None, None
    for reason in found.reasons:
        yield "reasons", _named(reason), first, last, reason.pulls, None, None, None
    for table in ("flaky_checks", "flaky_jobs", "flaky_tests"):
        for count in getattr(found, table):
            yield _flaky_row(table, count, first, last)


JOB_USES: Mapping[str, str] = {
    "total": "All jobs",
    "per_landing": "For each landing",
    "reruns": "In vain: attempts that were run again",
    "resets": "In vain: tests that started over",
    "departures": "In vain: pull requests that did not land",
    "saved_by_trains": "Saved by trains, estimated",
    "saved_by_refs": "Saved by refs of tested trees, estimated",
}
"""What the jobs were for, by the names of `JobStatistics`."""


def _job_uses(jobs: JobStatistics) -> Iterator[tuple[str, JobFigures]]:
    for name in JOB_USES:
        if (figures := getattr(jobs, name)) is not None and figures.minutes:
            yield name, figures


def _job_figures(found: QueueStatistics) -> Iterator[Sequence[Cell]]:
    """Yield the rows of what jobs cost: by use, and by reason."""
    if (jobs := found.jobs) is None:
        return
    first, last = found.first.isoformat(), found.last.isoformat()
    rows: list[tuple[str, str, int | None, JobFigures]] = []
    rows += [("jobs", name, None, each) for name, each in _job_uses(jobs)]
    rows += [("job_reasons", _named(each), each.departures, each.jobs) for each in jobs.reasons]
    for table, name, pulls, each in rows:
        yield table, name, first, last, pulls, None, None, None, *_minutes(each)


def _named(each: ReasonCount | JobReason) -> str:
    return each.outcome.value if each.reason is None else each.reason.value


def _flaky_row(table: str, count: RerunCount, first: str, last: str) -> Sequence[Cell]:
    jobs = (None, None) if count.jobs is None else _minutes(count.jobs)
    before = (count.runs, count.failures, count.people, count.pulls_before)
    return table, count.name, first, last, count.pulls, count.reruns, count.waited, count.ci_seconds, *jobs, *before


def _minutes(jobs: JobFigures) -> tuple[Cell, Cell]:
    found = adapter(JobFigures).dump_python(jobs)
    return found["minutes"], found["cost"]


def _pull_row(scope: Scope, each: Departure) -> Sequence[Cell]:
    repository = scope.repositories[each.repository_id]
    times = (at - timedelta(microseconds=at.microsecond) for at in (each.enqueued_at, each.left_at))
    return (
        *(repository.full_name, each.base_branch, each.number, each.title, each.author),
        *(at.isoformat() for at in times),
        *(each.outcome.value, each.reason and each.reason.value, round(each.waited, 3)),
        *(round(getattr(each, kind.value), 3) for kind in WaitKind),
        *(each.ci_seconds, each.reruns, " ".join(check.name for check in each.flaky)),
        *_minutes(JobFigures(each.ci_minutes, each.ci_cost if each.priced else None)),
    )
