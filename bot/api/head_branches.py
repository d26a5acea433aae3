"""`/api/v1/repositories/{owner}/{repo}/pulls?head=`: the pull requests of a branch, for callers within a clone."""

from collections.abc import Sequence
from typing import Literal, Protocol

from aiohttp import web
from pydantic import Field

from bot.api import request_scope
from bot.api.access import Access
from bot.api.errors import ApiError
from bot.api.payload import AnswerModel, Payload, query
from bot.api.routes import Caller, Route
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Repository

_HEAD = r"^(?:[A-Za-z0-9_-]{1,100}:)?[^\x00-\x20\x7f~^:?*\[\\]{1,255}$"


class HeadBranchQuery(Protocol):
    """Reads pull requests by their head branch. `bot.gateway.head_branches` implements it."""

    async def pull_requests(
        self, repository: Repository, owner: str, branch: str, state: str
    ) -> tuple[PullRequest, ...]:
        """Return those of this account's branch, the newest first."""
        ...


class HeadQuery(Payload):
    """The branch, as `branch` or, of a fork, `owner:branch`; `all` includes closed and merged pull requests."""

    head: str = Field(pattern=_HEAD)
    state: Literal["open", "all"] = "open"


class PullAnswer(AnswerModel):
    """A pull request of the branch, as GitHub shows it now; `state` is `open`, `closed` or `merged`."""

    number: int
    title: str
    author: str
    state: str
    draft: bool
    head_sha: str
    base_branch: str


class PullsAnswer(AnswerModel):
    """The pull requests of a head branch, the newest first."""

    repository: str
    head: str
    pulls: tuple[PullAnswer, ...]


class HeadBranchRoutes:
    """The route that finds the pull requests of a branch."""

    def __init__(self, access: Access, reader: HeadBranchQuery | None) -> None:
        """`reader` is None where the route is described, and not served."""
        self._access = access
        self._reader = reader

    def routes(self) -> Sequence[Route]:
        """List the route."""
        return [
            Route(
                "GET",
                f"{request_scope.REPOSITORY}/pulls",
                self.find,
                "find_pull_requests",
                "Finds the pull requests of a head branch.",
                caller=Caller.READER,
                answers={200: PullsAnswer},
                query=HeadQuery,
                variables=request_scope.VARIABLES,
            )
        ]

    async def find(self, request: web.Request) -> web.Response:
        """Answer 200, with none if the branch has none; 404: the caller may not read the repository."""
        repository = await self._access.readable(request)
        asked = query(request, HeadQuery)
        if self._reader is None:
            raise ApiError(503, "IMQ cannot ask GitHub here")
        owner, _, branch = asked.head.rpartition(":")
        owner = owner or repository.owner
        self._access.spend(request)
        with working(RequestPriority.BACKGROUND):
            found = await self._reader.pull_requests(repository, owner, branch, asked.state)
        answer = PullsAnswer(
            repository=repository.full_name, head=f"{owner}:{branch}", pulls=tuple(map(_answer, found))
        )
        return web.json_response(answer.model_dump(mode="json"))


def _answer(pull: PullRequest) -> PullAnswer:
    merged = pull.merged or pull.merged_at is not None
    return PullAnswer(
        number=pull.number,
        title=pull.title,
        author=pull.author,
        state="open" if pull.open else "merged" if merged else "closed",
        draft=pull.draft,
        head_sha=pull.head_sha,
        base_branch=pull.base_branch,
    )
