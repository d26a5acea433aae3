"""Queue and prioritise pull requests for callers of the API, and describe them; shared by single and bulk calls."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from bot.api.api_errors import RETRY_AFTER_OUTAGE, ApiError
from bot.api.views import DequeuedAnswer, QueueCall, QueuedAnswer, RevertAnswer, as_json, state_fields
from notifications.texts import reason_texts
from queue_engine.admission import enqueue
from queue_engine.admission.case import InOrder, load_case
from queue_engine.admission.enqueue import MergePending, NotQueued, Queued, authorize_dequeue, dequeue_by_user
from queue_engine.admission.rejection import RejectionError
from queue_engine.admission.request_order import RequestOrder
from queue_engine.admission.reverts import request_revert
from queue_engine.commands.commands import PRIORITIES
from queue_engine.config.model import Policy
from queue_engine.core.concurrency.slots import SlotsBusy
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.model import Repository
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import EngineHandler
from queue_engine.queries.pull_request_status import NOT_QUEUED, PullRequestStatus, load_pull_request
from queue_engine.store import Transaction

Finish = Callable[[Transaction, Any, int], Awaitable[None]]
"""Stores the answer of a call, and its status, in the transaction of its work."""

_FULL = "The queue for its base branch is full, so IMQ did not queue the pull request."
_ONCE_MORE = "Wait for room: queue it again, after the seconds of Retry-After."

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
    Reason.MERGED_ELSEWHERE: "The pull request is merged.",
}
"""Sentences for callers, where those of comments do not fit."""

_REVERTS = "#{opened} reverts it, and is queued as a hotfix."
_OPENED = "#{opened} reverts it. IMQ did not queue it."
_RELANDS = "#{opened} has the same change. Queue it once it is ready."
_NOT_LANDED = "The pull request has not landed, so there is nothing to revert."
_NOT_REVERTED = "No revert of this pull request that IMQ opened has landed."

T = TypeVar("T")


class PullRequests(EngineHandler):
    """Queues and prioritises pull requests for a person or service that may do so, and answers with their state."""

    async def load(
        self, repository: Repository, number: int, policies: Mapping[str, Policy] | None = None
    ) -> PullRequestStatus:
        """Load the state of a pull request, without a request to GitHub."""
        async with self._engine.store.reading() as tx:
            return await load_pull_request(tx, repository.id, number, policies or {}, self._engine.clock.now())

    async def answer(self, queued: Queued) -> dict[str, Any]:
        """Return the answer about a pull request that was just queued."""
        entry = queued.entry
        found = await self.load(entry.repository, entry.number, {entry.base_branch: queued.policy})
        return QueuedAnswer.of(entry, queued.policy, found).model_dump(mode="json")

    async def enqueue(
        self,
        repository: Repository,
        number: int,
        call: QueueCall,
        *,
        by: str,
        delivery: str | None,
        finish: Finish,
        in_order: InOrder | None = None,
    ) -> tuple[int, Any]:
        """Queue a pull request, and set its priority if the call has one; returns the status and the answer.

        `finish` is called only where the answer is stored with a priority. `in_order` is that of a stored call, which
        is put off; any other call waits here. Raises ApiError, RequestOrderError and GitHubError.
        """

        async def attempt(in_order: InOrder) -> Queued:
            case = await load_case(self._engine, repository, number, delivery=delivery)
            case = replace(case, in_order=in_order)
            return await enqueue.enqueue(self._engine, case, by=by, head_sha=call.head_sha)

        async with self.refusals(repository, number):
            if in_order is None:
                queued = await RequestOrder(self._engine).call(repository, attempt)
            else:
                queued = await attempt(in_order)
            status = 202 if queued.new else 200
            if call.priority is not None:

                async def finish_as(tx: Transaction, body: Any, _status: int) -> None:
                    await finish(tx, body, status)

                policy, points = queued.policy, call.priority
                return status, await self.prioritise(repository, number, points, by=by, policy=policy, finish=finish_as)
        return status, await self.answer(queued)

    async def prioritise(
        self,
        repository: Repository,
        number: int,
        priority: int | str,
        *,
        by: str,
        policy: Policy | None = None,
        finish: Finish | None = None,
    ) -> Any:
        """Set the priority, and answer which pull requests that delays. Raises NotQueued and GitHubError."""
        points = PRIORITIES[priority] if isinstance(priority, str) else priority
        if policy is None:
            case = await load_case(self._engine, repository, number)
            if case.entry is None:
                raise NotQueued
            policy = (await case.with_policy(self._engine, case.entry.base_branch)).policy

        async def attempt() -> Any:
            async with self._engine.change() as change:
                entry = await change.tx.entries.find(repository.id, number)
                if entry is None:
                    raise NotQueued
                result = await enqueue.prioritise(change, entry, points, policy, by=by)
                policies = {entry.base_branch: policy}
                found = await load_pull_request(change.tx, repository.id, number, policies, change.now)
                body = QueuedAnswer.of(result.entry, policy, found, result.delay).model_dump(mode="json")
                if finish is not None:
                    await finish(change.tx, body, 200)
                return body

        return await _retry_on_conflict(attempt)

    async def requeue(
        self,
        repository: Repository,
        number: int,
        *,
        by: str,
        head_sha: str | None,
        delivery: str | None = None,
        joins: bool = False,
    ) -> Queued:
        """Queue the present head at the end; `joins`: also of a pull request that is not queued.

        Raises RejectionError, NotQueued, MergePending, SlotsBusy, RequestOrderError and GitHubError.
        """

        async def attempt(in_order: InOrder) -> Queued:
            case = await load_case(self._engine, repository, number, delivery=delivery)
            call = enqueue.enqueue if joins and case.entry is None else enqueue.requeue
            return await call(self._engine, replace(case, in_order=in_order), by=by, head_sha=head_sha)

        return await RequestOrder(self._engine).call(
            repository, lambda in_order: _retry_on_conflict(partial(attempt, in_order))
        )

    async def revert(self, repository: Repository, number: int, *, by: str, reland: bool) -> RevertAnswer:
        """Open and queue a revert, or a reverted one's `reland`. Raises ApiError, RejectionError and GitHubError."""
        done = await RequestOrder(self._engine).call(
            repository, partial(request_revert, self._engine, repository, number, by=by, reland=reland)
        )
        if not done.landed:
            raise ApiError(409, _NOT_REVERTED if reland else _NOT_LANDED)
        if done.number is None:
            raise ApiError(422, "GitHub refused the request", detail=done.detail)
        reason = None if done.refused is None else done.refused.reason
        sentence = _RELANDS if reland else _REVERTS if reason is None else f"{_OPENED} {_sentence(reason, None)}"
        return RevertAnswer(
            repository=repository,
            number=number,
            opened=done.number,
            queued=not reland and reason is None,
            reason=None if reason is None else reason.value,
            sentence=sentence.format(opened=done.number),
        )

    async def dequeue(self, repository: Repository, number: int, *, by: str, finish: Finish | None = None) -> Any:
        """Dequeue a pull request, and answer whether it left. Raises RejectionError, NotQueued and GitHubError."""

        async def attempt() -> Any:
            case = await load_case(self._engine, repository, number)
            permitted = await authorize_dequeue(self._engine, case, by=by)
            async with self._engine.change() as change:
                left = await dequeue_by_user(change, permitted)
                found = await load_pull_request(change.tx, repository.id, number, {}, change.now)
                fields = state_fields(found, repository, permitted.case.policy)
                body = DequeuedAnswer(**fields, repository=repository, number=number, left=left).model_dump(mode="json")
                if finish is not None:
                    await finish(change.tx, body, 200 if left else 202)
                return body

        return await _retry_on_conflict(attempt)

    @asynccontextmanager
    async def refusals(self, repository: Repository, number: int) -> AsyncIterator[None]:
        """Convert the engine's refusals to errors with the state of the pull request. Raises ApiError."""
        try:
            yield
        except RejectionError as refused:
            found = await self.load(repository, number)
            raise _rejection(refused, state_fields(found, repository, why=refused.reason)) from None
        except SlotsBusy:
            full = as_json(state_fields(await self.load(repository, number), repository, why=Reason.QUEUE_FULL))
            if full["state"] == NOT_QUEUED:
                full |= {"sentence": _FULL, "next": full["next"] | {"sentence": _ONCE_MORE}}
            raise ApiError(429, "queue full", retry_after=RETRY_AFTER_OUTAGE, **full) from None
        except NotQueued:
            fields = state_fields(await self.load(repository, number), repository)
            raise ApiError(404, "this pull request is not queued", **as_json(fields)) from None
        except MergePending:
            fields = state_fields(await self.load(repository, number), repository)
            raise ApiError(409, "the merge of this pull request has started", **as_json(fields)) from None


async def _retry_on_conflict(attempt: Callable[[], Awaitable[T]]) -> T:
    """Try again when another process changed the entry in the meantime."""
    for _ in range(_MAX_ATTEMPTS - 1):
        with suppress(StaleRecord):
            return await attempt()
    return await attempt()


def _rejection(refused: RejectionError, fields: Mapping[str, Any]) -> ApiError:
    reason, sentence = refused.reason, _sentence(refused.reason, refused.label)
    more = as_json(fields) | {"sentence": sentence, "detail": refused.detail}
    return ApiError(_STATUS.get(reason, 422), sentence, **more)


def _sentence(reason: Reason, label: str | None) -> str:
    template = _SENTENCES.get(reason, reason_texts.REASONS[reason].sentence)
    return template.format(base="its base branch", label=label)
