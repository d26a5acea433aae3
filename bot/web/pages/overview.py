"""`GET /`: the queues that a person may see, and those of one repository."""

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from bot.api import request_scope
from bot.web.addresses import queue_url
from bot.web.pages import text
from bot.web.pages.site import Site
from queue_engine.queries.check_view import load_slow_checks
from queue_engine.queries.queue_states import load_states
from queue_engine.queries.queue_status import QueueView, load_summaries
from queue_engine.queries.requests import load_requests
from queue_engine.store.requests import RequestStatusKind

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
        return [web.get("/", self._overview), web.get(request_scope.REPOSITORY, self._repository)]

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
            text=text,
            live="/events",
            **context,
        )


def _page(request: web.Request) -> int:
    asked = request.query.get("page", "1")
    return max(int(asked), 1) if asked.isascii() and asked.isdigit() and len(asked) < 6 else 1
