"""Checks of a run as people see them: their states, their links, and how long they take against their usual time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.run import CheckTiming
from queue_engine.queries.queue_status import EntryView
from queue_engine.rules.check_progress import pending_checks, safe_link, usual_seconds
from queue_engine.store import Transaction

_COUNTED = 20
"""How many of the last passed tests give the usual time of a check."""
SLOW_FACTOR = 2
"""A check that has run longer than so many times its usual time is slow."""


class CheckStatus(StrEnum):
    """The state of a check."""

    WAITING = "waiting"
    """Nothing says that the check has started."""
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    REPORTED = "reported"
    """It has ended, and IMQ has not read its result yet."""


@dataclass(frozen=True, slots=True)
class CheckView:
    """One check of a run."""

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


@dataclass(frozen=True, slots=True)
class RunView:
    """A run with its members, the front first, and its checks."""

    members: tuple[EntryView, ...]
    checks: tuple[CheckView, ...]

    @property
    def front(self) -> Entry:
        """The first member: all have the same run."""
        return self.members[0].entry


def check_views(entry: Entry, usual: Mapping[str, float], now: datetime) -> tuple[CheckView, ...]:
    """Describe the checks of the entry's run, by name."""
    run, timings = entry.run, {timing.name: timing for timing in entry.run.timings}
    waiting = set(pending_checks(run))
    names = sorted({*waiting, *run.completed_checks, *timings}) if run.candidate is not None else []
    begun = (entry.run.checks_since or entry.status_since) if entry.head != entry.queued_head else None
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
    entries: Sequence[EntryView], usual: Mapping[str, float], now: datetime
) -> tuple[tuple[RunView, ...], tuple[EntryView, ...]]:
    """Group the members of active runs, in order; returns the runs, and the entries that wait."""
    members: dict[int, list[EntryView]] = {}
    waiting = []
    for view in entries:
        if view.entry.run.id is None:
            waiting.append(view)
        else:
            members.setdefault(view.entry.run.id, []).append(view)
    runs = tuple(RunView(tuple(each), check_views(each[0].entry, usual, now)) for each in members.values())
    return runs, tuple(waiting)


async def load_usual_times(tx: Transaction, repository_id: int, base_branch: str) -> dict[str, float]:
    """Load how many seconds each check of a branch usually takes."""
    ready = EntryStatus.READY.value
    events = await tx.timeline_reads.of_branch(repository_id, base_branch, [ready], limit=_COUNTED)
    return usual_seconds(event.data for event in events)


async def load_slow_checks(
    tx: Transaction, entries: Sequence[Entry], now: datetime
) -> tuple[tuple[Entry, CheckView], ...]:
    """Load the checks of these entries that take more than twice as long as usual."""
    usual: dict[tuple[int, str], dict[str, float]] = {}
    found: list[tuple[Entry, CheckView]] = []
    for entry in entries:
        ended = {timing.name for timing in entry.run.timings if timing.ended is not None}
        if not {*entry.run.pending_checks, *(timing.name for timing in entry.run.timings)} - ended:
            continue
        branch = (entry.repository.id, entry.base_branch)
        if branch not in usual:
            usual[branch] = await load_usual_times(tx, *branch)
        found += ((entry, view) for view in check_views(entry, usual[branch], now) if _is_slow(view))
    return tuple(found)


def _is_slow(view: CheckView) -> bool:
    if view.status not in {CheckStatus.RUNNING, CheckStatus.WAITING} or view.elapsed is None or not view.usual:
        return False
    return view.elapsed > SLOW_FACTOR * view.usual


def _status(timing: CheckTiming, *, pending: bool) -> CheckStatus:
    if timing.ended is not None:
        return CheckStatus.PASSED if timing.passed else CheckStatus.FAILED
    if timing.started is not None:
        return CheckStatus.RUNNING
    return CheckStatus.WAITING if pending else CheckStatus.REPORTED
