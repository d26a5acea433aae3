"""`/api/v1/repositories/{owner}/{repo}/pulls/{number}/…`: queue, move and dequeue a pull request for a person."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal, Protocol

from aiohttp import web
from pydantic import BeforeValidator, Field, WithJsonSchema

from bot.api import routes
from bot.api.api_errors import ApiError
from bot.api.enqueueing import Finish, PullRequests
from bot.api.idempotent import delivery_id, finish_call
from bot.api.payload import AnswerModel, EmptyBody, Payload, payload, query
from bot.api.permissions import Access
from bot.api.routes import Caller, Routes, read, route
from bot.api.views import (
    DequeuedAnswer,
    EffectAnswer,
    HeadCall,
    PriorityCall,
    QueueCall,
    QueuedAnswer,
    RevertAnswer,
    WhyAnswer,
)
from bot.api.waits import ChangeWaits, Outcome, OutcomeQuery, of_repository, with_version
from queue_engine.commands.commands import MAX_POINTS, PRIORITIES, parse_priority
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.observability import trace
from queue_engine.domain.errors import GitHubError
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
from queue_engine.queries.control_effect import ControlKind, load_control_effect
from queue_engine.store import Transaction

_QUEUE = f"{routes.PULL}/queue"
_QUEUED = {200: QueuedAnswer, 202: QueuedAnswer}


_HEAD = r"^(?:[A-Za-z0-9_-]{1,100}:)?[^\x00-\x20\x7f~^:?*\[\\]{1,255}$"


class HeadBranchQuery(Protocol):
    """Reads pull requests by their head branch. `bot.gateway.merges` implements it."""

    async def pull_requests(
        self, repository: Repository, owner: str, branch: str, state: str
    ) -> tuple[PullRequest, ...]:
        """Return those of this account's branch, the newest first."""
        ...


class HeadQuery(Payload):
    """The branch, as `branch` or, of a fork, `owner:branch`; `all` includes closed and merged pull requests."""

    head: str = Field(pattern=_HEAD)
    state: Literal["open", "all"] = "open"


_PRIORITY = rf"^(?:{'|'.join(PRIORITIES)}|-?(?:{MAX_POINTS}|[0-9]{{1,3}}))$"


def _points(word: str) -> int:
    if (points := parse_priority(word)) is None:
        raise ValueError(f"a priority is {', '.join(PRIORITIES)}, or a number from -{MAX_POINTS} to {MAX_POINTS}")
    return points


class EffectQuery(Payload):
    """Parameters of a preview: what would be done, and the priority, as points or `high`, `normal`, `low`."""

    do: ControlKind
    priority: Annotated[int, BeforeValidator(_points), WithJsonSchema({"type": "string", "pattern": _PRIORITY})] = (
        Field("high", validate_default=True)
    )


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


_opens = partial(route, "POST", caller=Caller.PERSON, body=EmptyBody, answers={200: RevertAnswer}, refusals=(422,))
"""A route that opens the revert of a pull request, or the revert of its revert."""


class QueueRoutes(Routes):
    """Routes that find, show, queue, prioritise and dequeue a pull request."""

    def __init__(
        self, engine: Engine, access: Access, waits: ChangeWaits, heads: HeadBranchQuery | None = None
    ) -> None:
        """`heads` is None where the routes are described, and not served."""
        super().__init__(engine, access)
        self._waits = waits
        self._heads = heads
        self._pulls = PullRequests(engine)

    @read(_QUEUE, answers={200: WhyAnswer, 304: None}, query=OutcomeQuery)
    async def show_pull_request(self, request: web.Request) -> web.Response:
        """Shows the state of a pull request and what it waits for.

        Answer 200, whether it is queued or not; 304: as before; 404: the caller may not read the repository.
        """
        repository, asked = await self._access.readable(request), query(request, OutcomeQuery)
        number, joined = routes.number_of(request), False

        async def has_left() -> bool:
            nonlocal joined
            # While GitHub does not answer, the call waits on: rights are judged again before its answer.
            with suppress(GitHubError):
                await self._access.readable(request)
            entry = await self._engine.store.read(lambda tx: tx.entries.find(repository.id, number))
            ready = entry is not None and entry.is_ready
            left, joined = entry is None or (joined and not ready), joined or ready
            return left

        outcome = Outcome(number, has_left) if asked.until == "outcome" else None
        return await self._waits.answer(
            request, of_repository(repository.id), partial(self._why, request), asked, outcome
        )

    async def _why(self, request: web.Request) -> Mapping[str, Any]:
        repository = await self._access.readable(request)
        number = routes.number_of(request)
        queue = await self._engine.store.read(lambda tx: tx.queues.of_pull_request(repository.id, number))
        branches = () if queue is None else (queue.base_branch,)
        policies = {branch: await self._engine.policies.of(repository, branch) for branch in branches}
        found = await self._pulls.load(repository, number, policies)
        policy = None if found.base_branch is None else policies.get(found.base_branch)
        return with_version(WhyAnswer.of(repository, found, policy).model_dump(mode="json"))

    @route("POST", _QUEUE, caller=Caller.PERSON, body=QueueCall, answers=_QUEUED, refusals=(422, 429))
    async def queue_pull_request(self, request: web.Request) -> web.Response:
        """Queues a pull request.

        Answer 202: queued; 200: was queued before; 429: the queue is full; 403, 404, 409, 422: rejected.
        """
        call = payload(request, QueueCall)
        allowed = self._access.writable if call.priority is None else self._access.controllable
        repository, login = await allowed(request)
        number, finish = routes.number_of(request), _finish(request)
        with trace.span("api enqueue"):
            status, body = await self._pulls.enqueue(
                repository, number, call, by=login, delivery=delivery_id(request), finish=finish
            )
        return web.json_response(body, status=status)

    @route("PATCH", _QUEUE, caller=Caller.MAINTAINER, body=PriorityCall, answers={200: QueuedAnswer})
    async def prioritise_pull_request(self, request: web.Request) -> web.Response:
        """Changes the priority of a pull request. Answer 200: the priority is set; 403; 404: it is not queued."""
        call = payload(request, PriorityCall)
        repository, login = await self._access.controllable(request)
        number, finish = routes.number_of(request), _finish(request)
        with trace.span("api prioritise"):
            async with self._pulls.refusals(repository, number):
                body = await self._pulls.prioritise(repository, number, call.priority, by=login, finish=finish)
        return web.json_response(body)

    @route("POST", f"{routes.PULL}/requeue", caller=Caller.PERSON, body=HeadCall, answers=_QUEUED, refusals=(422, 429))
    async def requeue_pull_request(self, request: web.Request) -> web.Response:
        """Dequeues a pull request and queues its present head again, at the end.

        Answer 202: it is last in the queue, or held; 409: its merge has started; otherwise as `queue_pull_request`.
        """
        call, number = payload(request, HeadCall), routes.number_of(request)
        repository, login = await self._access.writable(request)
        with trace.span("api requeue"):
            async with self._pulls.refusals(repository, number):
                queued = await self._pulls.requeue(
                    repository, number, by=login, head_sha=call.head_sha, delivery=delivery_id(request)
                )
        return web.json_response(await self._pulls.answer(queued), status=202 if queued.new else 200)

    @route("DELETE", _QUEUE, caller=Caller.PERSON, body=EmptyBody, answers={200: DequeuedAnswer, 202: DequeuedAnswer})
    async def dequeue_pull_request(self, request: web.Request) -> web.Response:
        """Dequeues a pull request.

        Answer 200: dequeued; 202: its merge has started, so GitHub decides; 403; 404: it is not queued.
        """
        number = routes.number_of(request)
        repository, login = await self._access.writable(request)
        with trace.span("api dequeue"):
            async with self._pulls.refusals(repository, number):
                body = await self._pulls.dequeue(repository, number, by=login, finish=_finish(request))
        return web.json_response(body, status=200 if body["left"] else 202)

    @_opens(f"{routes.PULL}/revert")
    async def revert_pull_request(self, request: web.Request) -> web.Response:
        """Opens the revert of a landed pull request, and queues it as a hotfix.

        Answer 200: the revert is open, and queued unless `reason` says why not; 403; 409: it has not landed; 422.
        """
        return await self._revert(request, reland=False)

    @_opens(f"{routes.PULL}/reland")
    async def reland_pull_request(self, request: web.Request) -> web.Response:
        """Opens the change of a reverted pull request again, and queues nothing.

        Answer 200: it is open; 403: neither the author nor who may queue; 409: no revert has landed; 422.
        """
        return await self._revert(request, reland=True)

    async def _revert(self, request: web.Request, *, reland: bool) -> web.Response:
        number = routes.number_of(request)
        repository, login = await self._access.writable(request)
        with trace.span("api revert"):
            async with self._pulls.refusals(repository, number):
                done = await self._pulls.revert(repository, number, by=login, reland=reland)
        return web.json_response(done.model_dump(mode="json"))

    @read(f"{routes.PULL}/effect", query=EffectQuery, answers={200: EffectAnswer})
    async def preview_pull_request_control(self, request: web.Request) -> web.Response:
        """Shows what a dequeue, a requeue or a priority of a pull request would do now.

        Answer 200, and do nothing; 400: no such priority; 404: hidden repository, or it is not queued.
        """
        engine, repository = self._engine, await self._access.readable(request)
        asked, number = query(request, EffectQuery), routes.number_of(request)
        entry = await engine.store.read(lambda tx: tx.entries.find(repository.id, number))
        if entry is None:
            raise ApiError(404, f"pull request {number} is not queued")
        policy = await engine.policies.of(repository, entry.base_branch)
        async with engine.store.reading() as tx:
            found = await load_control_effect(tx, asked.do, entry, asked.priority, policy, engine.clock.now())
        return web.json_response(EffectAnswer.of(found).model_dump(mode="json"))

    @read(f"{routes.REPOSITORY}/pulls", answers={200: PullsAnswer}, query=HeadQuery)
    async def find_pull_requests(self, request: web.Request) -> web.Response:
        """Finds the pull requests of a head branch.

        Answer 200, with none if the branch has none; 404: the caller may not read the repository.
        """
        repository = await self._access.readable(request)
        asked = query(request, HeadQuery)
        if self._heads is None:
            raise ApiError(503, "IMQ cannot ask GitHub here")
        owner, _, branch = asked.head.rpartition(":")
        owner = owner or repository.owner
        self._access.spend(request)
        with working(RequestPriority.BACKGROUND):
            found = await self._heads.pull_requests(repository, owner, branch, asked.state)
        answer = PullsAnswer(
            repository=repository.full_name, head=f"{owner}:{branch}", pulls=tuple(map(_answer, found))
        )
        return web.json_response(answer.model_dump(mode="json"))


def _finish(request: web.Request) -> Finish:
    """Return what stores the answer of this call in the transaction of its work."""

    async def finish(tx: Transaction, body: Any, status: int) -> None:
        await finish_call(request, tx, body, status=status)

    return finish


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
