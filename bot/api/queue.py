"""`/api/v1/repositories/{owner}/{repo}/pulls/{number}/…`: queue, move and dequeue a pull request for a person."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from bot.api import request_scope
from bot.api.access import Access
from bot.api.calls import HeadCall, PriorityCall, QueueCall
from bot.api.errors import ApiError
from bot.api.idempotent import delivery_id, finish_call
from bot.api.payload import EmptyBody, payload
from bot.api.routes import Caller, Route
from bot.api.views import Delays, DequeuedAnswer, QueuedAnswer, WhyAnswer
from notifications import texts
from queue_engine.admission import enqueue
from queue_engine.admission.case import load_case
from queue_engine.admission.dequeue import NotQueued, authorize_dequeue, dequeue_by_user
from queue_engine.admission.rejection import RejectionError
from queue_engine.commands.table import PRIORITIES
from queue_engine.core.observability import trace
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.queries.pull_request_status import load_pull_request

_QUEUE = f"{request_scope.PULL}/queue"
_QUEUED = {200: QueuedAnswer, 202: QueuedAnswer}
_MAX_ATTEMPTS = 5
"""How often a call is tried while other processes change its entry."""

_STATUS: Mapping[Reason, int] = {
    Reason.LABEL_WITHOUT_RIGHT: 403,
    Reason.NOT_ALLOWED_TO_QUEUE: 403,
    Reason.CLOSED: 409,
    Reason.MERGED_ELSEWHERE: 409,
    Reason.HEAD_CHANGED: 409,
}
"""HTTP status by reason; all others are 422."""

_SENTENCES: Mapping[Reason, str] = {
    Reason.LABEL_WITHOUT_RIGHT: "Queueing needs write access, which the person of this token does not have.",
    Reason.HEAD_CHANGED: "The pull request has another head now.",
}
"""Sentences for callers, where those of comments do not fit."""


class QueueRoutes:
    """Routes that show, queue, prioritise and dequeue a pull request."""

    def __init__(self, engine: Engine, access: Access) -> None:
        self._engine = engine
        self._access = access

    def routes(self) -> Sequence[Route]:
        """List the routes."""
        return [*self._queue_routes(), *self._dequeue_routes()]

    def _queue_routes(self) -> Sequence[Route]:
        route = partial(Route, variables=request_scope.VARIABLES)
        return [
            route(
                "GET",
                _QUEUE,
                self.why,
                "show_pull_request",
                "Shows the state of a pull request and what it waits for.",
                caller=Caller.READER,
                answers={200: WhyAnswer},
            ),
            route(
                "POST",
                _QUEUE,
                self.enqueue,
                "queue_pull_request",
                "Queues a pull request.",
                caller=Caller.PERSON,
                body=QueueCall,
                answers=_QUEUED,
                refusals=(422, 429),
            ),
            route(
                "PATCH",
                _QUEUE,
                self.prioritise,
                "prioritise_pull_request",
                "Changes the priority of a pull request.",
                caller=Caller.MAINTAINER,
                body=PriorityCall,
                answers={200: QueuedAnswer},
            ),
        ]

    def _dequeue_routes(self) -> Sequence[Route]:
        route = partial(Route, variables=request_scope.VARIABLES, caller=Caller.PERSON)
        return [
            route(
                "DELETE",
                _QUEUE,
                self.dequeue,
                "dequeue_pull_request",
                "Dequeues a pull request.",
                body=EmptyBody,
                answers={200: DequeuedAnswer, 202: DequeuedAnswer},
            ),
            route(
                "POST",
                f"{request_scope.PULL}/requeue",
                self.requeue,
                "requeue_pull_request",
                "Dequeues a pull request and queues its present head again, at the end.",
                body=HeadCall,
                answers=_QUEUED,
                refusals=(422, 429),
            ),
        ]

    async def why(self, request: web.Request) -> web.Response:
        """Answer 200, whether it is queued or not; 404: the caller may not read the repository."""
        repository = await self._access.readable(request)
        number = request_scope.number_of(request)
        async with self._engine.store.reading() as tx:
            queue = await tx.queues.of_pull_request(repository.id, number)
        branches = () if queue is None else (queue.base_branch,)
        policies = {branch: await self._engine.policies.of(repository, branch) for branch in branches}
        async with self._engine.store.reading() as tx:
            found = await load_pull_request(tx, repository.id, number, policies, self._engine.clock.now())
        return web.json_response(WhyAnswer.of(repository.full_name, found).model_dump(mode="json"))

    async def enqueue(self, request: web.Request) -> web.Response:
        """Answer 202: queued; 200: was queued before; 429: the queue is full; 403, 404, 409, 422: rejected."""
        call = payload(request, QueueCall)
        if call.priority is None:
            repository, login = await self._access.writable(request)
        else:
            repository, login = await self._access.controllable(request)
        number = request_scope.number_of(request)
        with trace.span("api enqueue"):
            try:
                case = await load_case(self._engine, repository, number, delivery=delivery_id(request))
                queued = await enqueue.enqueue(self._engine, case, by=login, head_sha=call.head_sha)
            except RejectionError as refused:
                raise _rejection(refused) from None
        status = 202 if queued.new else 200
        if call.priority is not None:
            return await self._set_priority(request, repository, queued.policy, call.priority, login, status)
        return _queued(queued, status)

    async def prioritise(self, request: web.Request) -> web.Response:
        """Answer 200: the priority is set; 403; 404: it is not queued."""
        call = payload(request, PriorityCall)
        repository, login = await self._access.controllable(request)
        with trace.span("api prioritise"):
            case = await load_case(self._engine, repository, request_scope.number_of(request))
            if case.entry is None:
                raise _not_queued()
            policy = (await case.with_policy(self._engine, case.entry.base_branch)).policy
            return await self._set_priority(request, repository, policy, call.priority, login, 200)

    async def requeue(self, request: web.Request) -> web.Response:
        """Answer 202: it is last in the queue, or held; 409: its merge has started; otherwise as `enqueue`."""
        call, number = payload(request, HeadCall), request_scope.number_of(request)
        repository, login = await self._access.writable(request)
        with trace.span("api requeue"):

            async def attempt() -> enqueue.Queued:
                case = await load_case(self._engine, repository, number, delivery=delivery_id(request))
                return await enqueue.requeue(self._engine, case, by=login, head_sha=call.head_sha)

            try:
                queued = await _retry_on_conflict(attempt)
            except RejectionError as refused:
                raise _rejection(refused) from None
            except enqueue.MergePending:
                raise ApiError(409, "the merge of this pull request has started") from None
        return _queued(queued, 202 if queued.new else 200)

    async def dequeue(self, request: web.Request) -> web.Response:
        """Answer 200: dequeued; 202: its merge has started, so GitHub decides; 403; 404: it is not queued."""
        payload(request, EmptyBody)
        number = request_scope.number_of(request)
        repository, login = await self._access.writable(request)
        with trace.span("api dequeue"):

            async def attempt() -> web.Response:
                case = await load_case(self._engine, repository, number)
                permitted = await authorize_dequeue(self._engine, case, by=login)
                async with self._engine.change() as change:
                    left = await dequeue_by_user(change, permitted)
                    answer = DequeuedAnswer(repository=repository.full_name, number=number, left=left)
                    status = 200 if left else 202
                    return await finish_call(request, change.tx, answer.model_dump(mode="json"), status=status)

            try:
                return await _retry_on_conflict(attempt)
            except RejectionError as refused:
                raise _rejection(refused) from None
            except NotQueued:
                raise _not_queued() from None

    async def _set_priority(
        self,
        request: web.Request,
        repository: Repository,
        policy: Policy,
        priority: int | str,
        login: str,
        status: int,
    ) -> web.Response:
        """Set the priority, and answer which pull requests that delays. Raises ApiError 404."""
        number = request_scope.number_of(request)
        points = PRIORITIES[priority] if isinstance(priority, str) else priority

        async def attempt() -> web.Response:
            async with self._engine.change() as change:
                entry = await change.tx.entries.find(repository.id, number)
                if entry is None:
                    raise _not_queued()
                result = await enqueue.prioritise(change, entry, points, policy, by=login)
                answer = QueuedAnswer.of(result.entry, policy, Delays.of(result.delay))
                return await finish_call(request, change.tx, answer.model_dump(mode="json"), status=status)

        return await _retry_on_conflict(attempt)


T = TypeVar("T")


async def _retry_on_conflict(attempt: Callable[[], Awaitable[T]]) -> T:
    """Try again when another process changed the entry in the meantime."""
    for _ in range(_MAX_ATTEMPTS - 1):
        with suppress(StaleRecord):
            return await attempt()
    return await attempt()


def _queued(queued: enqueue.Queued, status: int) -> web.Response:
    return web.json_response(QueuedAnswer.of(queued.entry, queued.policy).model_dump(mode="json"), status=status)


def _not_queued() -> ApiError:
    return ApiError(404, "this pull request is not queued")


def _rejection(refused: RejectionError) -> ApiError:
    reason = refused.reason
    template = _SENTENCES.get(reason, texts.REASONS[reason].sentence)
    sentence = template.format(base="its base branch", label=refused.label)
    more: Mapping[str, Any] = {} if refused.detail is None else {"detail": refused.detail}
    return ApiError(_STATUS.get(reason, 422), sentence, reason=reason.value, **more)
