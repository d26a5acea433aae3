"""Checks of a run as people see them: their states, their links, and how long they take against their usual time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from queue_engine.domain.model import Entry, EntryStatus, Queue
from queue_engine.domain.run import CheckTiming, Run, RunState
from queue_engine.rules.check_progress import checks_begun, count_checks, pending_checks, safe_link, usual_seconds
from queue_engine.store import Transaction

_COUNTED = 20
"""How many of the last passed tests give the usual time of a check."""
SLOW_FACTOR = 2
"""A check that has run longer than so many times its usual time is slow."""


class CheckStatus(StrEnum):
    WAITING = "waiting"
    """Nothing says that the check has started."""
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    REPORTED = "reported"
    """It has ended, and IMQ has not read its result yet."""


@dataclass(frozen=True, slots=True)
class CheckView:
    name: str
    status: CheckStatus
    url: str | None
    """Its page, an address of the web without credentials."""
    elapsed: timedelta | None
    """How long the check ran, or has run until now; None if nothing says since when.

    No webhook says when a check of IMQ's own update starts. While it waits, this is the time since that update, with
    which its usual time begins as well.
    """
    usual: timedelta | None
    """How long it usually takes on this branch; None while there is no history."""

    @property
    def share(self) -> float | None:
        """How much of its usual time has passed, at most 1; None where nothing says that."""
        if self.elapsed is None or not self.usual:
            return None
        return min(self.elapsed / self.usual, 1.0)

    @property
    def is_under_way(self) -> bool:
        """Whether the check has not ended, as far as IMQ knows."""
        return self.status in {CheckStatus.RUNNING, CheckStatus.WAITING}

    @property
    def is_slow(self) -> bool:
        """Whether the check has not ended after more than twice its usual time."""
        if not self.is_under_way or self.elapsed is None or not self.usual:
            return False
        return self.elapsed > SLOW_FACTOR * self.usual


@dataclass(frozen=True, slots=True)
class RunView:
    """A run with its members, the front first, its checks, and how far it is."""

    id: int | None
    """The number of a run of several members; None: the pull request is tested by its own head."""
    numbers: tuple[int, ...]
    """The members that have not landed, in order."""
    tested: frozenset[int]
    """Those that the run was started for; the others are only beneath them."""
    state: RunState
    started_at: datetime | None
    candidate: str | None
    """The commit under test."""
    checks: tuple[CheckView, ...]
    ends_at: datetime | None
    """When its checks have ended, if they take their usual time; None while there is no history."""
    share: float | None
    """How much of its time has passed, at most 1, or of its checks where no history says that; None if unknown."""

    @property
    def slow(self) -> CheckView | None:
        """The first of its checks that takes more than twice its usual time."""
        return next((each for each in self.checks if each.is_slow), None)

    @property
    def have_ended(self) -> bool:
        """Whether all checks that IMQ knows have ended, so that IMQ is about to read their results."""
        return bool(self.checks) and not any(each.is_under_way for each in self.checks)


def check_views(entry: Entry, usual: Mapping[str, float], now: datetime) -> tuple[CheckView, ...]:
    """Describe the checks of the entry's run, by name."""
    return _views(entry.run, checks_begun(entry), usual, now)


def _views(run: Run, begun: datetime | None, usual: Mapping[str, float], now: datetime) -> tuple[CheckView, ...]:
    timings, waiting = {timing.name: timing for timing in run.timings}, set(pending_checks(run))
    names = sorted({*waiting, *run.completed_checks, *timings}) if run.candidate is not None else []
    views = []
    for name in names:
        timing = timings.get(name, CheckTiming(name))
        status = _status(timing, pending=name in waiting)
        started = timing.started or (None if status is CheckStatus.REPORTED else begun)
        elapsed = None if started is None else max((timing.ended or now) - started, timedelta(0))
        seconds = usual.get(name)
        views.append(
            CheckView(
                name, status, safe_link(timing.url), elapsed, None if seconds is None else timedelta(seconds=seconds)
            )
        )
    return tuple(views)


def group_runs(
    entries: Sequence[Entry], trains: Sequence[Run], usual: Mapping[str, float], now: datetime
) -> tuple[RunView, ...]:
    """Describe the active runs of a queue, the one with its front first: those of `trains`, and of one entry each."""
    place = {entry.number: entry.position for entry in entries}
    runs = [_of_train(run, usual, now) for run in trains]
    runs += [_of_entry(entry, usual, now) for entry in entries if not entry.run.has_branch and entry.run.id is not None]
    first = {id(run): min((place.get(number, len(place)) for number in run.numbers), default=0) for run in runs}
    return tuple(sorted(runs, key=lambda run: first[id(run)]))


def _of_entry(entry: Entry, usual: Mapping[str, float], now: datetime) -> RunView:
    # The merge follows the checks at once.
    state = RunState.LANDING if entry.run.has_passed else entry.run.state or RunState.BUILDING
    return _run_view(entry.run, state, checks_begun(entry), (entry.number,), usual, now)


def _of_train(run: Run, usual: Mapping[str, float], now: datetime) -> RunView:
    assert run.state is not None
    numbers = tuple(each.number for each in run.members if each.landed_sha is None)
    return _run_view(run, run.state, run.checks_since or run.published_at, numbers, usual, now)


def _run_view(
    run: Run,
    state: RunState,
    begun: datetime | None,
    numbers: tuple[int, ...],
    usual: Mapping[str, float],
    now: datetime,
) -> RunView:
    checks = _views(run, begun, usual, now)
    ends_at = now + left if (left := _left(run, state, checks, usual)) is not None else None
    return RunView(
        id=run.id if run.has_branch else None,
        numbers=numbers,
        tested=run.tested or frozenset(numbers),
        state=state,
        started_at=run.started_at,
        candidate=run.candidate,
        checks=checks,
        ends_at=ends_at,
        share=_share(run, state, ends_at, now),
    )


def _left(run: Run, state: RunState, checks: Sequence[CheckView], usual: Mapping[str, float]) -> timedelta | None:
    """Return how long the checks that a run waits for still take, by their usual times; None without history."""
    if state not in (RunState.BUILDING, RunState.TESTING):
        return timedelta(0)
    if not checks:
        return timedelta(seconds=max(usual.values())) if usual else None
    waited = set(pending_checks(run))
    under_way = [each for each in checks if each.is_under_way and (not waited or each.name in waited)]
    known = [each.usual - (each.elapsed or timedelta(0)) for each in under_way if each.usual is not None]
    if under_way and not known:
        return None
    return max((*known, timedelta(0)))


def _share(run: Run, state: RunState, ends_at: datetime | None, now: datetime) -> float | None:
    if state is RunState.BUILDING:
        return 0.0
    since = run.checks_since or run.started_at
    if ends_at is not None and since is not None and ends_at > since:
        return min((now - since) / (ends_at - since), 1.0)
    done, total = count_checks(run)
    return done / total if total else None


async def load_usual_times(tx: Transaction, repository_id: int, base_branch: str) -> dict[str, float]:
    """Load how many seconds each check of a branch usually takes."""
    ready = EntryStatus.READY.value
    events = await tx.timeline_reads.of_branch(repository_id, base_branch, [ready], limit=_COUNTED)
    return usual_seconds(event.data for event in events)


async def load_usual_times_of(tx: Transaction, queues: Sequence[Queue]) -> dict[int, dict[str, float]]:
    """Load the same for each of these queues, by its id, in a few statements for all of them."""
    found = await tx.timeline_reads.last_of_each(queues, EntryStatus.READY.value, limit=_COUNTED)
    return {queue_id: usual_seconds(every) for queue_id, every in found.items()}


def _status(timing: CheckTiming, *, pending: bool) -> CheckStatus:
    if timing.ended is not None:
        return CheckStatus.PASSED if timing.passed else CheckStatus.FAILED
    if timing.started is not None:
        return CheckStatus.RUNNING
    return CheckStatus.WAITING if pending else CheckStatus.REPORTED
