"""`/api/v1/repositories/{owner}/{repo}/queues` and `…/branches/{branch}/…`: queues, control, statistics, shadow."""

from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from aiohttp import web
from pydantic import Field

from bot.api import routes
from bot.api.api_errors import ApiError
from bot.api.idempotent import finish_call
from bot.api.payload import AnswerModel, EmptyBody, Instant, Payload, json_data, payload, query
from bot.api.routes import Caller, Routes, read, route
from bot.api.views import EffectAnswer, QueueAnswer, QueuesAnswer
from notifications.render.flake_issue import flake_issue
from queue_engine.commands.commands import FARTHEST
from queue_engine.config.model import Policy
from queue_engine.control import pauses
from queue_engine.control.pauses import Control, ControlResult
from queue_engine.core.observability import trace
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.model import RepositoryName
from queue_engine.domain.shadow_pull import ShadowAction, ShadowLanding
from queue_engine.effects.context import Change
from queue_engine.queries.control_effect import load_hotfix_effect, load_pause_effect
from queue_engine.queries.queue_statistics import MOST_DAYS, USUAL_DAYS, QueueStatistics, load_statistics, period
from queue_engine.queries.queue_status import load_queue, load_summaries, queue_blockers
from queue_engine.queries.shadow_report import ShadowFigures, load_shadow_report
from queue_engine.store.departures import DepartureQuery, FlakyKind

_PAUSE, _FREEZE = f"{routes.BRANCH}/pause", f"{routes.BRANCH}/freeze"

_NAME = 300
_LINE = r"^[^\x00-\x1f\x7f]*$"


class PauseCall(Payload):
    """Parameters of a pause: its reason, which authors read."""

    reason: str = Field("", max_length=500, pattern=_LINE)


class FreezeCall(PauseCall):
    """Parameters of a freeze: its reason, and when it ends, as an instant with its offset from UTC."""

    until: Instant


class ControlAnswer(AnswerModel):
    """The result for a queue: whether this call changed anything, what blocks it now, and its pull requests.

    After a queue was resumed, `blockers` has only blockers that end by themselves or with another configuration.
    """

    repository: RepositoryName
    base_branch: str
    changed: bool
    blockers: tuple[Blocker, ...]
    concerned: tuple[int, ...]


STATISTICS = f"{routes.BRANCH}/statistics"


class StatisticsQuery(Payload):
    """Parameters of statistics: the number of days, today included, in UTC."""

    days: int = Field(USUAL_DAYS, ge=1, le=MOST_DAYS)


class IssueQuery(StatisticsQuery):
    """Parameters of an issue's text: what flakes, and whether that is a check, a job or a test."""

    name: str = Field(min_length=1, max_length=_NAME)
    kind: FlakyKind = "check"


class IssueAnswer(AnswerModel):
    """The text of an issue about a flaky check, job or test, in GitHub's Markdown; IMQ files none itself."""

    title: str
    body: str


class QueueEffectQuery(Payload):
    """Parameters of a preview: what would be done to the queue."""

    do: Literal["pause", "freeze", "hotfix"]


USUAL = timedelta(days=30)
"""The time that a report covers without `since`."""


class ShadowQuery(Payload):
    """Parameters of a report."""

    since: Instant | None = None


class ShadowPullAnswer(AnswerModel):
    """A pull request: when and by whom the label was set, what IMQ decided, and its landing, where there are any."""

    repository: RepositoryName
    number: int
    title: str
    base_branch: str
    enqueued_at: datetime | None
    queued_by: str | None
    decision: ShadowAction | None
    landing: ShadowLanding | None


class ShadowAnswer(AnswerModel):
    """A report. `repositories` are those in shadow mode now; their former merges and decisions stay for 90 days.

    Durations of `figures` are in seconds, and null without a pull request.
    """

    since: datetime
    repositories: tuple[RepositoryName, ...]
    figures: ShadowFigures
    pulls: tuple[ShadowPullAnswer, ...]


_control = partial(route, caller=Caller.MAINTAINER, answers={200: ControlAnswer})


class BranchRoutes(Routes):
    """Routes that show and control queues, with their statistics and the report of shadow mode."""

    @read(f"{routes.REPOSITORY}/queues", answers={200: QueuesAnswer})
    async def list_queues(self, request: web.Request) -> web.Response:
        """Lists the queues of a repository. Answer 200; 404: the caller may not read the repository."""
        engine, repository = self._engine, await self._access.readable(request)
        queues = await engine.store.read(lambda tx: tx.queues.of_repository(repository.id))
        branches = sorted(queue.base_branch for queue in queues)
        policies = {branch: await engine.policies.of(repository, branch) for branch in branches}
        async with engine.store.reading() as tx:
            found = await load_summaries(tx, engine.clock.now(), repository_id=repository.id, policies=policies)
        found = tuple(sorted(found, key=lambda each: each.queue.base_branch))
        answer = QueuesAnswer(repository=repository, queues=found)
        return web.json_response(answer.model_dump(mode="json"))

    @read(f"{routes.BRANCH}/queue", answers={200: QueueAnswer})
    async def show_queue(self, request: web.Request) -> web.Response:
        """Shows a queue and its entries, the front first.

        Answer 200; 404: the caller may not read the repository, or the branch never had a queue.
        """
        engine, repository = self._engine, await self._access.readable(request)
        branch = routes.branch_of(request)
        queue = await engine.store.read(lambda tx: tx.queues.find(repository.id, branch))
        if queue is None:
            raise routes.no_such_branch()
        policy = await engine.policies.of(repository, branch)
        async with engine.store.reading() as tx:
            answer = QueueAnswer.model_validate(await load_queue(tx, queue, policy, engine.clock.now()))
        return web.json_response(answer.model_dump(mode="json"))

    @_control("POST", _PAUSE, body=PauseCall)
    async def pause_queue(self, request: web.Request) -> web.Response:
        """Pauses a queue. Answer 200: the queue is paused until somebody resumes it; also if it was paused before."""
        return await self._control(request, partial(pauses.pause, reason=payload(request, PauseCall).reason))

    @_control("DELETE", _PAUSE, body=EmptyBody)
    async def resume_queue(self, request: web.Request) -> web.Response:
        """Resumes a queue.

        Answer 200: no pause blocks the queue, and IMQ tests a red base again; the answer names other blockers.
        """
        return await self._control(request, pauses.resume)

    @_control("PUT", _FREEZE, body=FreezeCall, refusals=(422,))
    async def freeze_queue(self, request: web.Request) -> web.Response:
        """Freezes a queue until an instant.

        Answer 200: the queue is frozen until then; 409: the instant has passed; 422: it is too far ahead.
        """
        call = payload(request, FreezeCall)
        now = self._engine.clock.now()
        if call.until <= now:
            raise ApiError(409, "this instant has passed")
        if call.until - now > FARTHEST:
            sentence = f"a freeze lasts at most {FARTHEST.days} days; configure longer ones in .github/imq.yml"
            raise ApiError(422, sentence)
        return await self._control(request, partial(pauses.freeze, until=call.until, reason=call.reason))

    @_control("DELETE", _FREEZE, body=EmptyBody)
    async def thaw_queue(self, request: web.Request) -> web.Response:
        """Ends a freeze by hand. Answer 200: the queue has no freeze by hand; other blockers stay."""
        return await self._control(request, pauses.unfreeze)

    async def _control(self, request: web.Request, control: Control) -> web.Response:
        """Apply a control, and answer with the queue's blockers. Raises ApiError and GitHubError."""
        engine, branch = self._engine, routes.branch_of(request)
        repository, login = await self._access.controllable(request)
        async with engine.store.reading() as tx:
            known = await tx.queues.find(repository.id, branch) is not None
        # A queue is created for an existing branch only, not for any name that a caller sends.
        if not known and await engine.github.branch_tip(repository, branch) is None:
            raise routes.no_such_branch()
        policy = await engine.policies.of(repository, branch)
        with trace.span("api control"):
            async with engine.change() as change:
                result = await control(change, repository, branch, by=login)
                answer = _answer(result, policy, change)
                return await finish_call(request, change.tx, answer.model_dump(mode="json"))

    @read(f"{routes.BRANCH}/effect", query=QueueEffectQuery, answers={200: EffectAnswer})
    async def preview_queue_control(self, request: web.Request) -> web.Response:
        """Shows what a pause or a freeze of a queue, or a hotfix that joins it, would do now.

        Answer 200, and do nothing; 404: hidden repository, or no queue.
        """
        engine, repository, branch = self._engine, await self._access.readable(request), routes.branch_of(request)
        asked = query(request, QueueEffectQuery)
        policy = await engine.policies.of(repository, branch)
        async with engine.store.reading() as tx:
            if (queue := await tx.queues.find(repository.id, branch)) is None:
                raise routes.no_such_branch()
            now = engine.clock.now()
            found = (
                await load_hotfix_effect(tx, queue, policy, now)
                if asked.do == "hotfix"
                else await load_pause_effect(tx, queue, now)
            )
        return web.json_response(EffectAnswer.of(found).model_dump(mode="json"))

    @read(STATISTICS, query=StatisticsQuery, answers={200: QueueStatistics})
    async def show_statistics(self, request: web.Request) -> web.Response:
        """Shows what a queue did in a period: waits, landings, reasons of leaving, flaky checks and CI time.

        Answer 200, for the last 30 days without `days`; 404: hidden repository, or no queue.
        """
        return web.json_response(json_data(await self._statistics(request, query(request, StatisticsQuery).days)))

    @read(f"{STATISTICS}/issue", query=IssueQuery, answers={200: IssueAnswer})
    async def write_flake_issue(self, request: web.Request) -> web.Response:
        """Writes the text of an issue about a flaky check, job or test.

        Answer 200; 404: hidden repository, no queue, or no flake of this name in these days.
        """
        asked = query(request, IssueQuery)
        text = flake_issue(await self._statistics(request, asked.days), asked.kind, asked.name)
        if text is None:
            raise ApiError(404, "no flake of this name in these days")
        return web.json_response(json_data(IssueAnswer.model_validate(text)))

    async def _statistics(self, request: web.Request, days: int) -> QueueStatistics:
        """Load the statistics of a queue. Raises ApiError 404."""
        repository = await self._access.readable(request)
        branch = routes.branch_of(request)
        first, last = period(self._engine.clock.now(), days)
        async with self._engine.store.reading() as tx:
            if await tx.queues.find(repository.id, branch) is None:
                raise routes.no_such_branch()
        policy = await self._engine.policies.of(repository, branch)
        async with self._engine.store.reading() as tx:
            wanted = DepartureQuery(first, last, frozenset({repository.id}), branch)
            return await load_statistics(tx, wanted, repository, policy)

    @read(f"{routes.REPOSITORY}/shadow", query=ShadowQuery, answers={200: ShadowAnswer}, refusals=(422,))
    async def show_shadow_report(self, request: web.Request) -> web.Response:
        """Shows what IMQ would have done in shadow mode, beside what people did.

        Answer 200, for the last 30 days without `since`; 404: the repository is hidden; 422: no instant.
        """
        repository = await self._access.readable(request)
        since = query(request, ShadowQuery).since or self._engine.clock.now() - USUAL
        report = await self._engine.store.read(lambda tx: load_shadow_report(tx, since, repository=repository))
        return web.json_response(json_data(ShadowAnswer.model_validate(report)))


def _answer(result: ControlResult, policy: Policy, change: Change) -> ControlAnswer:
    return ControlAnswer(
        repository=result.queue.repository,
        base_branch=result.queue.base_branch,
        changed=result.changed,
        blockers=queue_blockers(result.queue, policy, change.now),
        concerned=result.concerned,
    )
