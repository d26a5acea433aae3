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
from bot.api.idempotent import delivery_of, settle
from bot.api.payload import Nothing, payload
from bot.api.routes import Caller, Route
from bot.api.views import Delays, DequeuedAnswer, QueuedAnswer, WhyAnswer
from notifications import texts
from queue_engine.admission import enqueue
from queue_engine.admission.dequeue import NotQueued, authorize_dequeue, dequeue_by_user
from queue_engine.admission.rejection import RejectionError
from queue_engine.commands.table import PRIORITIES
from queue_engine.core.observability import trace
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.model import Repository
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.queries.pull_request_status import load_pull_request

_QUEUE = f"{request_scope.PULL}/queue"
_QUEUED = {200: QueuedAnswer, 202: QueuedAnswer}
_TRIES = 5
"""How often a call starts again because the entry changed meanwhile."""

_STATUS: Mapping[Reason, int] = {
    Reason.LABEL_WITHOUT_RIGHT: 403,
    Reason.NOT_ALLOWED_TO_QUEUE: 403,
    Reason.CLOSED: 409,
    Reason.MERGED_ELSEWHERE: 409,
    Reason.HEAD_CHANGED: 409,
}
"""Of refusals; 422 for the others, which are the change's own."""

_SENTENCES: Mapping[Reason, str] = {
    Reason.LABEL_WITHOUT_RIGHT: "Queueing needs write access, which the person of this token does not have.",
    Reason.HEAD_CHANGED: "The pull request has another head now.",
}
"""Where what is said in comments does not fit a call."""


class QueueRoutes:
    """The routes, on one engine."""

    def __init__(self, engine: Engine, access: Access) -> None:
        self._engine = engine
        self._access = access

    def routes(self) -> Sequence[Route]:
        """What they are."""
        return [*self._standing(), *self._leaving()]

    def _standing(self) -> Sequence[Route]:
        of = partial(Route, variables=request_scope.VARIABLES)
        return [
            of(
                "GET",
                _QUEUE,
                self.why,
                "show_pull_request",
                "Shows the state of a pull request and what it waits for.",
                caller=Caller.READER,
                answers={200: WhyAnswer},
            ),
            of(
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
            of(
                "PATCH",
                _QUEUE,
                self.prioritise,
                "prioritise_pull_request",
                "Changes the priority of a pull request.",
                caller=Caller.STEERER,
                body=PriorityCall,
                answers={200: QueuedAnswer},
            ),
        ]

    def _leaving(self) -> Sequence[Route]:
        person = partial(Route, variables=request_scope.VARIABLES, caller=Caller.PERSON)
        return [
            person(
                "DELETE",
                _QUEUE,
                self.dequeue,
                "dequeue_pull_request",
                "Dequeues a pull request.",
                body=Nothing,
                answers={200: DequeuedAnswer, 202: DequeuedAnswer},
            ),
            person(
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
        """200, whether it is queued or not; 404: the repository is not to be seen."""
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
        """202: it is queued; 200: it was; 429: the queue is full; 403, 404, 409, 422: refused, with the reason."""
        said = payload(request, QueueCall)
        if said.priority is None:
            repository, login = await self._access.writable(request)
        else:
            repository, login = await self._access.steerable(request)
        number = request_scope.number_of(request)
        with trace.span("api enqueue"):
            try:
                queued = await enqueue.enqueue(
                    self._engine, repository, number, by=login, head_sha=said.head_sha, delivery=delivery_of(request)
                )
            except RejectionError as refused:
                raise _refusal(refused) from None
        status = 202 if queued.new else 200
        if said.priority is not None:
            return await self._move(request, repository, said.priority, login, status)
        return web.json_response(QueuedAnswer.of(queued.entry).model_dump(mode="json"), status=status)

    async def prioritise(self, request: web.Request) -> web.Response:
        """200: it stands where that priority puts it; 403; 404: it is not queued."""
        said = payload(request, PriorityCall)
        repository, login = await self._access.steerable(request)
        with trace.span("api prioritise"):
            return await self._move(request, repository, said.priority, login, 200)

    async def requeue(self, request: web.Request) -> web.Response:
        """202: it stands at the end, or waits for a place; otherwise as for queueing. 409: its merge is under way."""
        said, number = payload(request, HeadCall), request_scope.number_of(request)
        repository, login = await self._access.writable(request)
        with trace.span("api requeue"):
            head, delivery = said.head_sha, delivery_of(request)
            once = partial(
                enqueue.requeue, self._engine, repository, number, by=login, head_sha=head, delivery=delivery
            )
            try:
                queued = await _settled(once)
            except RejectionError as refused:
                raise _refusal(refused) from None
            except enqueue.MergePending:
                raise ApiError(409, "the merge of this pull request has started") from None
        if queued is not None:
            answer = QueuedAnswer.of(queued.entry)
            return web.json_response(answer.model_dump(mode="json"), status=202 if queued.new else 200)
        return await self._waiting(repository, number)

    async def dequeue(self, request: web.Request) -> web.Response:
        """200: it left; 202: its merge is under way, so GitHub decides; 403; 404: it is not queued."""
        payload(request, Nothing)
        number = request_scope.number_of(request)
        repository, login = await self._access.writable(request)
        with trace.span("api dequeue"):

            async def once() -> web.Response:
                leave = await authorize_dequeue(self._engine, repository, number, by=login)
                async with self._engine.change() as change:
                    left = await dequeue_by_user(change, repository, number, leave)
                    answer = DequeuedAnswer(repository=repository.full_name, number=number, left=left)
                    status = 200 if left else 202
                    return await settle(request, change.tx, answer.model_dump(mode="json"), status=status)

            try:
                return await _settled(once)
            except RejectionError as refused:
                raise _refusal(refused) from None
            except NotQueued:
                raise _not_queued() from None

    async def _move(
        self, request: web.Request, repository: Repository, priority: int | str, login: str, status: int
    ) -> web.Response:
        """Give it this priority, and say whom that delays. Raises ApiError 404."""
        number = request_scope.number_of(request)
        async with self._engine.store.reading() as tx:
            standing = await tx.entries.find(repository.id, number)
        if standing is None:
            raise _not_queued()
        policy = await self._engine.policies.of(repository, standing.base_branch)
        points = PRIORITIES[priority] if isinstance(priority, str) else priority

        async def once() -> web.Response:
            async with self._engine.change() as change:
                entry = await change.tx.entries.find(repository.id, number)
                if entry is None:
                    raise _not_queued()
                done = await enqueue.prioritise(change, entry, points, policy, by=login)
                answer = QueuedAnswer.of(done.entry, Delays.of(done.delay))
                return await settle(request, change.tx, answer.model_dump(mode="json"), status=status)

        return await _settled(once)

    async def _waiting(self, repository: Repository, number: int) -> web.Response:
        """202 for one that waits for a place, or got one in this moment."""
        async with self._engine.store.reading() as tx:
            waiting = await tx.held.find(repository.id, number)
            entry = await tx.entries.find(repository.id, number)
            queue = None if waiting is None else await tx.queues.get(waiting.queue_id)
        if entry is not None:
            return web.json_response(QueuedAnswer.of(entry).model_dump(mode="json"), status=202)
        if waiting is None or queue is None:
            raise _not_queued()
        answer = QueuedAnswer(
            repository=repository.full_name,
            queue=queue.base_branch,
            number=number,
            position=None,
            status="held",
            head_sha=waiting.head_sha,
            queued_by=waiting.queued_by,
            priority=waiting.priority or 0,
        )
        return web.json_response(answer.model_dump(mode="json"), status=202)


T = TypeVar("T")


async def _settled(once: Callable[[], Awaitable[T]]) -> T:
    """What this comes to, when the entry that it was read from does not change in that moment, as entries do."""
    for _ in range(_TRIES - 1):
        with suppress(StaleRecord):
            return await once()
    return await once()


def _not_queued() -> ApiError:
    return ApiError(404, "this pull request is not queued")


def _refusal(refused: RejectionError) -> ApiError:
    reason = refused.reason
    words = _SENTENCES.get(reason, texts.REASONS[reason].sentence)
    sentence = words.format(base="its base branch", label=refused.label)
    more: Mapping[str, Any] = {} if refused.detail is None else {"detail": refused.detail}
    return ApiError(_STATUS.get(reason, 422), sentence, reason=reason.value, **more)
