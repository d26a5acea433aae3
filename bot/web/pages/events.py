"""`GET /events`: what happens, for the scripts of pages."""

from collections.abc import Sequence

from aiohttp import web

from bot.web.live.streams import EventStreams
from bot.web.pages.programs import as_json, token_again
from bot.web.pages.site import Site
from queue_engine.store.tokens import Token


class EventPages:
    """The event stream of sessions. Programs use `/api/v1/events`, or send their token here."""

    def __init__(self, site: Site, streams: EventStreams) -> None:
        self._site, self._streams = site, streams

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the route."""
        return [web.get("/events", as_json(self._events), allow_head=False)]

    async def _events(self, request: web.Request) -> web.StreamResponse:
        async def renew(request: web.Request) -> Token:
            return await token_again(self._site, request)

        return await self._streams.serve(request, renew)
