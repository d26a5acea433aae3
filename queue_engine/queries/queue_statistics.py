"""Load the statistics of one queue, or of all that a person may see, over the last days."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import Row

from queue_engine.config.model import Policy
from queue_engine.domain.model import EntryStatus, Repository, RepositoryName
from queue_engine.domain.policy import flake_rate
from queue_engine.domain.reasons import Reason, WaitKind
from queue_engine.queries.queue_states import MEDIAN, P95, Health, health_of
from queue_engine.queries.train_status import TrainStatistics, load_train_statistics
from queue_engine.rules.job_rates import NO_JOBS, JobFigures, total
from queue_engine.store import Transaction
from queue_engine.store.departures import DepartureQuery, FlakyKind, day_of

MOST_DAYS = 365
USUAL_DAYS = 30

_MOST_BARS = 92
"""Longer periods have one count for each week."""
_WEEK = 7


@dataclass(frozen=True, slots=True)
class LandingCount:
    """How many pull requests landed from one day to another, both included."""

    first: date
    last: date
    landed: int


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """How many pull requests last left for a reason, which is null for `landed`."""

    outcome: EntryStatus
    reason: Reason | None
    pulls: int


@dataclass(frozen=True, slots=True)
class RerunCount:
    """A check, job or test that failed and passed on the same tree; `ci_seconds` is null if IMQ does not know the time.

    `runs` and `failures` are attempts on trees that passed in the end, of checks alone. `rate` is the share of attempts
    that fail there, as far as these show. `people` are the authors of the delayed pull requests; null of tests.
    """

    name: str
    pulls: int
    reruns: int
    ci_seconds: float | None
    waited: float
    runs: int = 0
    failures: int = 0
    rate: float | None = None
    people: int | None = None
    pulls_before: int = 0
    """The delayed pull requests of the period before, which is as long."""
    first_day: date | None = None
    """The first day of the period with a flake."""
    jobs: JobFigures | None = None
    """What the failed runs cost; null of tests, and where no job of GitHub Actions failed."""
    listed_until: date | None = None
    """The last day on which the configuration lists the check as flaky, also if that is past."""


@dataclass(frozen=True, slots=True)
class JobReason:
    """What the jobs cost of those that left for a reason, which is null for `landed`: each departure counts."""

    outcome: EntryStatus
    reason: Reason | None
    departures: int
    jobs: JobFigures


@dataclass(frozen=True, slots=True)
class JobStatistics:
    """What jobs of GitHub Actions cost: minutes as GitHub bills them, and US dollars, null while no price is known.

    They are those on the tested commits, but for jobs that ended before the pull request was queued. Reruns, resets and
    departures without a landing were in vain, and are in the total. What is saved is estimated.
    """

    total: JobFigures
    per_landing: JobFigures | None
    reruns: JobFigures
    """Attempts that IMQ had run again."""
    resets: JobFigures
    """Tests of landed pull requests before the last one: the base moved, a hotfix came, or another member failed."""
    departures: JobFigures
    """Tests of pull requests that left without landing."""
    saved_by_trains: JobFigures
    """For each run fewer than one for each landing, what a run of a train that passed costs on average."""
    saved_by_refs: JobFigures
    """What workflows on the base need not run again, if they use the refs of tested trees."""
    reasons: tuple[JobReason, ...]


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """The statistics of a queue, or of several, from one day to another, both included, in UTC.

    Durations are in seconds, and null without a landing. `mean_wait` divides the mean wait of a landing. `reasons` has
    each pull request once, by its last departure. `ci_seconds` is that of all pull requests that left and whose CI time
    IMQ knows. `requests` are those to GitHub for all queues of the repositories, null if none was counted. `trains` is
    null where no queue has trains.
    """

    repository: RepositoryName | None
    """The repository of a single queue; None for several queues."""
    base_branch: str | None
    first: date
    last: date
    landed: int
    median_wait: float | None
    p95_wait: float | None
    mean_wait: Mapping[WaitKind, float]
    """The mean seconds of a landing for each part of its wait; empty without a landing."""
    landings: tuple[LandingCount, ...]
    reasons: tuple[ReasonCount, ...]
    flaky_checks: tuple[RerunCount, ...]
    flaky_jobs: tuple[RerunCount, ...]
    flaky_tests: tuple[RerunCount, ...]
    reruns: int
    ci_seconds: float | None
    ci_seconds_per_landing: float | None
    health: Health
    requests: int | None
    requests_per_landing: float | None
    trains: TrainStatistics | None = None
    jobs: JobStatistics | None = None
    """Null where no job of GitHub Actions ran."""

    @property
    def pulls(self) -> int:
        """The number of pull requests that left."""
        return sum(each.pulls for each in self.reasons)


def period(now: datetime, days: int) -> tuple[int, int]:
    """Return the first and the last day of a period that ends today."""
    today = day_of(now)
    return today - days + 1, today


def date_of(day: int) -> date:
    """Return the date of a day since 1970."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)).date()


async def load_statistics(
    tx: Transaction, query: DepartureQuery, repository: Repository | None = None, policy: Policy | None = None
) -> QueueStatistics:
    """Load the statistics of these queues and days; `repository` and `policy` are those of a single queue."""
    sums = await tx.statistics.sums(query)
    landed = [each for each in sums if each.outcome == EntryStatus.LANDED]
    count = sum(each.departures for each in landed)
    median, p95 = [await tx.statistics.waited(query, share, among=count) for share in (MEDIAN, P95)]
    reasons = sorted((_reason(each) for each in sums if each.pulls), key=lambda each: (-each.pulls, str(each.reason)))
    flaky = await _load_flaky(tx, query, policy)
    ci, known = sum(each.ci_seconds for each in sums), sum(each.ci_known for each in sums)
    landed_known = sum(each.ci_known for each in landed)
    failed = sum(each.pulls for each in reasons if each.outcome is EntryStatus.FAILED)
    left = sum(each.pulls for each in reasons if each.outcome is not EntryStatus.CANCELLED)
    by_day = await tx.statistics.landings(query)
    requests, per_landing = await _requests(tx, query, by_day)
    trains = await load_train_statistics(tx, query)
    return QueueStatistics(
        repository=repository,
        base_branch=query.base_branch,
        first=date_of(query.first_day),
        last=date_of(query.last_day),
        landed=count,
        median_wait=median,
        p95_wait=p95,
        mean_wait={kind: sum(getattr(each, kind.value) for each in landed) / count for kind in WaitKind}
        if count
        else {},
        landings=_landings(query, by_day),
        reasons=tuple(reasons),
        flaky_checks=flaky["check"],
        flaky_jobs=flaky["job"],
        flaky_tests=flaky["test"],
        reruns=sum(each.reruns for each in sums),
        ci_seconds=ci if known else None,
        ci_seconds_per_landing=ci / landed_known if landed_known else None,
        health=health_of(median, p95, failed=failed, left=left),
        requests=requests,
        requests_per_landing=per_landing,
        trains=trains,
        jobs=_jobs(sums, count, trains),
    )


def _jobs(sums: Sequence[Row[Any]], landed: int, trains: TrainStatistics | None) -> JobStatistics | None:
    """Add up what the jobs cost, by use and by reason."""

    def figures(use: str, row: Row[Any]) -> JobFigures:
        return JobFigures(getattr(row, f"{use}_minutes"), getattr(row, f"{use}_cost") if row.priced else None)

    reruns, resets, spared = (total(figures(use, each) for each in sums) for use in ("rerun", "reset", "spared"))
    reasons = [
        JobReason(
            EntryStatus(each.outcome),
            None if each.reason is None else Reason(each.reason),
            each.departures,
            figures("ci", each),
        )
        for each in sums
    ]
    spent = total(each.jobs for each in reasons)
    if not spent.minutes:
        return None
    left = [each for each in sums if each.outcome != EntryStatus.LANDED]
    in_vain = total(figures("ci", each) + figures("rerun", each).times(-1) for each in left)
    saved = NO_JOBS if trains is None else trains.run_jobs.times(trains.runs_saved)
    return JobStatistics(
        total=spent,
        per_landing=spent.times(1 / landed) if landed else None,
        reruns=reruns,
        resets=resets,
        departures=in_vain,
        saved_by_trains=saved,
        saved_by_refs=spared,
        reasons=tuple(sorted((r for r in reasons if r.jobs.minutes), key=lambda r: (-r.jobs.minutes, str(r.reason)))),
    )


async def _requests(
    tx: Transaction, query: DepartureQuery, by_day: Mapping[int, int]
) -> tuple[int | None, float | None]:
    """Return the requests to GitHub, and those per landing since the first day that has a count."""
    if (found := await tx.statistics.requests(query)) is None:
        return None, None
    requests, first = found
    if query.base_branch is not None:
        by_day = await tx.statistics.landings(replace(query, base_branch=None))
    landed = sum(count for day, count in by_day.items() if day >= first)
    return requests, requests / landed if landed else None


def _reason(row: Row[Any]) -> ReasonCount:
    return ReasonCount(EntryStatus(row.outcome), None if row.reason is None else Reason(row.reason), row.pulls)


def _landings(query: DepartureQuery, by_day: Mapping[int, int]) -> tuple[LandingCount, ...]:
    """Count the landings of each day, or of each week of a long period; the last week ends with the period."""
    length = query.last_day - query.first_day + 1
    step = 1 if length <= _MOST_BARS else _WEEK
    ends = range(query.last_day, query.first_day - 1, -step)
    spans = [(max(end - step + 1, query.first_day), end) for end in reversed(ends)]
    return tuple(
        LandingCount(date_of(first), date_of(last), sum(by_day.get(day, 0) for day in range(first, last + 1)))
        for first, last in spans
    )


async def _load_flaky(
    tx: Transaction, query: DepartureQuery, policy: Policy | None
) -> dict[FlakyKind, tuple[RerunCount, ...]]:
    """Load the flakes of these queues by kind, the most frequent first, and checks that are listed without one."""
    sums = await tx.statistics.flaky(query)
    if not sums and not (policy and policy.checks.flaky):
        return {"check": (), "job": (), "test": ()}
    length = query.last_day - query.first_day + 1
    before = replace(query, first_day=query.first_day - length, last_day=query.first_day - 1)
    former = {(each.kind, each.name): each.pulls for each in await tx.statistics.flaky(before)}
    people = await tx.statistics.delayed_people(query)
    listed = {} if policy is None else {each.name: each.until for each in policy.checks.flaky}

    def of_kind(kind: FlakyKind) -> tuple[RerunCount, ...]:
        made = [
            RerunCount(
                *(each.name, each.pulls, each.reruns, each.ci_seconds if each.ci_known else None, each.waited),
                runs=each.runs,
                failures=each.failures,
                rate=flake_rate(each.failures, each.runs) if each.runs else None,
                people=None if kind == "test" else people.get((kind, each.name), 0),
                pulls_before=former.get((kind, each.name), 0),
                first_day=date_of(each.first_day),
                jobs=JobFigures(each.ci_minutes, each.ci_cost if each.priced else None) if each.ci_minutes else None,
                listed_until=listed.get(each.name) if kind == "check" else None,
            )
            for each in sums
            if each.kind == kind
        ]
        others = listed.keys() - {each.name for each in made} if kind == "check" else ()
        made += [RerunCount(name, 0, 0, None, 0.0, people=0, listed_until=listed[name]) for name in others]
        return tuple(sorted(made, key=lambda each: (-each.pulls, -each.failures, each.name)))

    return {"check": of_kind("check"), "job": of_kind("job"), "test": of_kind("test")}
