"""`/api/v1/repositories/{owner}/{repo}/pulls/{number}/…`: a pull request is queued, moved, taken out, for a person."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from bot.api import place
from bot.api.access import Access
from bot.api.calls import HeadCall, PriorityCall, QueueCall
from bot.api.errors import ApiError
from bot.api.idempotent import delivery_of, settle
from bot.api.payload import Nothing, payload
from bot.api.routes import Caller, Route
from bot.api.standing import Delays, DequeuedAnswer, QueuedAnswer, View, WhyAnswer, why
from notifications import texts
from queue_engine import desk
from queue_engine.commands.catalogue import PRIORITIES
from queue_engine.core import trace
from queue_engine.engine import Engine
from queue_engine.errors import StaleVersion
from queue_engine.model import Repository
from queue_engine.reasons import Reason

_QUEUE = f"{place.PULL}/queue"
_TRIES = 5
"""How often a call begins anew because the entry changed while it was at it."""

_STATUS: Mapping[Reason, int] = {
    Reason.LABEL_WITHOUT_RIGHT: 403,
    Reason.NOT_ALLOWED_TO_QUEUE: 403,
    Reason.CLOSED: 409,
    Reason.MERGED_ELSEWHERE: 409,
    Reason.HEAD_CHANGED: 409,
}
"""Of refusals; 422 for the others, which are the change's own."""

_SENTENCES: Mapping[Reason, str] = {
    Reason.LABEL_WITHOUT_RIGHT: "This needs the right to merge, and the person of this token does not have it here.",
    Reason.HEAD_CHANGED: "The head of the pull request is another one now.",
}
"""Where what is said in comments does not fit a call."""


class QueueRoutes:
    """The routes, on one engine."""

    def __init__(self, engine: Engine, access: Access) -> None:
        self._engine = engine
        self._access = access

    def routes(self) -> Sequence[Route]:
        """What they are."""
        of = partial(Route, variables=place.VARIABLES)
        person = partial(of, caller=Caller.PERSON)
        queued = {200: QueuedAnswer, 202: QueuedAnswer}
        return [
            of(
                "GET",
                _QUEUE,
                self.why,
                "show_pull_request",
                "Says where a pull request stands and what it waits for.",
                caller=Caller.READER,
                answers={200: WhyAnswer},
            ),
            person(
                "POST",
                _QUEUE,
                self.enqueue,
                "queue_pull_request",
                "Queues a pull request.",
                body=QueueCall,
                answers=queued,
                refusals=(422, 429),
            ),
            of(
                "PATCH",
                _QUEUE,
                self.prioritise,
                "prioritise_pull_request",
                "Moves a pull request within its queue.",
                caller=Caller.STEERER,
                body=PriorityCall,
                answers={200: QueuedAnswer},
            ),
            person(
                "DELETE",
                _QUEUE,
                self.dequeue,
                "dequeue_pull_request",
                "Takes a pull request out of its queue.",
                body=Nothing,
                answers={200: DequeuedAnswer, 202: DequeuedAnswer},
            ),
            person(
                "POST",
                f"{place.PULL}/requeue",
                self.requeue,
                "requeue_pull_request",
                "Takes a pull request out and queues its present head again, at the end.",
                body=HeadCall,
                answers=queued,
                refusals=(422, 429),
            ),
        ]

    async def why(self, request: web.Request) -> web.Response:
        """200, whether it is queued or not; 404: the repository is not to be seen."""
        repository = await self._access.readable(request)
        number = place.number_of(request)
        async with self._engine.store.reading() as tx:
            found = await tx.held.find(repository.id, number) or await tx.entries.find(repository.id, number)
            queue = None if found is None else await tx.queues.get(found.queue_id)
        policy = None if queue is None else await self._engine.policies.of(repository, queue.base_branch)
        async with self._engine.store.reading() as tx:
            view = None
            if queue is not None and policy is not None:
                view = await View.of(tx, queue, policy, self._engine.clock.now())
            answer = await why(tx, view, repository.full_name, repository.id, number)
        return web.json_response(answer.model_dump(mode="json"))

    async def enqueue(self, request: web.Request) -> web.Response:
        """202: it is queued; 200: it was; 429: the queue is full; 403, 404, 409, 422: refused, with the reason."""
        said = payload(request, QueueCall)
        if said.priority is None:
            repository, login = await self._access.writable(request)
        else:
            repository, login = await self._access.steerable(request)
        number = place.number_of(request)
        with trace.span("api enqueue"):
            try:
                queued = await desk.enqueue(
                    self._engine, repository, number, by=login, head_sha=said.head_sha, delivery=delivery_of(request)
                )
            except desk.Refused as refused:
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
        said, number = payload(request, HeadCall), place.number_of(request)
        repository, login = await self._access.writable(request)
        with trace.span("api requeue"):
            head, delivery = said.head_sha, delivery_of(request)
            once = partial(desk.requeue, self._engine, repository, number, by=login, head_sha=head, delivery=delivery)
            try:
                queued = await _settled(once)
            except desk.Refused as refused:
                raise _refusal(refused) from None
            except desk.MergeUnderWay:
                raise ApiError(409, "the merge of this pull request is under way") from None
        if queued is not None:
            answer = QueuedAnswer.of(queued.entry)
            return web.json_response(answer.model_dump(mode="json"), status=202 if queued.new else 200)
        return await self._waiting(repository, number)

    async def dequeue(self, request: web.Request) -> web.Response:
        """200: it left; 202: its merge is under way, so GitHub decides; 403; 404: it is not queued."""
        payload(request, Nothing)
        number = place.number_of(request)
        repository, login = await self._access.writable(request)
        with trace.span("api dequeue"):

            async def once() -> web.Response:
                leave = await desk.let_go(self._engine, repository, number, by=login)
                async with self._engine.change() as change:
                    left = await desk.take_out(change, repository, number, leave)
                    answer = DequeuedAnswer(repository=repository.full_name, number=number, left=left)
                    status = 200 if left else 202
                    return await settle(request, change.tx, answer.model_dump(mode="json"), status=status)

            try:
                return await _settled(once)
            except desk.Refused as refused:
                raise _refusal(refused) from None
            except desk.NotQueued:
                raise _not_queued() from None

    async def _move(
        self, request: web.Request, repository: Repository, priority: int | str, login: str, status: int
    ) -> web.Response:
        """Give it this priority, and say whom that delays. Raises ApiError 404."""
        number = place.number_of(request)
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
                done = await desk.prioritise(change, entry, points, policy, by=login)
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
        with suppress(StaleVersion):
            return await once()
    return await once()


def _not_queued() -> ApiError:
    return ApiError(404, "this pull request is not queued")


def _refusal(refused: desk.Refused) -> ApiError:
    reason = refused.reason
    words = _SENTENCES.get(reason, texts.REASONS[reason].sentence)
    sentence = words.format(base="its base branch", label=refused.label)
    more: Mapping[str, Any] = {} if refused.detail is None else {"detail": refused.detail}
    return ApiError(_STATUS.get(reason, 422), sentence, reason=reason.value, **more)
