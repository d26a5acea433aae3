"""`/api/v1/repositories/{owner}/{repo}/landings` and `…/trees/{tree}`: what landed, each with its passport."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from aiohttp import web
from pydantic import AwareDatetime, Field

from bot.api.api_errors import ApiError
from bot.api.payload import AnswerModel, Payload, cursor_after, json_data, parse_cursor, query
from bot.api.routes import REPOSITORY, VARIABLES, Routes, read
from bot.passport.keys import line_of
from queue_engine.domain.landing_record import LandingRecord, LandingResult

_SHA = "[0-9a-f]{40}|[0-9a-f]{64}"
_LANDINGS = f"{REPOSITORY}/landings"


class LandingQuery(Payload):
    """Parameters of a list of landings; `cursor` is the `next` of the page before."""

    limit: int = Field(50, ge=1, le=200)
    cursor: str | None = None
    branch: str | None = Field(None, min_length=1, max_length=255)


class LandingAnswer(AnswerModel):
    """A landing, and its passport in `envelopes`.

    Only the passport is signed: what stands beside it is for people.
    """

    commit: str
    tree: str
    repository_id: int
    base_branch: str
    number: int
    result: LandingResult
    landed_at: AwareDatetime
    record: dict[str, Any] = Field(description="As docs/landing-v1.schema.json has it.")
    envelopes: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, found: LandingRecord) -> "LandingAnswer":
        """Convert a stored landing."""
        return cls(**line_of(found), landed_at=found.at, record=dict(found.record))


class LandingsAnswer(AnswerModel):
    """Some landings: of a repository the latest first."""

    landings: tuple[LandingAnswer, ...]
    next: str | None = None


_VARIABLES = {**VARIABLES, "sha": "The full id of a landed commit.", "tree": "The full id of a landed tree."}
_show = partial(read, answers={200: LandingsAnswer}, variables=_VARIABLES)


class LandingRoutes(Routes):
    """Routes that show landings."""

    @_show(
        _LANDINGS,
        "list_landings",
        "Lists the landings of a repository, the latest first, each with its passport.",
        query=LandingQuery,
    )
    async def list(self, request: web.Request) -> web.Response:
        """Answer 200 with a page; 404: the caller may not read the repository."""
        repository, listing = await self._access.readable(request), query(request, LandingQuery)
        after = None if listing.cursor is None else place_of(listing.cursor)
        async with self._engine.store.reading() as tx:
            found = await tx.landings.latest(repository.id, listing.limit + 1, base_branch=listing.branch, after=after)
        shown, more = found[: listing.limit], len(found) > listing.limit
        following = cursor_after(shown[-1].at, str(shown[-1].id)) if more else None
        return _answer(shown, following)

    @_show(f"{_LANDINGS}/{{sha:{_SHA}}}", "show_landing", "Shows what landed as a commit.")
    async def of_commit(self, request: web.Request) -> web.Response:
        """Answer 200: usually one landing; 404: IMQ has no record of the commit, or the repository is hidden."""
        repository = await self._access.readable(request)
        async with self._engine.store.reading() as tx:
            found = await tx.landings.of_commit(repository.id, request.match_info["sha"])
        if not found:
            raise ApiError(404, "IMQ has no record of this commit: it landed nothing as that, or the record expired")
        return _answer(found)

    @_show(
        f"{REPOSITORY}/trees/{{tree:{_SHA}}}",
        "find_landings_of_tree",
        "Lists the landings after which a base branch had this tree.",
    )
    async def of_tree(self, request: web.Request) -> web.Response:
        """Answer 200: none, one or several landings; 404: the repository is hidden."""
        repository = await self._access.readable(request)
        async with self._engine.store.reading() as tx:
            found = await tx.landings.of_tree(repository.id, request.match_info["tree"])
        return _answer(found)


def place_of(cursor: str) -> tuple[datetime, int]:
    """Return the place of the landing before a page. Raises ApiError 404 for a made-up cursor."""
    at, last = parse_cursor(cursor)
    if not last.isdecimal() or len(last) > 18:
        raise ApiError(404, "no such page: use the `next` of another page as cursor")
    return at, int(last)


def _answer(found: Sequence[LandingRecord], following: str | None = None) -> web.Response:
    answer = LandingsAnswer(landings=tuple(map(LandingAnswer.of, found)), next=following)
    return web.json_response(json_data(answer))
