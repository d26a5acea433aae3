"""Serve pages: find the viewer, show errors as pages, guard forms, and set headers against other sites."""

import hmac
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from bot.api.api_errors import ApiError, answering_as_json, known_error
from bot.api.auth import READING
from bot.api.permissions import Access
from bot.api.routes import H, Handlers, noted
from bot.http.form import Refused, check_header, read_form
from bot.web.addresses import login_url, own_path
from bot.web.login.session_cookies import ANONYMOUS, Flash, Viewer, view_as, viewer, write_cookies
from bot.web.pages.render import PAGE_HEADERS, as_sentence, page
from bot.web.pages.static_files import static_route
from queue_engine.effects.context import Engine

FIELD = "csrf"

_STALE = "This form is not from your present session. Go back, reload the page and try again"


async def refuse_forged(request: web.Request, own_origin: str | None = None) -> None:
    """Return for a request that reads, and for a form of this session. Raises ApiError (400, 403, 408, 411, 413, 415).

    `own_origin` is the public address. Beside what every form has to pass, the session's secret field is needed, which
    no page of another site knows. Without a session IMQ does not read the form.
    """
    if request.method in READING:
        return
    who = viewer(request)
    try:
        check_header(request, own_origin)
        given = (await read_form(request, own_origin)).get(FIELD, "") if who.csrf else ""
    except Refused as refused:
        raise ApiError(refused.status, refused.sentence) from None
    if not who.csrf or not hmac.compare_digest(given.encode(), who.csrf.encode()):
        raise ApiError(403, _STALE)


_NOTHING_HERE = "IMQ has no such page, or you may not see it."
_OFFICIAL = (401, 403, 404)
"""Answers that say nothing to a person who is not logged in: they are asked to log in, whatever exists."""

ROUTES: web.AppKey[tuple[tuple[str, str], ...]] = web.AppKey("page_routes", tuple)
"""Method and path of each page of an application."""

_PAGE: web.RequestKey[bool] = web.RequestKey("page", bool)
_log = structlog.get_logger("imq.pages")


class LoginNeeded(Exception):
    """The page needs a person: the site asks them to log in."""


async def _anonymous(_request: web.Request) -> Viewer:
    return ANONYMOUS


async def _same(who: Viewer) -> Viewer:
    return who


class Site:
    """The parts that pages share."""

    def __init__(
        self,
        engine: Engine,
        access: Access,
        *,
        github: str,
        identify: Callable[[web.Request], Awaitable[Viewer]] | None = None,
        follow: Callable[[Viewer], Awaitable[Viewer]] | None = None,
        flash: Flash | None = None,
        own_origin: str | None = None,
        public_pages: bool = False,
    ) -> None:
        """`github` is the origin of GitHub's website, `identify` finds who looks, and `follow` whether they still may.

        `flash` keeps messages for the next page; without it they are not shown. `own_origin` is IMQ's public address.
        `public_pages` opens the pages of public repositories to persons who are not logged in.
        """
        self.engine, self.access, self.github = engine, access, github
        self.public_pages = public_pages
        self._identify = identify or _anonymous
        self._follow = follow or _same
        self._flash = flash
        self._own_origin = own_origin

    async def render(self, request: web.Request, template: str, *, status: int = 200, **context: Any) -> web.Response:
        """Return a page. Beside `context` templates know `viewer`, `now`, `path` and `github`."""
        shared = {
            "viewer": viewer(request),
            "now": self.engine.clock.now(),
            "path": request.path_qs,
            "github": self.github,
            "flash": "" if self._flash is None else self._flash.take(request),
        }
        return page(template, status=status, **{**shared, **context})

    def see_other(self, request: web.Request, path: str, message: str = "") -> web.Response:
        """Return the answer to a form: another page of IMQ, which shows the message."""
        if message and self._flash is not None:
            self._flash.put(request, message)
        return _see(own_path(path))

    async def follow(self, request: web.Request) -> Viewer:
        """Return the viewer during a long answer: the session may have ended."""
        return await self._follow(viewer(request))

    def entrance(self, request: web.Request) -> Viewer:
        """Return who looks at a page about several repositories. Raises LoginNeeded unless pages are public."""
        who = viewer(request)
        if not who.logged_in and not self.public_pages:
            raise LoginNeeded
        return who

    async def serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer one request for a page: find who looks, refuse forged forms, and show errors as pages."""
        request[_PAGE] = True
        view_as(request, ANONYMOUS)
        try:
            view_as(request, await self._identify(request))
            await refuse_forged(request, self._own_origin)
            return await handler(request)
        except LoginNeeded:
            return _see(login_url(request.path_qs))
        except web.HTTPException as error:
            if error.status < HTTPStatus.BAD_REQUEST:
                raise
            return await self._error_page(request, known_error(request, error) or ApiError(error.status, error.reason))
        except Exception as error:
            if (known := known_error(request, error)) is None:
                _log.exception("page_failed", method=request.method, path=request.path)
                known = ApiError(500, "IMQ failed to show this page. Its log has the details.")
            return await self._error_page(request, known)

    async def _error_page(self, request: web.Request, error: ApiError) -> web.StreamResponse:
        asked = request.method in ("GET", "HEAD") and request.match_info.http_exception is None
        if asked and error.status in _OFFICIAL and not viewer(request).logged_in:
            return _see(login_url(request.path_qs))
        status = 404 if error.status in (401, 404) else error.status
        sentence = _NOTHING_HERE if status == HTTPStatus.NOT_FOUND else as_sentence(str(error.body["error"]))
        title = HTTPStatus(status).phrase
        shown = await self.render(request, "error.html", status=status, title=title, sentence=sentence)
        shown.headers.update(error.headers)
        return shown


def address(method: str, *paths: str, for_programs: bool = False, **more: Any) -> Callable[[H], H]:
    """Have a method of `Pages` answer at these addresses; `for_programs`: its errors are JSON, and no pages."""
    answered = answering_as_json if for_programs else lambda handler: handler
    return noted(lambda handler, path=path: web.RouteDef(method, path, answered(handler), more) for path in paths)


get, post = partial(address, "GET"), partial(address, "POST")


class Pages(Handlers):
    """Pages of one subject, each of which a method answers. Each POST is a form's, and carries the session's `csrf`."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[web.RouteDef]:
        return [create(getattr(self, name)) for name, notes in self._notes.items() for create in notes]


def add_pages(app: web.Application, site: Site, pages: Iterable[Pages]) -> None:
    """Add pages and static files to the application. Addresses that it does not know answer browsers with a page."""
    routes = [route for each in pages for route in each.routes()]
    app[ROUTES] = tuple((route.method, route.path) for route in routes)
    app.add_routes([static_route()])
    app.add_routes([web.RouteDef(each.method, each.path, _served(site, each.handler), each.kwargs) for each in routes])
    app.middlewares.append(_unknown_addresses(site))
    app.on_response_prepare.append(_add_headers)


def _served(site: Site, handler: Any) -> Handler:
    async def serve(request: web.Request) -> web.StreamResponse:
        return await site.serve(request, handler)

    return serve


def _unknown_addresses(site: Site) -> Any:
    """Create the middleware that shows browsers a page for an unknown address; programs keep their JSON."""

    @web.middleware
    async def show(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.match_info.http_exception is None or not _is_browser(request):
            return await handler(request)
        return await site.serve(request, handler)

    return show


def _is_browser(request: web.Request) -> bool:
    programs = request.path.startswith(("/api/", "/webhook", "/healthz", "/readyz", "/metrics"))
    return "text/html" in request.headers.get("Accept", "") and not programs


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    if request.get(_PAGE):
        for name, value in PAGE_HEADERS.items():
            response.headers.setdefault(name, value)
        write_cookies(request, response)


def _see(address: str) -> web.Response:
    return web.Response(status=303, headers={"Location": address})
