"""`/api/v1/repositories/{owner}/{repo}/pulls/{number}/…`: queue, move and dequeue a pull request for a person."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from aiohttp import web

from bot.api import request_scope
from bot.api.access import Access
from bot.api.answers import state_fields
from bot.api.calls import HeadCall, PriorityCall, QueueCall
from bot.api.idempotent import delivery_id, finish_call
from bot.api.payload import EmptyBody, payload, query
from bot.api.pull_requests import Finish, PullRequests, retry_on_conflict
from bot.api.routes import Caller, Route
from bot.api.views import DequeuedAnswer, QueuedAnswer, WhyAnswer
from bot.api.waits import ChangeWaits, WaitQuery, of_repository, with_version
from queue_engine.admission import enqueue
from queue_engine.admission.case import load_case
from queue_engine.admission.enqueue import NotQueued, Queued, authorize_dequeue, dequeue_by_user
from queue_engine.core.observability import trace
from queue_engine.effects.context import Engine
from queue_engine.queries.pull_request_status import load_pull_request
from queue_engine.store import Transaction

_QUEUE = f"{request_scope.PULL}/queue"
_QUEUED = {200: QueuedAnswer, 202: QueuedAnswer}


class QueueRoutes:
    """Routes that show, queue, prioritise and dequeue a pull request."""

    def __init__(self, engine: Engine, access: Access, waits: ChangeWaits) -> None:
        self._engine = engine
        self._access = access
        self._waits = waits
        self._pulls = PullRequests(engine)

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
                answers={200: WhyAnswer, 304: None},
                query=WaitQuery,
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
        """Answer 200, whether it is queued or not; 304: as before; 404: the caller may not read the repository."""
        repository, asked = await self._access.readable(request), query(request, WaitQuery)
        load = partial(self._why, request)
        return await self._waits.answer(request, of_repository(repository.id), load, asked)

    async def _why(self, request: web.Request) -> Mapping[str, Any]:
        repository = await self._access.readable(request)
        number = request_scope.number_of(request)
        async with self._engine.store.reading() as tx:
            queue = await tx.queues.of_pull_request(repository.id, number)
        branches = () if queue is None else (queue.base_branch,)
        policies = {branch: await self._engine.policies.of(repository, branch) for branch in branches}
        found = await self._pulls.load(repository, number, policies)
        policy = None if found.base_branch is None else policies.get(found.base_branch)
        return with_version(WhyAnswer.of(repository, found, policy).model_dump(mode="json"))

    async def enqueue(self, request: web.Request) -> web.Response:
        """Answer 202: queued; 200: was queued before; 429: the queue is full; 403, 404, 409, 422: rejected."""
        call = payload(request, QueueCall)
        allowed = self._access.writable if call.priority is None else self._access.controllable
        repository, login = await allowed(request)
        number, finish = request_scope.number_of(request), _finish(request)
        with trace.span("api enqueue"):
            status, body = await self._pulls.enqueue(
                repository, number, call, by=login, delivery=delivery_id(request), finish=finish
            )
        return web.json_response(body, status=status)

    async def prioritise(self, request: web.Request) -> web.Response:
        """Answer 200: the priority is set; 403; 404: it is not queued."""
        call = payload(request, PriorityCall)
        repository, login = await self._access.controllable(request)
        number, finish = request_scope.number_of(request), _finish(request)
        with trace.span("api prioritise"):
            async with self._pulls.refusals(repository, number):
                case = await load_case(self._engine, repository, number)
                if case.entry is None:
                    raise NotQueued
                policy = (await case.with_policy(self._engine, case.entry.base_branch)).policy
                body = await self._pulls.prioritise(repository, number, policy, call.priority, by=login, finish=finish)
        return web.json_response(body)

    async def requeue(self, request: web.Request) -> web.Response:
        """Answer 202: it is last in the queue, or held; 409: its merge has started; otherwise as `enqueue`."""
        call, number = payload(request, HeadCall), request_scope.number_of(request)
        repository, login = await self._access.writable(request)
        with trace.span("api requeue"):

            async def attempt() -> Queued:
                case = await load_case(self._engine, repository, number, delivery=delivery_id(request))
                return await enqueue.requeue(self._engine, case, by=login, head_sha=call.head_sha)

            async with self._pulls.refusals(repository, number):
                queued = await retry_on_conflict(attempt)
        return web.json_response(await self._pulls.answer(queued), status=202 if queued.new else 200)

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
                    found = await load_pull_request(change.tx, repository.id, number, {}, change.now)
                    fields = state_fields(found, repository, permitted.case.policy)
                    answer = DequeuedAnswer(**fields, repository=repository, number=number, left=left)
                    status = 200 if left else 202
                    return await finish_call(request, change.tx, answer.model_dump(mode="json"), status=status)

            async with self._pulls.refusals(repository, number):
                return await retry_on_conflict(attempt)


def _finish(request: web.Request) -> Finish:
    """Return what stores the answer of this call in the transaction of its work."""

    async def finish(tx: Transaction, body: Any, status: int) -> None:
        await finish_call(request, tx, body, status=status)

    return finish
