"""`POST /api/v1/repositories/{owner}/{repo}/queue` and `/processes/{id}`: queue many pull requests, one job for each.

All jobs of a call have one `process_id`, so they run in their order and one at a time. They are stored in one
transaction with the answer, and each names the entry that it makes by its own id: so a process that dies between two
steps loses no pull request, and queues none twice. The results stay for `KEPT`, and then a last job deletes them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Self
from uuid import uuid4

from aiohttp import web
from pydantic import Field, model_validator

from bot.api import routes
from bot.api.api_errors import ApiError, known_refusal
from bot.api.auth import caller
from bot.api.enqueueing import PullRequests
from bot.api.idempotent import finish_call
from bot.api.payload import AnswerModel, Payload, payload, query
from bot.api.permissions import Access, budget_key, check_waiting
from bot.api.routes import Caller, Routes, read, route
from bot.api.views import USUAL_WAIT, CallAnswer, QueueCall, StateAnswer, StepAnswer, as_json, state_fields
from bot.api.waits import ChangeWaits, WaitQuery, of_process, with_version
from queue_engine.admission.request_order import BULK_CALL, EARLIER_REQUEST, RequestOrder, attempt_of, call_delivery
from queue_engine.core.jobs.job import Hold, Job, JobResult, JobStatus, Outcome
from queue_engine.core.jobs.worker import Handler, ResultHandler
from queue_engine.core.observability.progress import ProgressEvent, ProgressStatus
from queue_engine.domain.errors import RateLimitError, RequestOrderError, StaleRecord
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
from queue_engine.store import Transaction
from queue_engine.store.request_records import RequestKind, RequestRecord

MOST = 100
"""Pull requests of one call."""


class BulkItem(QueueCall):
    """A pull request to queue: its number, and as for a single call its head and its priority."""

    number: int = Field(ge=1, lt=10**9)


class BulkCall(Payload):
    """The pull requests to queue, in this order; each number once."""

    pulls: tuple[BulkItem, ...] = Field(min_length=1, max_length=MOST)

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        numbers = [each.number for each in self.pulls]
        if len(set(numbers)) < len(numbers):
            raise ValueError("a number is given more than once")
        return self


class BulkRequest(AnswerModel, frozen=True):
    """The request of one job: the pull request, and on whose behalf."""

    token_id: str
    owner: str
    """Whose calls may read the results: the person, or else the token."""
    repository_id: int
    item: BulkItem
    created_at: datetime


class BulkResult(StateAnswer):
    """The result for one pull request; `status` is that of a single call, null while IMQ has not come to it."""

    number: int
    status: int | None
    error: str | None = None


class ProcessAnswer(AnswerModel):
    """A call that queues many pull requests: how far it is, and the results one by one, in the order of the call."""

    process_id: str
    repository: str
    state: str = Field(description="`running` or `done`")
    progress: str = Field(examples=["3 of 7"])
    done: int
    total: int
    expires_at: datetime
    results: tuple[BulkResult, ...]
    version: str = ""


EXPIRY_JOB = "bulk_expiry"

KEPT = timedelta(hours=72)
"""How long the results of a call can be read, as long as its Idempotency-Key is remembered."""

_ENDED = frozenset({JobStatus.COMPLETED, JobStatus.FAILED})
_NONE_SUCH = "IMQ has no such process, or this token may not see it"
_FAILED = (
    "IMQ could not queue this pull request: GitHub failed for too long, or the process ended each time; queue it again"
)


class BulkRoutes(Routes):
    """Routes that queue many pull requests, and show the results."""

    def __init__(self, engine: Engine, access: Access, waits: ChangeWaits) -> None:
        super().__init__(engine, access)
        self._waits = waits
        self._pulls = PullRequests(engine)

    @route("POST", f"{routes.REPOSITORY}/queue", caller=Caller.PERSON, body=BulkCall, answers={202: ProcessAnswer})
    async def queue_pull_requests(self, request: web.Request) -> web.Response:
        """Queues up to 100 pull requests, with results one by one.

        Answer 202 with the process; 403; 404: the caller may not read the repository; 429.
        """
        call, token = payload(request, BulkCall), caller(request)
        controls = any(each.priority is not None for each in call.pulls)
        allowed = self._access.controllable if controls else self._access.writable
        repository, login = await allowed(request)
        process_id = uuid4().hex
        async with self._engine.change() as change:
            waiting = await change.tx.jobs.unfinished_requests(BULK_CALL, "")
            check_waiting(sum(each["owner"] == budget_key(token) for each in waiting), len(call.pulls))
            made = [
                BulkRequest(
                    token_id=token.id,
                    owner=budget_key(token),
                    repository_id=repository.id,
                    item=item,
                    created_at=change.now,
                ).model_dump(mode="json")
                for item in call.pulls
            ]
            jobs = [(process_id, each) for each in made]
            ids = await change.tx.jobs.enqueue_all(kind=BULK_CALL, requests=jobs, now=change.now)
            asked = RequestKind.CALL, "enqueue", login, change.now, process_id
            pairs = zip(ids, (item.number for item in call.pulls), strict=True)
            await change.tx.requests.add([RequestRecord(each, repository, number, *asked) for each, number in pairs])
            await change.enqueue(EXPIRY_JOB, {"process_id": process_id}, process_id, at=change.now + KEPT)
            answer = _process(process_id, repository, await _jobs(change.tx, process_id)).model_dump(mode="json")
            return await finish_call(request, change.tx, with_version(answer), status=202)

    @read(f"/processes/{{process_id:{routes.PROCESS_ID}}}", answers={200: ProcessAnswer, 304: None}, query=WaitQuery)
    async def show_process(self, request: web.Request) -> web.Response:
        """Shows the results of a call that queues many pull requests.

        Answer 200; 304: as before; 404: there is none, another caller's, or its repository is hidden by now.
        """
        asked, subject = query(request, WaitQuery), of_process(request.match_info["process_id"])
        return await self._waits.answer(request, subject, partial(self._load, request), asked)

    async def _load(self, request: web.Request) -> Mapping[str, Any]:
        token, process_id = caller(request), request.match_info["process_id"]
        async with self._engine.store.reading() as tx:
            jobs = await _jobs(tx, process_id)
            first = BulkRequest.model_validate(jobs[0].request) if jobs else None
            repository = None if first is None else await tx.repositories.by_id(first.repository_id)
        if first is None or repository is None or not (token.grant.operator or budget_key(token) == first.owner):
            raise ApiError(404, _NONE_SUCH)
        if not await self._access.visible(token, [repository], []):
            raise ApiError(404, _NONE_SUCH)
        known = {job.id: await self._queued_state(repository, job) for job in jobs if job.status is JobStatus.FAILED}
        return with_version(_process(process_id, repository, jobs, known).model_dump(mode="json"))

    async def _queued_state(self, repository: Repository, job: Job) -> Mapping[str, Any] | None:
        """Return the state of a pull request whose job was given up after it had queued it; else None."""
        number = BulkRequest.model_validate(job.request).item.number
        if not await _is_done(self._engine, repository, number, job):
            return None
        return state_fields(await self._pulls.load(repository, number), repository)


class BulkJobs:
    """Runs the jobs of `BulkRoutes` in a worker."""

    def __init__(self, engine: Engine, access: Access, waits: ChangeWaits) -> None:
        self._engine = engine
        self._access = access
        self._waits = waits
        self._pulls = PullRequests(engine)
        self._order = RequestOrder(engine)

    def handlers(self) -> Mapping[str, Handler | ResultHandler]:
        """Return the handler of each kind of job."""
        return {BULK_CALL: ResultHandler(self._queue, self._settled), EXPIRY_JOB: self._expire}

    async def _queue(self, job: Job) -> Outcome:
        """Queue one pull request, if the token still allows it; a refusal is a result, too."""
        asked = BulkRequest.model_validate(job.request)
        attempt = attempt_of(job)
        try:
            await self._order.await_again(attempt)
            async with self._engine.store.reading() as tx:
                token = await tx.tokens.by_id(asked.token_id, self._engine.clock.now())
                repository = await tx.repositories.by_id(asked.repository_id)
            if token is None:
                raise ApiError(401, "the token of this call was revoked, or has expired")
            if repository is None:
                raise ApiError(404, "IMQ no longer has this repository")
            repository, login = await self._access.allowed(token, repository, controls=asked.item.priority is not None)
            if await _is_done(self._engine, repository, asked.item.number, job):
                return await self._done_before(repository, asked.item.number)
            status, body = await self._pulls.enqueue(
                repository,
                asked.item.number,
                asked.item,
                by=login,
                delivery=call_delivery(job),
                finish=_nothing_to_finish,
                in_order=self._order.of(repository, attempt),
            )
            return _result(status, body)
        except ApiError as error:
            if error.status == 429 and error.body["reason"] is None:
                # The caller's budget: the call was accepted, so its jobs wait.
                return Hold(error.retry_after or timedelta(minutes=1))
            return _result(error.status, error.body)
        except RateLimitError as limited:
            return Hold(limited.retry_after)
        except RequestOrderError as early:
            return Hold(early.retry_after, EARLIER_REQUEST)
        except StaleRecord:
            return Hold(timedelta(0))
        except Exception as error:
            if (refused := known_refusal(error)) is None:
                raise
            return _result(refused.status, refused.body)

    async def _settled(self, job: Job) -> None:
        """Report the progress of the call, by its process, and answer those who wait for it."""
        jobs = await self._engine.store.read(lambda tx: _jobs(tx, job.process_id))
        done, total = sum(each.status in _ENDED for each in jobs), len(jobs)
        await self._engine.progress.on_progress(
            ProgressEvent(
                correlation_id=job.process_id,
                status=ProgressStatus.COMPLETED if done == total else ProgressStatus.IN_PROGRESS,
                message=f"{done} of {total} pull requests",
                done=done,
                total=total,
            )
        )
        self._waits.wake(of_process(job.process_id))

    async def _done_before(self, repository: Repository, number: int) -> Outcome:
        return _result(202, as_json(state_fields(await self._pulls.load(repository, number), repository)))

    async def _expire(self, job: Job) -> Outcome | None:
        process_id = str(job.request["process_id"])
        async with self._engine.store.transaction() as tx:
            if await tx.jobs.unfinished(process_id):
                return Hold(timedelta(hours=1))
            await tx.jobs.take_results(process_id)
        return None


async def _is_done(engine: Engine, repository: Repository, number: int, job: Job) -> bool:
    """Return whether a run of this job queued the pull request; its process may have died afterwards."""
    events = await engine.store.read(lambda tx: tx.timeline.of_pull_request(repository.id, number))
    return any(event.delivery == call_delivery(job) for event in events)


async def _jobs(tx: Transaction, process_id: str) -> tuple[Job, ...]:
    """Return the jobs of a bulk call, in its order; none for a process of another kind."""
    found = (*await tx.jobs.get_results(process_id), *await tx.jobs.unfinished(process_id))
    return tuple(sorted((job for job in found if job.kind == BULK_CALL), key=lambda job: job.seq))


async def _nothing_to_finish(_tx: Transaction, _body: Any, _status: int) -> None:
    """Store no answer: the job's result has it."""


def _result(status: int, body: Mapping[str, Any]) -> JobResult:
    return JobResult({"status": status, "answer": dict(body)})


def _process(
    process_id: str,
    repository: Repository,
    jobs: Sequence[Job],
    known: Mapping[str, Mapping[str, Any] | None] = MappingProxyType({}),
) -> ProcessAnswer:
    """Make the answer; `known` has the state of each pull request that a failed job had queued, by the job's id."""
    results = tuple(_item(job, process_id, known.get(job.id)) for job in jobs)
    done = sum(each.status is not None for each in results)
    created_at = BulkRequest.model_validate(jobs[0].request).created_at
    return ProcessAnswer(
        process_id=process_id,
        repository=repository.full_name,
        state="done" if done == len(jobs) else "running",
        progress=f"{done} of {len(jobs)}",
        done=done,
        total=len(jobs),
        expires_at=created_at + KEPT,
        results=results,
    )


def _item(job: Job, process_id: str, queued: Mapping[str, Any] | None) -> BulkResult:
    number = BulkRequest.model_validate(job.request).item.number
    if job.status is JobStatus.COMPLETED and job.response is not None:
        answer = dict(job.response["answer"])
        shown = {name: answer[name] for name in (*StateAnswer.model_fields, "error") if name in answer}
        return BulkResult(number=number, status=job.response["status"], **shown)
    if job.status is JobStatus.FAILED and queued is not None:
        return BulkResult(number=number, status=202, **queued)
    if job.status is JobStatus.FAILED:
        body = ApiError(503, _FAILED, retry_after=timedelta(0)).body
        return BulkResult(number=number, status=503, **body)
    call = CallAnswer(method="GET", path=f"/api/v1/processes/{process_id}?wait={USUAL_WAIT}")
    begun = job.status is JobStatus.IN_PROGRESS
    return BulkResult(
        number=number,
        status=None,
        whose_move="imq",
        reason="processing" if begun else "not_begun",
        sentence="IMQ is queueing it now." if begun else "IMQ has not queued it yet.",
        next=StepAnswer(sentence="Wait for the result.", call=call),
    )
