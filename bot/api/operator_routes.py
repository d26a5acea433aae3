"""Routes for operators alone: dead letters, `/api/v1/audit-log`, and the findings of `imq doctor`."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from aiohttp import web
from pydantic import Field

from bot.api.api_errors import ApiError
from bot.api.auth import caller
from bot.api.finding import Report
from bot.api.idempotent import finish_call
from bot.api.payload import AnswerModel, EmptyBody, Instant, Listing, Payload, json_data, no_such_page, query
from bot.api.routes import Caller, Routes, route
from bot.logs.configure import mask
from queue_engine.control.dead_letter_retries import Actor, discard, retry
from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.store.action_records import FIRST, ActionRecord

_ONE = "/dead-letters/{id:[0-9a-f]{32}}"


class DeadLetterListing(Listing):
    job_type: str | None = Field(None, pattern=r"^[\x21-\x7e]{1,64}$")
    retryable: bool | None = None


class Page(AnswerModel):
    """Some dead letters, the latest first; `count` is how many there are on all pages."""

    dead_letters: tuple[DeadLetter, ...]
    count: int
    next: str | None


class Reprocessed(AnswerModel):
    """How many dead letters are jobs again."""

    reprocessed: int


_for_operators = partial(route, caller=Caller.OPERATOR, variables={"id": "The id of a dead letter."})


class DeadLetterRoutes(Routes):
    """Routes that show, retry and discard dead letters."""

    @_for_operators("GET", "/dead-letters", query=DeadLetterListing, answers={200: Page})
    async def list_dead_letters(self, request: web.Request) -> web.Response:
        """Lists dead letters, the latest first. Answer 200 with a page."""
        listing = query(request, DeadLetterListing)
        job_type, retryable = listing.job_type, listing.retryable
        async with self._engine.store.reading() as tx:
            letters = await tx.dead_letters.list(
                listing.reads, after=listing.after, job_type=job_type, retryable=retryable
            )
            count = await tx.dead_letters.count(job_type=job_type, retryable=retryable)
        shown, following = listing.page(letters)
        page = Page(dead_letters=tuple(map(_masked, shown)), count=count, next=following)
        return web.json_response(json_data(page))

    @_for_operators("GET", _ONE, answers={200: DeadLetter})
    async def show_dead_letter(self, request: web.Request) -> web.Response:
        """Shows a dead letter. Answer 200 with a dead letter, or 404."""
        letter = await self._engine.store.read(lambda tx: tx.dead_letters.get(request.match_info["id"]))
        if letter is None:
            raise _not_found()
        return web.json_response(json_data(_masked(letter)))

    @_for_operators("POST", f"{_ONE}/reprocess", body=EmptyBody, answers={202: Reprocessed})
    async def reprocess_dead_letter(self, request: web.Request) -> web.Response:
        """Retries a dead letter. Answer 202: the dead letter is a job again; or 404."""
        async with self._engine.change() as change:
            if not await retry(change.tx, request.match_info["id"], _actor(request), change.now):
                raise _not_found()
            return await finish_call(request, change.tx, {"reprocessed": 1}, status=202)

    @_for_operators("POST", "/dead-letters/reprocess", body=EmptyBody, answers={202: Reprocessed})
    async def reprocess_dead_letters(self, request: web.Request) -> web.Response:
        """Retries all that are retryable.

        Answer 202: all retryable dead letters are jobs again, and how many those were.
        """
        async with self._engine.change() as change:
            reprocessed = await retry(change.tx, None, _actor(request), change.now)
            return await finish_call(request, change.tx, {"reprocessed": reprocessed}, status=202)

    @_for_operators("DELETE", _ONE, body=EmptyBody, answers={204: None})
    async def discard_dead_letter(self, request: web.Request) -> web.Response:
        """Discards a dead letter for good. Answer 204: the dead letter is deleted; or 404."""
        async with self._engine.change() as change:
            if not await discard(change.tx, request.match_info["id"], _actor(request), change.now):
                raise _not_found()
            return await finish_call(request, change.tx, None, status=204)


def _actor(request: web.Request) -> Actor:
    token = caller(request)
    return Actor(token.login or token.name, "api", token.name)


def _masked(letter: DeadLetter) -> DeadLetter:
    """Return a dead letter without the secrets that its error may quote."""
    return replace(letter, error_message=mask(letter.error_message))


def _not_found() -> ApiError:
    return ApiError(404, "no dead letter has this id: it may be discarded or reprocessed")


class AuditLogListing(Listing):
    since: Instant | None = None
    limit: int = Field(200, ge=1, le=1000)


class AuditLogAnswer(AnswerModel):
    """Who did what, the first action first. `next` is null on a page after which nothing has happened yet."""

    actions: tuple[ActionRecord, ...]
    next: str | None


class AuditLogRoutes(Routes):
    @_for_operators("GET", "/audit-log", query=AuditLogListing, answers={200: AuditLogAnswer}, refusals=(404, 422))
    async def list_actions(self, request: web.Request) -> web.Response:
        """Lists who did what and when, the first action first.

        Answer 200 with a page; 404 for a made-up cursor; 422: no instant.
        """
        asked = query(request, AuditLogListing)
        async with self._engine.store.reading() as tx:
            try:
                found = await tx.actions.page(asked.since or FIRST, limit=asked.reads, after=asked.after)
            except ValueError:
                raise no_such_page() from None
        shown, following = asked.page(found)
        return web.json_response(json_data(AuditLogAnswer(actions=shown, next=following)))


Examine = Callable[[str | None], Awaitable[Report]]
"""Examines the installation, or of its repositories only the named one. Raises LookupError for an unknown one."""


class DoctorQuery(Payload):
    """Parameters of an examination."""

    repository: str | None = Field(None, pattern=r"^[^/\s]{1,100}/[^/\s]{1,100}$")


class DoctorRoutes(Routes):
    """The route that examines the installation."""

    def __init__(self, examine: Examine | None) -> None:
        """`examine` is None only where the routes are described, and not served."""
        self._examine = examine

    @_for_operators("GET", "/doctor", query=DoctorQuery, answers={200: Report}, refusals=(404,))
    async def examine_installation(self, request: web.Request) -> web.Response:
        """Examines settings, database, App and repositories.

        Answer 200 with the findings, or 404 for a repository that the App does not see.
        """
        assert self._examine is not None
        try:
            report = await self._examine(query(request, DoctorQuery).repository)
        except LookupError as problem:
            raise ApiError(404, str(problem)) from None
        return web.json_response(json_data(report))
