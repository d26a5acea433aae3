"""`/api/v1/repositories/{owner}/{repo}/branches/{branch}/statistics`: what a queue did in a period."""

from collections.abc import Mapping, Sequence
from datetime import date

from aiohttp import web
from pydantic import Field

from bot.api import request_scope
from bot.api.access import Access
from bot.api.payload import AnswerModel, Payload, query
from bot.api.routes import Caller, Route
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
from queue_engine.queries.health import Health, HealthLimit
from queue_engine.queries.statistics import (
    MOST_DAYS,
    USUAL_DAYS,
    LandingCount,
    QueueStatistics,
    ReasonCount,
    RerunCount,
    load_statistics,
    period,
)
from queue_engine.queries.train_statistics import TrainStatistics
from queue_engine.store.statistics import DepartureQuery

STATISTICS = f"{request_scope.BRANCH}/statistics"


class StatisticsQuery(Payload):
    """Parameters of statistics: the number of days, today included, in UTC."""

    days: int = Field(USUAL_DAYS, ge=1, le=MOST_DAYS)


class LandingsView(AnswerModel):
    """How many pull requests landed from one day to another, both included, in UTC."""

    first: date
    last: date
    landed: int

    @classmethod
    def of(cls, count: LandingCount) -> "LandingsView":
        """Convert a count."""
        return cls(first=count.first, last=count.last, landed=count.landed)


class ReasonView(AnswerModel):
    """How many pull requests last left for a reason, which is null for `landed`."""

    outcome: str
    reason: str | None
    pull_requests: int

    @classmethod
    def of(cls, count: ReasonCount) -> "ReasonView":
        """Convert a count."""
        return cls(outcome=count.outcome.value, reason=count.reason and count.reason.value, pull_requests=count.pulls)


class FlakyView(AnswerModel):
    """A check or a job that failed and passed in a rerun; `ci_seconds` is null if IMQ does not know the time."""

    name: str
    pull_requests: int
    reruns: int
    ci_seconds: float | None
    waited_seconds: float

    @classmethod
    def of(cls, count: RerunCount) -> "FlakyView":
        """Convert a count."""
        return cls(
            name=count.name,
            pull_requests=count.pulls,
            reruns=count.reruns,
            ci_seconds=count.ci_seconds,
            waited_seconds=count.waited,
        )


class LimitView(AnswerModel):
    """A figure, its limit, and whether the figure is below the limit. A figure that is null exceeds nothing."""

    figure: float | None
    limit: float
    met: bool

    @classmethod
    def of(cls, each: HealthLimit) -> "LimitView":
        """Convert a figure."""
        return cls(figure=each.figure, limit=each.limit, met=each.is_met)


class HealthView(AnswerModel):
    """The figures of a queue against their limits: waits in seconds, and the share of failures."""

    good: bool
    median_wait: LimitView
    p95_wait: LimitView
    failures: LimitView

    @classmethod
    def of(cls, health: Health) -> "HealthView":
        """Convert a judgement."""
        return cls(
            good=health.is_good,
            median_wait=LimitView.of(health.median),
            p95_wait=LimitView.of(health.p95),
            failures=LimitView.of(health.failures),
        )


class TrainsView(AnswerModel):
    """The CI runs of trains, the pull requests that landed by them, and the runs and seconds that this saved."""

    runs: int
    landed: int
    runs_saved: int
    seconds_saved: float | None

    @classmethod
    def of(cls, found: TrainStatistics) -> "TrainsView":
        """Convert the sums."""
        return cls(runs=found.runs, landed=found.landed, runs_saved=found.runs_saved, seconds_saved=found.seconds_saved)


class StatisticsAnswer(AnswerModel):
    """The statistics of a queue from one day to another, both included, in UTC.

    Durations are in seconds, and null without a landing. `mean_wait` divides the mean wait of a landing. `reasons` has
    each pull request once, by its last departure. `ci_seconds` is that of all pull requests that left and whose CI time
    IMQ knows. `requests` are those to GitHub for all queues of the repositories, null if none was counted. `trains` is
    null where no queue has trains.
    """

    repository: str | None
    queue: str | None
    first: date
    last: date
    landed: int
    median_wait: float | None
    p95_wait: float | None
    mean_wait: Mapping[str, float]
    landings: tuple[LandingsView, ...]
    reasons: tuple[ReasonView, ...]
    flaky_checks: tuple[FlakyView, ...]
    flaky_jobs: tuple[FlakyView, ...]
    reruns: int
    ci_seconds: float | None
    ci_seconds_per_landing: float | None
    requests: int | None
    requests_per_landing: float | None
    trains: TrainsView | None
    health: HealthView

    @classmethod
    def of(
        cls, found: QueueStatistics, repository: Repository | None = None, branch: str | None = None
    ) -> "StatisticsAnswer":
        """Convert the statistics of a queue, or without a repository those of several queues."""
        return cls(
            repository=repository and repository.full_name,
            queue=branch,
            first=found.first,
            last=found.last,
            landed=found.landed,
            median_wait=found.median,
            p95_wait=found.p95,
            mean_wait={kind.value: seconds for kind, seconds in found.parts.items()},
            landings=tuple(map(LandingsView.of, found.landings)),
            reasons=tuple(map(ReasonView.of, found.reasons)),
            flaky_checks=tuple(map(FlakyView.of, found.flaky_checks)),
            flaky_jobs=tuple(map(FlakyView.of, found.flaky_jobs)),
            reruns=found.reruns,
            ci_seconds=found.ci_seconds,
            ci_seconds_per_landing=found.ci_per_landing,
            requests=found.requests,
            requests_per_landing=found.requests_per_landing,
            trains=None if found.trains is None else TrainsView.of(found.trains),
            health=HealthView.of(found.health),
        )


class StatisticsRoutes:
    """The route of statistics."""

    def __init__(self, engine: Engine, access: Access) -> None:
        self._engine = engine
        self._access = access

    def routes(self) -> Sequence[Route]:
        """List the route."""
        return [
            Route(
                "GET",
                STATISTICS,
                self.show,
                "show_statistics",
                "Shows what a queue did in a period: waits, landings, reasons of leaving, flaky checks and CI time.",
                caller=Caller.READER,
                query=StatisticsQuery,
                answers={200: StatisticsAnswer},
                variables=request_scope.VARIABLES,
            )
        ]

    async def show(self, request: web.Request) -> web.Response:
        """Answer 200, for the last 30 days without `days`; 404: hidden repository, or no queue."""
        repository = await self._access.readable(request)
        branch = request_scope.branch_of(request)
        first, last = period(self._engine.clock.now(), query(request, StatisticsQuery).days)
        async with self._engine.store.reading() as tx:
            if await tx.queues.find(repository.id, branch) is None:
                raise request_scope.no_such_branch()
            wanted = DepartureQuery(first, last, frozenset({repository.id}), branch)
            found = await load_statistics(tx, wanted)
        answer = StatisticsAnswer.of(found, repository, branch)
        return web.json_response(answer.model_dump(mode="json"))
