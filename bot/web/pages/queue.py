"""`/` shows queues at a glance; `/repositories/{owner}/{repo}/branches/{branch}` has one, with its runs as a tree."""

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from bot.api import routes
from bot.web.addresses import queue_url
from bot.web.pages import wording
from bot.web.pages.site import Pages, get
from queue_engine.admission.enqueue import CONTROL_ROLES
from queue_engine.config.model import Policy
from queue_engine.domain.errors import GitHubError
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Mode
from queue_engine.effects.context import Engine
from queue_engine.queries.control_effect import load_pause_effect
from queue_engine.queries.queue_states import QueueRuns, load_overview, load_runs
from queue_engine.queries.queue_status import QueueView, load_summaries
from queue_engine.queries.request_status import load_requests
from queue_engine.store.request_records import RequestStatusKind


class QueuePage(Pages):
    @get(routes.BRANCH)
    async def _show(self, request: web.Request) -> web.Response:
        site, engine = self._site, self._site.engine
        repository, branch = await site.access.readable(request), routes.branch_of(request)
        queue = await engine.store.read(lambda tx: tx.queues.find(repository.id, branch))
        if queue is None:
            raise routes.no_such_branch()
        policy = await known_policy(engine, repository, branch)
        role = await site.access.role(request, repository)
        async with engine.store.reading() as tx:
            found = await load_runs(tx, queue, policy, engine.clock.now())
            effect = await load_pause_effect(tx, queue, engine.clock.now()) if role in CONTROL_ROLES else None
            mode = await tx.shadow.mode(repository.id)
        return await site.render(
            request,
            "queue.html",
            repository=repository,
            branch=branch,
            found=found,
            titles={each.number: each.title for each in _entries(found)},
            policy=policy,
            in_shadow=mode is Mode.SHADOW,
            member=_member(request, found),
            controls=role in CONTROL_ROLES,
            effect=effect,
            text=wording,
            live=f"/events?repository={repository.full_name}",
        )


def _entries(found: QueueRuns) -> Sequence[Any]:
    return (*(view.entry for view in found.status.entries), *found.status.without_room, *found.status.outside)


def _member(request: web.Request, found: QueueRuns) -> int | None:
    """Return the pull request whose path is to be marked: the one that the address names, if it is in a run."""
    asked = request.query.get("member", "")
    shown = (*(run.numbers for run in found.runs), *(group.members for group in found.failed))
    return next((number for numbers in shown for number in numbers if str(number) == asked), None)


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


class OverviewPage(Pages):
    """The first page, and the page of a repository."""

    @get("/")
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
        return await self._render(
            request, views, title="Queues", repository=None, shadows=shadows, dead=len(dead), complete=complete
        )

    @get(routes.REPOSITORY)
    async def _repository(self, request: web.Request) -> web.Response:
        repository, engine = await self._site.access.readable(request), self._site.engine
        async with engine.store.reading() as tx:
            found = await load_summaries(tx, engine.clock.now(), repository_id=repository.id)
            shadows = [repository] if await tx.shadow.mode(repository.id) is Mode.SHADOW else []
        if len(found) == 1 and not shadows:
            address = queue_url(repository, found[0].queue.base_branch)
            return web.Response(status=303, headers={"Location": address})
        return await self._render(
            request, found, title=repository.full_name, repository=repository, shadows=shadows, dead=0, complete=True
        )

    async def _render(self, request: web.Request, views: Sequence[QueueView], **context: Any) -> web.Response:
        """Render one page of queues, those that need a person first, and then those with work."""
        found = await self._site.engine.store.read(lambda tx: load_overview(tx, views, self._site.engine.clock.now()))
        first = (_page(request) - 1) * SHOWN
        return await self._site.render(
            request,
            "overview.html",
            found=found,
            shown=found.ordered[first : first + SHOWN],
            dead_counted=DEAD_COUNTED,
            first=first,
            newer=_page(request) - 1 if first else None,
            older=_page(request) + 1 if len(found.states) > first + SHOWN else None,
            text=wording,
            live="/events",
            **context,
        )


def _page(request: web.Request) -> int:
    asked = request.query.get("page", "1")
    return max(int(asked), 1) if asked.isascii() and asked.isdigit() and len(asked) < 6 else 1
