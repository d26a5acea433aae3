"""`/api/v1/dead-letters`: show, retry and discard work that failed for good. For operators."""

from dataclasses import replace
from functools import partial

from aiohttp import web
from pydantic import Field

from bot.api.api_errors import ApiError
from bot.api.auth import caller, operator
from bot.api.idempotent import finish_call
from bot.api.payload import AnswerModel, EmptyBody, Payload, cursor_after, json_data, parse_cursor, payload, query
from bot.api.routes import Caller, Routes, route
from bot.logs.configure import mask
from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.effects.context import Change
from queue_engine.store.action_records import ActionKind

_ONE = "/dead-letters/{id:[0-9a-f]{32}}"


class Listing(Payload):
    """Parameters of a list of dead letters; `cursor` is the `next` of the page before."""

    limit: int = Field(50, ge=1, le=200)
    cursor: str | None = None
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

    @_for_operators(
        "GET",
        "/dead-letters",
        "list_dead_letters",
        "Lists dead letters, the latest first.",
        query=Listing,
        answers={200: Page},
    )
    async def list(self, request: web.Request) -> web.Response:
        """Answer 200 with a page."""
        operator(request)
        listing = query(request, Listing)
        job_type, retryable = listing.job_type, listing.retryable
        after = None if listing.cursor is None else parse_cursor(listing.cursor)
        async with self._engine.store.reading() as tx:
            letters = await tx.dead_letters.list(listing.limit + 1, after=after, job_type=job_type, retryable=retryable)
            count = await tx.dead_letters.count(job_type=job_type, retryable=retryable)
        shown, more = letters[: listing.limit], len(letters) > listing.limit
        following = cursor_after(*shown[-1].place) if more else None
        page = Page(dead_letters=tuple(map(_masked, shown)), count=count, next=following)
        return web.json_response(json_data(page))

    @_for_operators("GET", _ONE, "show_dead_letter", "Shows a dead letter.", answers={200: DeadLetter})
    async def show(self, request: web.Request) -> web.Response:
        """Answer 200 with a dead letter, or 404."""
        operator(request)
        async with self._engine.store.reading() as tx:
            letter = await tx.dead_letters.get(request.match_info["id"])
        if letter is None:
            raise _not_found()
        return web.json_response(json_data(_masked(letter)))

    @_for_operators(
        "POST",
        f"{_ONE}/reprocess",
        "reprocess_dead_letter",
        "Retries a dead letter.",
        body=EmptyBody,
        answers={202: Reprocessed},
    )
    async def reprocess(self, request: web.Request) -> web.Response:
        """Answer 202: the dead letter is a job again; or 404."""
        operator(request)
        payload(request, EmptyBody)
        async with self._engine.change() as change:
            if not await change.tx.dead_letters.reprocess(request.match_info["id"], change.now):
                raise _not_found()
            await _note(request, change, ActionKind.DEAD_LETTER_RETRIED)
            return await finish_call(request, change.tx, {"reprocessed": 1}, status=202)

    @_for_operators(
        "POST",
        "/dead-letters/reprocess",
        "reprocess_dead_letters",
        "Retries all that are retryable.",
        body=EmptyBody,
        answers={202: Reprocessed},
    )
    async def reprocess_all(self, request: web.Request) -> web.Response:
        """Answer 202: all retryable dead letters are jobs again, and how many those were."""
        operator(request)
        payload(request, EmptyBody)
        async with self._engine.change() as change:
            reprocessed = await change.tx.dead_letters.reprocess_all(change.now)
            if reprocessed:
                await _note(request, change, ActionKind.DEAD_LETTER_RETRIED, count=reprocessed)
            return await finish_call(request, change.tx, {"reprocessed": reprocessed}, status=202)

    @_for_operators(
        "DELETE",
        _ONE,
        "discard_dead_letter",
        "Discards a dead letter for good.",
        body=EmptyBody,
        answers={204: None},
    )
    async def discard(self, request: web.Request) -> web.Response:
        """Answer 204: the dead letter is deleted; or 404."""
        operator(request)
        payload(request, EmptyBody)
        async with self._engine.change() as change:
            if not await change.tx.dead_letters.discard(request.match_info["id"]):
                raise _not_found()
            await _note(request, change, ActionKind.DEAD_LETTER_DISCARDED)
            return await finish_call(request, change.tx, None, status=204)


async def _note(request: web.Request, change: Change, kind: ActionKind, **data: int) -> None:
    """Record what the caller did with the dead letter of this call, or with all."""
    token, subject = caller(request), request.match_info.get("id", "all")
    by = token.login or token.name
    await change.tx.actions.add(kind, subject, by=by, via="api", at=change.now, data={"token": token.name, **data})


def _masked(letter: DeadLetter) -> DeadLetter:
    """Return a dead letter without the secrets that its error may quote."""
    return replace(letter, error_message=mask(letter.error_message))


def _not_found() -> ApiError:
    return ApiError(404, "no dead letter has this id: it may be discarded or reprocessed")
