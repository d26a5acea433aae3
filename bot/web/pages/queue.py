"""`GET /repositories/{owner}/{repo}/branches/{branch}`: one queue, with its runs, checks, blockers and departures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiohttp import web

from bot.api import request_scope
from bot.web.pages import text
from bot.web.pages.site import Site
from queue_engine.admission.enqueue import CONTROL_ROLES
from queue_engine.config.model import Policy
from queue_engine.domain.errors import GitHubError
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
from queue_engine.queries.queue_states import load_runs

if TYPE_CHECKING:
    from bot.web.pages.train_chart import ChartRow


class QueuePage:
    """The page of a queue."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the route of the page."""
        return [web.get(request_scope.BRANCH, self._show)]

    async def _show(self, request: web.Request) -> web.Response:
        # Imported at the first page: charts need Python's XML, which most processes never do.
        from bot.web.pages.train_chart import chart_rows, draw_trains, legend

        site, engine = self._site, self._site.engine
        repository, branch = await site.access.readable(request), request_scope.branch_of(request)
        async with engine.store.reading() as tx:
            queue = await tx.queues.find(repository.id, branch)
        if queue is None:
            raise request_scope.no_such_branch()
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
            text=text,
            live=f"/events?repository={repository.full_name}",
        )


def _member(request: web.Request, rows: "Sequence[ChartRow]") -> int | None:
    """Return the member whose path is to be marked: the one that the address names, if it is in a run."""
    asked = request.query.get("member", "")
    return next((number for row in rows for number, _ in row.members if str(number) == asked), None)


async def known_policy(engine: Engine, repository: Repository, branch: str) -> Policy | None:
    """Return the policy of a branch; None while GitHub does not answer, so that a page appears nevertheless."""
    try:
        return await engine.policies.of(repository, branch)
    except GitHubError:
        return None
