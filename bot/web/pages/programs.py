"""Answers in JSON at addresses of pages: for the scripts of a session, and for programs with a token."""

from collections.abc import Sequence

from aiohttp import web

from bot.api.auth import identify
from bot.api.errors import ApiError, answering_as_json
from bot.web.live.streams import EventStreams
from bot.web.login.viewer import Viewer, viewer
from bot.web.pages.site import Site
from queue_engine.store.tokens import Token


async def token_of(site: Site, request: web.Request) -> Token:
    """Return the token of a call: a bearer token if one is given, else the session's. Raises ApiError 400 and 401."""
    if "Authorization" in request.headers:
        return await identify(request, site.engine.store, site.engine.clock)
    return _entitled(site, viewer(request))


async def token_again(site: Site, request: web.Request) -> Token:
    """Return the token of a call under way: the session may have ended, or the token may be revoked."""
    if "Authorization" in request.headers:
        return await identify(request, site.engine.store, site.engine.clock)
    return _entitled(site, await site.follow(request))


def _entitled(site: Site, who: Viewer) -> Token:
    if not who.logged_in and not site.public_pages:
        raise ApiError(401, "log in at /login, or send `Authorization: Bearer` and a token of the API")
    return who.token


class EventPages:
    """The event stream of sessions. Programs use `/api/v1/events`, or send their token here."""

    def __init__(self, site: Site, streams: EventStreams) -> None:
        self._site, self._streams = site, streams

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the route."""
        return [web.get("/events", answering_as_json(self._events), allow_head=False)]

    async def _events(self, request: web.Request) -> web.StreamResponse:
        async def renew(request: web.Request) -> Token:
            return await token_again(self._site, request)

        return await self._streams.serve(request, renew)
