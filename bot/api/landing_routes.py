"""`/api/v1/repositories/{owner}/{repo}/landings` and `…/trees/{tree}`: what landed, each with its passport."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from aiohttp import web
from pydantic import AwareDatetime, Field

from bot.api.api_errors import ApiError
from bot.api.payload import AnswerModel, Listing, json_data, no_such_page, query
from bot.api.routes import REPOSITORY, VARIABLES, Routes, read
from bot.passport.keys import line_of
from queue_engine.domain.landing_record import LandingRecord, LandingResult
from queue_engine.domain.model import Repository
from queue_engine.store import Transaction

_SHA = "[0-9a-f]{40}|[0-9a-f]{64}"
_LANDINGS = f"{REPOSITORY}/landings"


class LandingListing(Listing):
    branch: str | None = Field(None, min_length=1, max_length=255)

    async def load(self, tx: Transaction, repository: Repository) -> Sequence[LandingRecord]:
        """Load what `page` takes. Raises ApiError 404 for a made-up cursor."""
        after = None
        if self.after is not None:
            at, last = self.after
            if not last.isdecimal() or len(last) > 18:
                raise no_such_page()
            after = at, int(last)
        return await tx.landings.latest(repository.id, self.reads, base_branch=self.branch, after=after)


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
        return cls(**line_of(found), landed_at=found.at, record=dict(found.record))


class LandingsAnswer(AnswerModel):
    """Some landings: of a repository the latest first."""

    landings: tuple[LandingAnswer, ...]
    next: str | None = None


_VARIABLES = {**VARIABLES, "sha": "The full id of a landed commit.", "tree": "The full id of a landed tree."}
_show = partial(read, answers={200: LandingsAnswer}, variables=_VARIABLES)


class LandingRoutes(Routes):
    @_show(_LANDINGS, query=LandingListing)
    async def list_landings(self, request: web.Request) -> web.Response:
        """Lists the landings of a repository, the latest first, each with its passport.

        Answer 200 with a page; 404: the caller may not read the repository.
        """
        repository, listing = await self._access.readable(request), query(request, LandingListing)
        found = await self._engine.store.read(lambda tx: listing.load(tx, repository))
        return _answer(*listing.page(found))

    @_show(f"{_LANDINGS}/{{sha:{_SHA}}}")
    async def show_landing(self, request: web.Request) -> web.Response:
        """Shows what landed as a commit.

        Answer 200: usually one landing; 404: IMQ has no record of the commit, or the repository is hidden.
        """
        repository = await self._access.readable(request)
        async with self._engine.store.reading() as tx:
            found = await tx.landings.of_commit(repository.id, request.match_info["sha"])
        if not found:
            raise ApiError(404, "IMQ has no record of this commit: it landed nothing as that, or the record expired")
        return _answer(found)

    @_show(f"{REPOSITORY}/trees/{{tree:{_SHA}}}")
    async def find_landings_of_tree(self, request: web.Request) -> web.Response:
        """Lists the landings after which a base branch had this tree.

        Answer 200: none, one or several landings; 404: the repository is hidden.
        """
        repository = await self._access.readable(request)
        found = await self._engine.store.read(lambda tx: tx.landings.of_tree(repository.id, request.match_info["tree"]))
        return _answer(found)


def _answer(found: Sequence[LandingRecord], following: str | None = None) -> web.Response:
    answer = LandingsAnswer(landings=tuple(map(LandingAnswer.of, found)), next=following)
    return web.json_response(json_data(answer))
