"""`/` lists queues; `/repositories/{owner}/{repo}/branches/{branch}` has one, with its runs, checks and departures.

The path of one member through the runs is marked. `charts.css` has the colours; each row also says in words what it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from bot.api import routes
from bot.web.addresses import queue_url
from bot.web.pages import wording
from bot.web.pages.site import Site
from queue_engine.admission.enqueue import CONTROL_ROLES
from queue_engine.config.model import Policy
from queue_engine.domain.errors import GitHubError
from queue_engine.domain.model import Repository
from queue_engine.domain.run import Run, RunState
from queue_engine.effects.context import Engine
from queue_engine.queries.check_view import load_slow_checks
from queue_engine.queries.queue_states import load_runs, load_states
from queue_engine.queries.queue_status import QueueView, load_summaries
from queue_engine.queries.request_status import load_requests
from queue_engine.queries.train_status import FailingMembers, TrainStatus
from queue_engine.store.request_records import RequestStatusKind

_ROW, _BOX, _GAP, _LEFT, _INDENT = 44, 62, 12, 190, 24
_MOST_BOXES = 16
"""A row names the members beyond by their number only."""
_STATES = {
    RunState.BUILDING: "is built",
    RunState.TESTING: "checks run",
    RunState.PASSED: "passed",
    RunState.LANDING: "lands",
    RunState.ENDED: "ended",
}
LEGEND = {
    "tested": "the run decides about it",
    "carried": "it passed before, and is tested along",
    "suspect": "it may be the cause of the failure",
    "cleared": "it passed since",
}
"""What each class of a box means."""


@dataclass(frozen=True, slots=True)
class ChartRow:
    """One run: its name, its state in words, and its members with what each is to it."""

    name: str
    text: str
    members: tuple[tuple[int, str], ...]
    """Numbers in order, with the class of each box: tested, carried, suspect or cleared."""
    indented: bool = False
    """Whether it bisects the failed run above."""


def chart_rows(trains: TrainStatus) -> list[ChartRow]:
    """Return the rows in order: each failed run with the runs that bisect it, then the others."""
    rows: list[ChartRow] = []
    placed: set[int | None] = set()
    for failed in trains.failed:
        rows.append(_failed(failed))
        for run in trains.runs:
            if run.id not in placed and failed.suspects & run.tested:
                placed.add(run.id)
                rows.append(_row(run, indented=True))
    rows += (_row(run) for run in trains.runs if run.id not in placed)
    return rows


def _failed(failed: FailingMembers) -> ChartRow:
    members = tuple((each, "suspect" if each in failed.suspects else "cleared") for each in failed.members)
    return ChartRow("Failed run", "the cause is one of the marked", members)


def _row(run: Run, *, indented: bool = False) -> ChartRow:
    assert run.state is not None
    members = tuple((each, "tested" if each in run.tested else "carried") for each in run.numbers)
    return ChartRow(f"Run {run.id}", _STATES[run.state], members, indented)


def legend(rows: Sequence[ChartRow]) -> list[tuple[str, str]]:
    """Return the classes of boxes that these rows have, with what each means."""
    found = {kind for row in rows for _, kind in row.members}
    return [(kind, meaning) for kind, meaning in LEGEND.items() if kind in found]


def draw_trains(trains: TrainStatus, *, member: int | None, address: str) -> str:
    """Draw the rows; a box leads to `address` with the path of its member. Returns "" where there is no row."""
    # Imported at the first chart: most processes never need Python's XML.
    from xml.etree import ElementTree as Tree

    rows = chart_rows(trains)
    if not rows:
        return ""
    boxes = min(_MOST_BOXES, max(len(row.members) for row in rows))
    width, height = _LEFT + _INDENT + (boxes + 1) * (_BOX + _GAP), _ROW * len(rows) + 8
    svg = Tree.Element(
        "svg",
        {
            "class": "chart train",
            "viewBox": f"0 0 {width} {height}",
            "width": str(width),
            "height": str(height),
            "role": "group",
            "aria-labelledby": "trains-title",
            "aria-describedby": "trains-description",
        },
    )
    Tree.SubElement(svg, "title", {"id": "trains-title"}).text = "Trains"
    Tree.SubElement(svg, "desc", {"id": "trains-description"}).text = ". ".join(map(sentence, rows))
    path = [(x, y) for number, x, y in _places(rows) if number == member]
    if len(path) > 1:
        points = " ".join(f"{x + _BOX // 2},{y + 13}" for x, y in path)
        Tree.SubElement(svg, "polyline", {"class": "path", "points": points})
    for place, row in enumerate(rows):
        _draw_row(svg, row, place, member, address)
    return Tree.tostring(svg, encoding="unicode")


def sentence(row: ChartRow) -> str:
    """Say a row in words."""
    return f"{row.name}, {row.text}: {', '.join(f'#{number} {kind}' for number, kind in row.members)}"


def _places(rows: Sequence[ChartRow]) -> Iterator[tuple[int, int, int]]:
    """Yield each drawn member with the corner of its box."""
    for place, row in enumerate(rows):
        for index, (number, _) in enumerate(row.members[:_MOST_BOXES]):
            yield number, _start(row) + index * (_BOX + _GAP), place * _ROW + 10


def _start(row: ChartRow) -> int:
    return _LEFT + (_INDENT if row.indented else 0)


def _draw_row(svg: Any, row: ChartRow, place: int, member: int | None, address: str) -> None:
    from xml.etree import ElementTree as Tree

    y = place * _ROW + 10
    name = Tree.SubElement(svg, "text", {"class": "name", "x": str(_INDENT if row.indented else 4), "y": str(y + 18)})
    name.text = f"{row.name}: {row.text}" if len(row.text) < 20 else row.name
    end = _start(row) + min(len(row.members), _MOST_BOXES) * (_BOX + _GAP) - _GAP
    line = {"class": "track", "x1": str(_start(row)), "x2": str(end), "y1": str(y + 13), "y2": str(y + 13)}
    Tree.SubElement(svg, "line", line)
    for index, (number, kind) in enumerate(row.members[:_MOST_BOXES]):
        _draw_box(svg, number, kind, (_start(row) + index * (_BOX + _GAP), y), number == member, address)
    more = len(row.members) - _MOST_BOXES
    if more > 0:
        rest = Tree.SubElement(svg, "text", {"class": "name", "x": str(end + _GAP), "y": str(y + 18)})
        rest.text = f"+{more}"


def _draw_box(svg: Any, number: int, kind: str, corner: tuple[int, int], marked: bool, address: str) -> None:
    from xml.etree import ElementTree as Tree

    x, y = corner
    link = Tree.SubElement(svg, "a", {"href": f"{address}?member={number}#trains"})
    Tree.SubElement(link, "title").text = f"Pull request #{number}, {kind}"
    classes = f"member {kind}{' marked' if marked else ''}"
    box = {"class": classes, "x": str(x), "y": str(y), "width": str(_BOX), "height": "26", "rx": "5"}
    Tree.SubElement(link, "rect", box)
    Tree.SubElement(link, "text", {"class": "label", "x": str(x + _BOX // 2), "y": str(y + 18)}).text = f"#{number}"


class QueuePage:
    """The page of a queue."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the route of the page."""
        return [web.get(routes.BRANCH, self._show)]

    async def _show(self, request: web.Request) -> web.Response:
        site, engine = self._site, self._site.engine
        repository, branch = await site.access.readable(request), routes.branch_of(request)
        async with engine.store.reading() as tx:
            queue = await tx.queues.find(repository.id, branch)
        if queue is None:
            raise routes.no_such_branch()
        policy = await known_policy(engine, repository, branch)
        role = await site.access.role(request, repository)
        async with engine.store.reading() as tx:
            found = await load_runs(tx, queue, policy, engine.clock.now())
        trains = found.status.trains
        rows = () if trains is None else chart_rows(trains)
        member = _member(request, rows)
        return await site.render(
            request,
            "queue.html",
            repository=repository,
            branch=branch,
            found=found,
            policy=policy,
            policy_known=policy is not None,
            trains=trains,
            train_rows=rows,
            train_legend=legend(rows),
            train_chart="" if trains is None else draw_trains(trains, member=member, address=request.rel_url.raw_path),
            member=member,
            controls=role in CONTROL_ROLES,
            text=wording,
            live=f"/events?repository={repository.full_name}",
        )


def _member(request: web.Request, rows: Sequence[ChartRow]) -> int | None:
    """Return the member whose path is to be marked: the one that the address names, if it is in a run."""
    asked = request.query.get("member", "")
    return next((number for row in rows for number, _ in row.members if str(number) == asked), None)


async def known_policy(engine: Engine, repository: Repository, branch: str) -> Policy | None:
    """Return the policy of a branch; None while GitHub does not answer, so that a page appears nevertheless."""
    try:
        return await engine.policies.of(repository, branch)
    except GitHubError:
        return None


SHOWN = 50
"""How many queues one page has."""
DEAD_COUNTED = 100
"""How many dead letters the overview counts at most."""


class OverviewPage:
    """The first page, and the page of a repository."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes of the pages."""
        return [web.get("/", self._overview), web.get(routes.REPOSITORY, self._repository)]

    async def _overview(self, request: web.Request) -> web.Response:
        who, engine = self._site.entrance(request), self._site.engine
        async with engine.store.reading() as tx:
            found = await load_summaries(tx, engine.clock.now())
            in_shadow, having = await tx.shadow.repositories(), await tx.requests.repositories()
        listed = [*(each.queue.repository for each in found), *in_shadow, *having]
        visible = await self._site.access.visible(who.token, listed, ())
        complete = await self._site.access.knows_all(who.token, listed)
        views = [each for each in found if each.queue.repository.id in visible]
        shadows = [each for each in in_shadow if each.id in visible]
        async with engine.store.reading() as tx:
            of = None if who.operator else visible
            dead = await load_requests(tx, DEAD_COUNTED, engine.clock.now(), of=of, wanted=RequestStatusKind.FAILED)
        context = {
            "title": "Overview",
            "repository": None,
            "shadows": shadows,
            "dead": len(dead),
            "complete": complete,
        }
        return await self._render(request, views, **context)

    async def _repository(self, request: web.Request) -> web.Response:
        repository, engine = await self._site.access.readable(request), self._site.engine
        async with engine.store.reading() as tx:
            found = await load_summaries(tx, engine.clock.now(), repository_id=repository.id)
        if len(found) == 1:
            address = queue_url(repository, found[0].queue.base_branch)
            return web.Response(status=303, headers={"Location": address})
        context = {"title": repository.full_name, "repository": repository, "shadows": [], "dead": 0, "complete": True}
        return await self._render(request, list(found), **context)

    async def _render(self, request: web.Request, views: list[QueueView], **context: Any) -> web.Response:
        """Render one page of queues, those with work first."""
        engine, now = self._site.engine, self._site.engine.clock.now()
        ordered = sorted(views, key=lambda each: (not each.busy, each.queue.repository.full_name.casefold()))
        first = (_page(request) - 1) * SHOWN
        shown = ordered[first : first + SHOWN]
        async with engine.store.reading() as tx:
            states = await load_states(tx, shown, now)
            slow = await load_slow_checks(tx, [entry for each in states for entry in each.running], now)
        return await self._site.render(
            request,
            "overview.html",
            states=states,
            slow=slow,
            dead_counted=DEAD_COUNTED,
            total=len(views),
            first=first,
            newer=_page(request) - 1 if first else None,
            older=_page(request) + 1 if len(ordered) > first + SHOWN else None,
            text=wording,
            live="/events",
            **context,
        )


def _page(request: web.Request) -> int:
    asked = request.query.get("page", "1")
    return max(int(asked), 1) if asked.isascii() and asked.isdigit() and len(asked) < 6 else 1
