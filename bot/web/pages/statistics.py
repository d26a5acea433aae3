"""`/statistics` and `/repositories/{owner}/{repo}/branches/{branch}/statistics`: charts, tables, JSON and CSV."""

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from typing import Any

from aiohttp import web

from bot.api.payload import json_data
from bot.api.statistics import STATISTICS
from bot.web.pages.charts import Bar, columns, rows
from bot.web.pages.departures import PullsQuery, Scope, pulls_query, scope_of, statistics_query
from bot.web.pages.render import duration
from bot.web.pages.site import Site
from bot.web.pages.spreadsheet import Cell, csv_response, stream_csv
from queue_engine.domain.departure import Departure, WaitKind
from queue_engine.queries.queue_states import FEWEST
from queue_engine.queries.statistics import QueueStatistics, ReasonCount, RerunCount, load_statistics

PERIODS = (7, 30, 90, 365)
ON_PAGE = 100
"""How many pull requests a list shows at once."""
IN_FILE = 10_000
"""The most pull requests in a file."""
IN_PART = 250
"""How many of them are loaded at once: in a few milliseconds."""
_MOST_BARS = 12
_WAITS = {
    WaitKind.CAPACITY: "Others ahead",
    WaitKind.CHECKS: "Checks",
    WaitKind.PAUSED: "Pause or freeze",
    WaitKind.BASE_RED: "Red base",
    WaitKind.OTHER: "Everything else",
}
_FIGURES = ("table", "name", "first", "last", "pull_requests", "reruns", "seconds", "ci_seconds")
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
    *("ci_seconds", "reruns", "flaky_checks"),
)


class StatisticsPages:
    """Statistics of one queue and of all, and the pull requests behind each bar."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes of the pages and files."""
        return [
            web.get(f"{path}{ending}", handler)
            for path in (STATISTICS, "/statistics")
            for ending, handler in (
                ("", self._page),
                (".json", self._json),
                (".csv", self._csv),
                ("/pulls", self._pulls),
                ("/pulls.csv", self._pulls_csv),
            )
        ]

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
            charts=_charts(scope, found, days),
            waits=[(_WAITS[kind], seconds, scope.wait_url(days, kind)) for kind, seconds in found.mean_wait.items()],
            health=_health(found),
            reason_name=reason_name,
        )

    async def _json(self, request: web.Request) -> web.Response:
        _, found = await self._load(request)
        return web.json_response(json_data(found))

    async def _csv(self, request: web.Request) -> web.Response:
        _, found = await self._load(request)
        return csv_response("statistics.csv", _FIGURES, _figures(found))

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
        )

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

    async def _load(self, request: web.Request) -> tuple[Scope, QueueStatistics]:
        scope, engine = await scope_of(self._site, request), self._site.engine
        wanted = scope.departures(statistics_query(request).days, engine.clock.now())
        async with engine.store.reading() as tx:
            return scope, await load_statistics(tx, wanted, scope.repository)

    async def _listed(self, request: web.Request, asked: PullsQuery, limit: int) -> tuple[Scope, Sequence[Departure]]:
        scope, engine = await scope_of(self._site, request), self._site.engine
        wanted = scope.pulls(asked, engine.clock.now())
        async with engine.store.reading() as tx:
            return scope, await tx.statistics.listed(wanted, before=asked.before, limit=limit)


def reason_name(count: ReasonCount) -> str:
    """Return the outcome of a count with its reason in words."""
    words = "" if count.reason is None else f": {count.reason.value.replace('_', ' ')}"
    return f"{count.outcome.value}{words}"


def _charts(scope: Scope, found: QueueStatistics, days: int) -> dict[str, str]:
    """Draw a chart for each table that has rows; each bar leads to its pull requests."""
    charts: dict[str, str] = {}
    if found.landed:
        text = f"{_pulls(found.landed)} landed from {found.first} to {found.last}."
        charts["landings"] = columns("landings", "Landings", text, list(_landing_bars(scope, found, days)))
        text = "The mean time that a landing spent on each part of its wait."
        bars = [
            Bar(
                _WAITS[kind],
                round(seconds / 60, 1),
                f"{_WAITS[kind]}: {seconds / 60:.1f} minutes",
                scope.wait_url(days, kind),
            )
            for kind, seconds in found.mean_wait.items()
        ]
        charts["waits"] = rows("waits", "Wait of a landing, in minutes", text, bars)
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


def _landing_bars(scope: Scope, found: QueueStatistics, days: int) -> Iterator[Bar]:
    for each in found.landings:
        span = f"{each.first}" if each.first == each.last else f"{each.first} to {each.last}"
        text = f"{span}: {each.landed} landed"
        yield Bar(f"{each.first:%b} {each.first.day}", each.landed, text, scope.landings_url(days, each))


def _health(found: QueueStatistics) -> list[dict[str, Any]]:
    """Describe each figure with its limit."""
    health = found.health
    figures = [
        ("Median wait", health.median_wait, duration),
        ("95 of 100 wait at most", health.p95_wait, duration),
        ("Failures", health.failures, lambda share: f"{share * 100:.1f} %"),
    ]
    return [
        {
            "name": name,
            "figure": "not known" if each.figure is None else words(each.figure),
            "limit": words(each.limit),
            "met": each.met,
            "known": health.counted >= FEWEST and each.figure is not None,
        }
        for name, each, words in figures
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
        name = reason.outcome.value if reason.reason is None else reason.reason.value
        yield "reasons", name, first, last, reason.pulls, None, None, None
    for table, counts in (("flaky_checks", found.flaky_checks), ("flaky_jobs", found.flaky_jobs)):
        for count in counts:
            yield _flaky_row(table, count, first, last)


def _flaky_row(table: str, count: RerunCount, first: str, last: str) -> Sequence[Cell]:
    return table, count.name, first, last, count.pulls, count.reruns, count.waited, count.ci_seconds


def _pull_row(scope: Scope, each: Departure) -> Sequence[Cell]:
    repository = scope.repositories[each.repository_id]
    times = (at - timedelta(microseconds=at.microsecond) for at in (each.enqueued_at, each.left_at))
    return (
        *(repository.full_name, each.base_branch, each.number, each.title, each.author),
        *(at.isoformat() for at in times),
        *(each.outcome.value, each.reason and each.reason.value, round(each.waited, 3)),
        *(round(getattr(each, kind.value), 3) for kind in WaitKind),
        *(each.ci_seconds, each.reruns, " ".join(check.name for check in each.flaky)),
    )
