"""`/api/v1/repositories/{owner}/{repo}/shadow`: what IMQ would have done in a repository in shadow mode."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from aiohttp import web

from bot.api import request_scope
from bot.api.access import Access
from bot.api.instants import Instant
from bot.api.payload import AnswerModel, Payload, query
from bot.api.routes import Caller, Route
from queue_engine.domain.shadow import ShadowAction, ShadowLanding, ShadowPull
from queue_engine.effects.context import Engine
from queue_engine.queries.shadow_report import ShadowFigures, ShadowReport, load_shadow_report

USUAL = timedelta(days=30)
"""The time that a report covers without `since`."""


class ShadowQuery(Payload):
    """Parameters of a report."""

    since: Instant | None = None


class ActionAnswer(AnswerModel):
    """What IMQ would have done last about the label. `predicted` is a prediction, everything else is not."""

    outcome: str
    at: datetime
    reason: str | None
    detail: str | None
    checks: tuple[str, ...]
    method: str | None
    predicted: datetime | None

    @classmethod
    def of(cls, decision: ShadowAction) -> "ActionAnswer":
        """Convert a decision."""
        return cls(
            outcome=decision.outcome.value,
            at=decision.at,
            reason=decision.reason and decision.reason.value,
            detail=decision.detail,
            checks=decision.checks,
            method=decision.method,
            predicted=decision.predicted_at,
        )


class MergeAnswer(AnswerModel):
    """A merge by somebody else. `differences` is empty if IMQ would have merged this head on this base, too.

    `tree_tested` is null where GitHub does not name the landed commit, and `base_red_before` where IMQ does not know.
    """

    at: datetime
    by: str | None
    commit: str
    head_sha: str
    differences: tuple[str, ...]
    reason: str | None
    detail: str | None
    checks: str
    checks_not_passed: tuple[str, ...]
    tree_tested: bool | None
    approved: datetime | None
    base: str
    base_checks: tuple[str, ...]
    base_red_before: bool | None

    @classmethod
    def of(cls, landing: ShadowLanding) -> "MergeAnswer":
        """Convert a merge."""
        return cls(
            at=landing.at,
            by=landing.by,
            commit=landing.sha,
            head_sha=landing.head,
            differences=tuple(each.value for each in landing.differences),
            reason=landing.reason and landing.reason.value,
            detail=landing.detail,
            checks=landing.checks.value,
            checks_not_passed=landing.not_passed,
            tree_tested=landing.tree_tested,
            approved=landing.approved_at,
            base=landing.base.value,
            base_checks=landing.base_checks,
            base_red_before=landing.red_before,
        )


class ShadowPullAnswer(AnswerModel):
    """A pull request: its label with the decision, and its merge, where there are any."""

    repository: str
    number: int
    title: str
    base_branch: str
    labeled: datetime | None
    labeled_by: str | None
    decision: ActionAnswer | None
    merge: MergeAnswer | None

    @classmethod
    def of(cls, pull: ShadowPull) -> "ShadowPullAnswer":
        """Convert a pull request."""
        return cls(
            repository=pull.repository.full_name,
            number=pull.number,
            title=pull.title,
            base_branch=pull.base_branch,
            labeled=pull.queued_at,
            labeled_by=pull.queued_by,
            decision=None if pull.decision is None else ActionAnswer.of(pull.decision),
            merge=None if pull.landing is None else MergeAnswer.of(pull.landing),
        )


class FiguresAnswer(AnswerModel):
    """Counts and medians; durations are in seconds, and null without a pull request."""

    labeled: int
    outcomes: Mapping[str, int]
    merges: int
    agreed: int
    differences: Mapping[str, int]
    red_bases: int
    label_to_merge: float | None
    approval_to_merge: float | None
    label_to_decision: float | None

    @classmethod
    def of(cls, figures: ShadowFigures) -> "FiguresAnswer":
        """Convert figures."""
        return cls(
            labeled=figures.labeled,
            outcomes=figures.outcomes,
            merges=figures.merges,
            agreed=figures.agreed,
            differences=figures.differences,
            red_bases=figures.red_bases,
            label_to_merge=_seconds(figures.label_to_merge),
            approval_to_merge=_seconds(figures.approval_to_merge),
            label_to_decision=_seconds(figures.label_to_decision),
        )


class ShadowAnswer(AnswerModel):
    """A report. `repositories` are those in shadow mode now; their former merges and decisions stay for 90 days."""

    since: datetime
    repositories: tuple[str, ...]
    figures: FiguresAnswer
    pull_requests: tuple[ShadowPullAnswer, ...]

    @classmethod
    def of(cls, report: ShadowReport) -> "ShadowAnswer":
        """Convert a report."""
        return cls(
            since=report.since,
            repositories=tuple(each.full_name for each in report.repositories),
            figures=FiguresAnswer.of(report.figures),
            pull_requests=tuple(map(ShadowPullAnswer.of, report.pulls)),
        )


class ShadowRoutes:
    """The route of the report."""

    def __init__(self, engine: Engine, access: Access) -> None:
        self._engine = engine
        self._access = access

    def routes(self) -> Sequence[Route]:
        """List the route."""
        return [
            Route(
                "GET",
                f"{request_scope.REPOSITORY}/shadow",
                self.show,
                "show_shadow_report",
                "Shows what IMQ would have done in shadow mode, beside what people did.",
                caller=Caller.READER,
                query=ShadowQuery,
                answers={200: ShadowAnswer},
                refusals=(422,),
                variables=request_scope.VARIABLES,
            )
        ]

    async def show(self, request: web.Request) -> web.Response:
        """Answer 200, for the last 30 days without `since`; 404: the repository is hidden; 422: no instant."""
        repository = await self._access.readable(request)
        since = query(request, ShadowQuery).since or self._engine.clock.now() - USUAL
        async with self._engine.store.reading() as tx:
            report = await load_shadow_report(tx, since, repository=repository)
        return web.json_response(ShadowAnswer.of(report).model_dump(mode="json"))


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()
