"""Derive a departure from the events of its entry and of its queue. Pure functions.

Each instant in the queue counts for one thing: a red base, else a pause, else what the entry's own status says. So the
parts add up to the whole. An event that seems to have happened before an earlier one, after a clock was set, counts as
simultaneous with it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from types import MappingProxyType

from queue_engine.domain.departure import Departure, RerunCheck, WaitKind
from queue_engine.domain.failing_check import FailingCheck
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.domain.timeline_event import TimelineEvent

_WAITS = frozenset({"queued", "held", "preempted", EntryStatus.PENDING})
"""Events after which an entry waits behind others."""
_PHASES = {
    **dict.fromkeys(_WAITS, WaitKind.CAPACITY),
    EntryStatus.CHECKING: WaitKind.CHECKS,
    **dict.fromkeys((EntryStatus.UPDATING, EntryStatus.READY, "blocked"), WaitKind.OTHER),
}


@dataclass(frozen=True, slots=True)
class _Phase:
    start: datetime
    end: datetime
    kind: WaitKind


@dataclass(frozen=True, slots=True)
class _Hold:
    """A blocker of the queue, from its beginning to its end."""

    start: datetime
    end: datetime
    reason: Reason | None

    def holds(self, at: datetime, phase: WaitKind) -> bool:
        # An entry whose checks do not start is in its checks; only the others wait for an administrator.
        waits = phase is WaitKind.CAPACITY or self.reason is not Reason.CHECKS_NOT_STARTING
        return self.start <= at < self.end and waits


def exempted(entry: Entry) -> frozenset[Reason]:
    """Return the blockers under which this entry proceeds."""
    exempt = {Reason.BASE_RED: entry.fixes_base, Reason.FROZEN: entry.freeze_exempt}
    return frozenset(reason for reason, holds_not in exempt.items() if holds_not)


def departure_of(
    end: TimelineEvent,
    own: Sequence[TimelineEvent],
    of_queue: Sequence[TimelineEvent],
    others_left: Collection[datetime],
    entry: Entry,
    shares: Mapping[int, float] = MappingProxyType({}),
) -> Departure:
    """Derive the departure that the event `end` completes.

    `own` are the events of its pull request, `of_queue` the pauses and resumptions of its queue, both oldest first.
    `others_left` is when other entries left the queue. `shares` are the parts that
    it has of the CI time of each run of a train.
    """
    own = [event for event in own if event.entry_id == end.entry_id and event.id < end.id]
    joined = entry.enqueued_at
    left = max(end.at, joined)
    phases = _phases(own, joined, left, others_left, is_behind=entry.position > 0)
    holds = _holds(of_queue, joined, left, exempted(entry))
    parts = _parts(phases, holds)
    return Departure(
        id=end.id,
        entry_id=end.entry_id or "",
        repository_id=end.repository_id,
        base_branch=end.base_branch,
        number=end.number,
        title=entry.title,
        author=entry.author,
        enqueued_at=joined,
        left_at=left,
        outcome=EntryStatus(end.event),
        reason=end.reason,
        waited=(left - joined).total_seconds(),
        **{kind.value: parts[kind].total_seconds() for kind in WaitKind},
        ci_seconds=_ci_seconds([*own, end], shares),
        reruns=sum(event.event == "rerun" for event in own),
        flaky=_flaky(own),
    )


def _phases(
    own: Sequence[TimelineEvent],
    joined: datetime,
    left: datetime,
    others_left: Collection[datetime],
    *,
    is_behind: bool,
) -> list[_Phase]:
    """Divide the time in the queue by the entry's status; the first entry of a queue waits behind no other."""
    begun = [(joined, WaitKind.CAPACITY)]
    for event in own:
        if (kind := _PHASES.get(event.event)) is None:
            continue
        at = event.at
        if event.event == EntryStatus.READY and (ended := event.data.get("ended")) is not None:
            at = min(at, datetime.fromisoformat(ended))
        begun.append((max(begun[-1][0], min(at, left)), kind))
    begun.append((left, WaitKind.OTHER))
    phases = [_Phase(start, end, kind) for (start, kind), (end, _) in pairwise(begun)]
    first = next((event for event in own if event.event in _WAITS), None)
    was_front = first is not None and first.data.get("position") == 0
    return [
        part
        for index, phase in enumerate(phases)
        for part in _behind(
            phase, others_left, was_front=was_front and index < 2, is_behind=is_behind and phase is phases[-1]
        )
    ]


def _behind(
    phase: _Phase, others_left: Collection[datetime], *, was_front: bool, is_behind: bool
) -> tuple[_Phase, ...]:
    """Divide a wait at the instant from which no other entry was ahead."""
    if phase.kind is not WaitKind.CAPACITY or is_behind:
        return (phase,)
    last = max((at for at in others_left if phase.start < at <= phase.end), default=None)
    if last is None:
        last = phase.start if was_front else phase.end
    return _Phase(phase.start, last, WaitKind.CAPACITY), _Phase(last, phase.end, WaitKind.OTHER)


def _holds(
    of_queue: Iterable[TimelineEvent], joined: datetime, left: datetime, exempt: Collection[Reason]
) -> list[_Hold]:
    """Return when the queue was blocked; a blocker whose beginning is not known began before the entry joined."""
    found: list[_Hold] = []
    open_since: dict[Reason | None, tuple[datetime, datetime]] = {}
    known: set[Reason | None] = set()
    for event in of_queue:
        if event.reason in exempt:
            continue
        began = open_since.pop(event.reason, None)
        if event.event == "paused":
            until = event.data.get("until")
            end = left if until is None else datetime.fromisoformat(until)
            open_since[event.reason] = (began[0] if began else event.at, end)
        elif began is not None:
            found.append(_Hold(began[0], min(event.at, began[1]), event.reason))
        elif event.reason not in known:
            found.append(_Hold(joined, event.at, event.reason))
        known.add(event.reason)
    return [*found, *(_Hold(start, end, reason) for reason, (start, end) in open_since.items())]


def _parts(phases: Iterable[_Phase], holds: Sequence[_Hold]) -> dict[WaitKind, timedelta]:
    parts = dict.fromkeys(WaitKind, timedelta(0))
    edges = {at for hold in holds for at in (hold.start, hold.end)}
    for phase in phases:
        cuts = sorted({phase.start, phase.end, *(at for at in edges if phase.start < at < phase.end)})
        for start, end in pairwise(cuts):
            reasons = {hold.reason for hold in holds if hold.holds(start, phase.kind)}
            kind = WaitKind.PAUSED if reasons else phase.kind
            parts[WaitKind.BASE_RED if Reason.BASE_RED in reasons else kind] += end - start
    return parts


def train_runs(own: Iterable[TimelineEvent]) -> frozenset[int]:
    """Return the runs of trains that tested the entry of these events."""
    return frozenset(run for event in own if "check_seconds" in event.data and (run := event.data.get("run")))


def share_of(number: int, tested: Collection[int]) -> float:
    """Return a member's part of the CI time of a run: those that it tests divide it, so that it counts once."""
    return 1 / len(tested) if number in tested else 0.0


def _ci_seconds(own: Iterable[TimelineEvent], shares: Mapping[int, float]) -> float | None:
    """Add up the seconds of all checks. Of the events of one tested commit the newest has all, but those of reruns."""
    known: dict[object, float] = {}
    for event in own:
        if (seconds := event.data.get("check_seconds")) is not None:
            share = shares.get(event.data.get("run", 0), 1.0)
            known[event.data.get("tested", event.id)] = sum(seconds.values()) * share
    return float(sum(known.values())) if known else None


def _flaky(own: Sequence[TimelineEvent]) -> tuple[RerunCheck, ...]:
    """Return the checks that passed in a rerun, by name."""
    reruns = [event for event in own if event.event == "rerun"]
    found: dict[str, RerunCheck] = {}
    for event in own:
        if event.event == "flaky":
            of_head = [each for each in reruns if _of_one_head(each, event)]
            passed = next((each for each in own if each.event == EntryStatus.READY and each.at == event.at), event)
            for name in event.data.get("checks", ()):
                found[name] = _flaky_check(name, of_head, event, passed)
    return tuple(sorted(found.values(), key=lambda each: each.name))


def _flaky_check(name: str, reruns: Sequence[TimelineEvent], flaky: TimelineEvent, passed: TimelineEvent) -> RerunCheck:
    mine = [each for each in reruns if name in each.data.get("checks", ())]
    ended = passed.data.get("ended")
    until = passed.at if ended is None else datetime.fromisoformat(ended)
    waited = max(until - mine[0].at, timedelta(0)) if mine else timedelta(0)
    seconds = [each.data.get("check_seconds", {}).get(name) for each in mine]
    known = [each for each in seconds if each is not None]
    return RerunCheck(
        name=name,
        jobs=_jobs(name, mine, flaky.data["checks"]),
        reruns=len(mine),
        ci_seconds=float(sum(known)) if known else None,
        waited=waited.total_seconds() / max(len(flaky.data["checks"]), 1),
    )


def _jobs(name: str, reruns: Iterable[TimelineEvent], checks: Collection[str]) -> tuple[str, ...]:
    """Return the failed jobs of the check's workflow run; one that is itself among the rerun checks counts there."""
    failing = [each for event in reruns for each in FailingCheck.all_of(event.data) if each.check == name]
    jobs = dict.fromkeys(job for each in failing for job in each.jobs)
    return tuple(job for job in jobs if job == name or job not in checks)


def _of_one_head(rerun: TimelineEvent, flaky: TimelineEvent) -> bool:
    return rerun.id < flaky.id and rerun.data.get("head") == flaky.data.get("head")
