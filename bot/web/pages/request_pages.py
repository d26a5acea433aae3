"""`/requests` and `/dead-letters`: what people and programs asked of IMQ, and how far it is; `/events`."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from aiohttp import web
from pydantic import Field

from bot.api.api_errors import ApiError
from bot.api.auth import identify
from bot.api.events import MAX_REQUESTS
from bot.api.payload import Listing, json_data, query
from bot.web.live.request_watch import PATTERN, RequestAccess, RequestIds, shown, shown_error
from bot.web.live.streams import EventStreams
from bot.web.login.session_cookies import Viewer, viewer
from bot.web.pages.site import Pages, Site, get, post
from queue_engine.control import dead_letter_retries
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.model import Repository
from queue_engine.queries.request_status import RequestState, RequestStatus, load_requests
from queue_engine.store.request_records import RequestStatusKind
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


class EventPages(Pages):
    """The event stream of sessions. Programs use `/api/v1/events`, or send their token here."""

    def __init__(self, site: Site, streams: EventStreams) -> None:
        super().__init__(site)
        self._streams = streams

    @get("/events", for_programs=True, allow_head=False)
    async def _events(self, request: web.Request) -> web.StreamResponse:
        async def renew(request: web.Request) -> Token:
            return await token_again(self._site, request)

        return await self._streams.serve(request, renew)


_ONE = f"/requests/{{id:{PATTERN}}}"


class RequestListing(Listing):
    state: RequestStatusKind = RequestStatusKind.ALL
    repository: str | None = Field(None, pattern=r"^[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}$")


class RequestPage(ReadModel):
    """Some requests, those of the outbox first and then the latest; `next` is the cursor of the next page."""

    requests: tuple[RequestStatus, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A request on the page. `id` is opaque, `error` has no secrets, `may_retry` says whether the viewer may retry."""

    id: str
    request: RequestStatus
    error: str | None
    may_retry: bool


class RequestPages(Pages):
    """Pages of requests, and their status for scripts and programs."""

    def __init__(self, site: Site, ids: RequestIds) -> None:
        """`ids` makes and reads the opaque ids of requests."""
        super().__init__(site)
        self._ids, self._requests = ids, RequestAccess(site.engine, site.access, ids)

    @get("/requests/status", for_programs=True)
    async def _statuses(self, request: web.Request) -> web.Response:
        token = await token_of(self._site, request)
        found, cursor = await self._load(token, query(request, RequestListing))
        page = RequestPage(
            requests=tuple(shown(each, token, self._ids.seal(each.id)) for each in found),
            next=cursor,
        )
        return web.json_response(page.model_dump(mode="json"))

    @get(f"{_ONE}/status", for_programs=True)
    async def _status(self, request: web.Request) -> web.Response:
        token = await token_of(self._site, request)
        found = await self._requests.find(token, request.match_info["id"])
        return web.json_response(json_data(shown(found, token, request.match_info["id"])))

    @get("/requests")
    async def _list(self, request: web.Request) -> web.Response:
        return await self._render(request, "requests.html", query(request, RequestListing))

    @get("/dead-letters")
    async def _failed(self, request: web.Request) -> web.Response:
        listing = query(request, RequestListing).model_copy(update={"state": RequestStatusKind.FAILED})
        return await self._render(request, "dead_letters.html", listing)

    async def _render(self, request: web.Request, template: str, listing: RequestListing) -> web.Response:
        who = self._site.entrance(request)
        found, cursor = await self._load(who.token, listing)
        if listing.state is RequestStatusKind.ALL and listing.cursor is None:
            found = await self._open_first(who.token, listing, found)
        may = await self._controlled(who.token, found)
        rows = [
            RequestRow(
                self._ids.seal(each.id),
                each,
                shown_error(each, who.token),
                each.letter_id is not None and (who.operator or (each.repository and each.repository.id) in may),
            )
            for each in found
        ]
        pending = [row.id for row in rows if row.request.pending][:MAX_REQUESTS]
        older = None if cursor is None else f"{request.path}?{urlencode({**request.query, 'cursor': cursor})}"
        watched: dict[str, str] = {"requests": ",".join(pending)} if pending else {}
        if listing.repository is not None:
            watched["repository"] = listing.repository
        return await self._site.render(
            request,
            template,
            rows=rows,
            older=older,
            listing=listing,
            states=tuple(RequestStatusKind),
            live=f"/events?{urlencode(watched)}" if watched else "/events",
        )

    async def _open_first(
        self, token: Token, listing: RequestListing, found: Sequence[RequestStatus]
    ) -> Sequence[RequestStatus]:
        """Return these requests behind the failed and the pending ones, however old those are."""
        first: dict[str, RequestStatus] = {}
        for state in (RequestStatusKind.FAILED, RequestStatusKind.PENDING):
            of_state, _ = await self._load(token, listing.model_copy(update={"state": state}))
            first |= {each.id: each for each in of_state}
        return (*first.values(), *(each for each in found if each.id not in first))

    @post(f"{_ONE}/retry")
    async def _retry(self, request: web.Request) -> web.Response:
        found, by = await self._changed_by(request)
        async with self._site.engine.change() as change:
            if not await dead_letter_retries.retry_request(change.tx, found, change.now, by=by):
                raise ApiError(409, "this request is not failed any more, or another person has retried it")
        self._site.engine.meter.count("user_retries", kind=found.kind)
        return self._site.see_other(request, "/requests", "IMQ tries it again.")

    @post(f"{_ONE}/discard")
    async def _discard(self, request: web.Request) -> web.Response:
        if not viewer(request).operator:
            raise ApiError(403, "only operators of IMQ (IMQ_OPERATORS) discard dead letters")
        found, by = await self._changed_by(request)
        actor, letter_id = dead_letter_retries.Actor(by, "page"), found.letter_id or ""
        async with self._site.engine.change() as change:
            if not await dead_letter_retries.discard(change.tx, letter_id, actor, change.now):
                raise ApiError(409, "this request has no dead letter any more")
        return self._site.see_other(request, "/dead-letters", "The dead letter is discarded.")

    async def _changed_by(self, request: web.Request) -> tuple[RequestStatus, str]:
        """Return a request and the login of the viewer, who controls its queue. Raises ApiError: 403, 404, 429."""
        who = viewer(request)
        found = await self._requests.find(who.token, request.match_info["id"])
        if who.operator or found.repository is None:
            return found, who.login or who.token.name
        repository = found.repository
        _, login = await self._site.access.allowed(who.token, repository, controls=True)
        return found, login

    async def _load(self, token: Token, listing: RequestListing) -> tuple[Sequence[RequestStatus], str | None]:
        """Load one page and the cursor of the next. Raises ApiError: 400, 404."""
        of = await self._requests.visible(token)
        if listing.repository is not None:
            chosen = await self._site.access.readable_by(token, *listing.repository.split("/"))
            of = frozenset({chosen.id})
        now = self._site.engine.clock.now()
        async with self._site.engine.store.reading() as tx:
            found = await load_requests(tx, listing.reads, now, of=of, wanted=listing.state, after=listing.after)
        placed = [each for each in found if not _is_item(each)]
        items = [each for each in found if _is_item(each)][: listing.limit]
        shown, following = listing.page(placed)
        return (*items, *shown), following

    async def _controlled(self, token: Token, found: Sequence[RequestStatus]) -> frozenset[int]:
        """Return the repositories of failed requests whose queues the caller controls, as far as IMQ knows."""
        failed: dict[int, Repository] = {
            each.repository.id: each.repository
            for each in found
            if each.state is RequestState.FAILED and each.repository is not None
        }
        return await self._site.access.controlled(token, failed.values())


def _is_item(request: RequestStatus) -> bool:
    """Return whether a request is an outbox item that waits, which has no place in the order of requests."""
    return "-" in request.id and request.pending
