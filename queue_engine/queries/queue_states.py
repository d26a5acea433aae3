"""Load queues as people see them: what runs, what landed, what blocks them, who has to act, and their figures."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil, log2

from queue_engine.config.model import Policy
from queue_engine.core.read_model import serialized
from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.departure import Departure
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.model import Entry, EntryStatus, Queue, TimelineEvent
from queue_engine.domain.reasons import PullRequestActor, Reason
from queue_engine.queries.check_view import RunView, group_runs, load_usual_times, load_usual_times_of
from queue_engine.queries.pull_request_status import whose_move
from queue_engine.queries.queue_status import EntryView, QueueStatus, QueueView, load_durations, load_queue
from queue_engine.queries.train_status import FailingMembers, TrainStatus, train_status
from queue_engine.store import Transaction
from queue_engine.store.departures import DepartureQuery, day_of

MEDIAN_LIMIT = 30 * 60.0
"""Seconds in the queue that half of the landings stay below."""
P95_LIMIT = 2 * 3600.0
"""Seconds in the queue that 95 of 100 landings stay below."""
FAILURES_LIMIT = 0.05
"""The share of failures among the pull requests that landed or failed; cancelled ones do not count."""

MEDIAN, P95 = 0.5, 0.95
"""The shares of the landings that wait at most so long."""
FEWEST = 5
"""The number of last departures below which a queue has no figures."""


@dataclass(frozen=True, slots=True)
class HealthLimit:
    """A figure and its limit. A figure of None is not known, so it exceeds nothing."""

    figure: float | None
    limit: float

    @serialized
    def met(self) -> bool:
        """Whether the figure is below its limit, or not known."""
        return self.figure is None or self.figure < self.limit


@dataclass(frozen=True, slots=True)
class Health:
    """The figures of a queue with their limits; durations are in seconds."""

    median_wait: HealthLimit
    p95_wait: HealthLimit
    failures: HealthLimit
    counted: int
    """How many pull requests landed or failed."""

    @serialized
    def good(self) -> bool:
        """Whether every limit is met."""
        return self.median_wait.met and self.p95_wait.met and self.failures.met

    @property
    def is_known(self) -> bool:
        """Whether any pull request has landed or failed."""
        return self.failures.figure is not None


def health_of(median: float | None, p95: float | None, *, failed: int, left: int) -> Health:
    """Judge figures: the waits of landings in seconds, and how many of the `left` pull requests failed."""
    return Health(
        HealthLimit(median, MEDIAN_LIMIT),
        HealthLimit(p95, P95_LIMIT),
        HealthLimit(failed / left if left else None, FAILURES_LIMIT),
        left,
    )


def health_of_last(waits: Sequence[float], *, failed: int) -> Health:
    """Judge the last departures: the seconds that each landing waited, and how many failed. Few have no figures."""
    left = len(waits) + failed
    if left < FEWEST:
        return replace(health_of(None, None, failed=0, left=0), counted=left)
    ordered = sorted(waits)
    median, p95 = (ordered[ceil(share * len(ordered)) - 1] if ordered else None for share in (MEDIAN, P95))
    return health_of(median, p95, failed=failed, left=left)


@dataclass(frozen=True, slots=True)
class BlockerState:
    """A blocker, since when it holds, and who set it, if a person did."""

    blocker: Blocker
    since: datetime | None
    by: str | None = None

    failing: tuple[FailingCheck, ...] = ()
    """The checks that fail on a red base."""

    @property
    def whose_move(self) -> PullRequestActor:
        """Who can end it."""
        return whose_move(self.blocker.reason)


def blocker_states(queue: Queue, blockers: tuple[Blocker, ...]) -> tuple[BlockerState, ...]:
    return tuple(_state(queue, blocker) for blocker in blockers)


def _state(queue: Queue, blocker: Blocker) -> BlockerState:
    if blocker.recorded and (pause := queue.pause(blocker.reason)) is not None:
        return BlockerState(blocker, pause.since, pause.by)
    if blocker.reason in (Reason.BASE_RED, Reason.TIP_UNTESTED) and queue.red is not None:
        return BlockerState(blocker, queue.red.since, failing=queue.red.failing)
    if queue.stall is not None and blocker.reason in (Reason.CHECKS_NOT_STARTING, Reason.CHECK_NEVER_REPORTED):
        return BlockerState(blocker, queue.stall.since)
    announced = BlockerNotices.from_json(queue.announced)
    same = [each for each in (announced.blockers if announced else ()) if each.announces(blocker)]
    return BlockerState(blocker, min((each.since for each in same if each.since is not None), default=None))


COUNTED = 100
"""How many of the last departures of each queue count."""
PERIOD = timedelta(days=7)
WEEK = 7
"""How many days of landings the overview shows."""


class StateKind(StrEnum):
    """What a queue does at one instant, the first that holds."""

    PAUSED = "paused"
    """A person paused it, on purpose."""
    FROZEN = "frozen"
    """A freeze holds, which ends by itself."""
    BASE_RED = "base_red"
    BLOCKED = "blocked"
    """Something else blocks it."""
    BISECTING = "bisecting"
    """A run of several members failed, and smaller ones look for the cause."""
    TESTING = "testing"
    WAITING = "waiting"
    """Pull requests are queued, and none is tested yet."""
    IDLE = "idle"


_CONDITIONS = {
    Reason.PAUSED_BY_HAND: StateKind.PAUSED,
    Reason.FROZEN: StateKind.FROZEN,
    Reason.BASE_RED: StateKind.BASE_RED,
}
DELIBERATE = frozenset({StateKind.PAUSED, StateKind.FROZEN})
"""What people decided: no fault."""


def condition_of(
    blockers: Sequence[BlockerState], failed: Sequence[FailingMembers], runs: Sequence[RunView], depth: int
) -> StateKind:
    """Return what a queue with these blockers, failed runs, active runs and entries does."""
    if blockers:
        return _CONDITIONS.get(blockers[0].blocker.reason, StateKind.BLOCKED)
    if failed:
        return StateKind.BISECTING
    if runs:
        return StateKind.TESTING
    return StateKind.WAITING if depth else StateKind.IDLE


def next_landing(
    runs: Sequence[RunView],
    waiting: Sequence[Entry],
    blockers: Sequence[Blocker],
    durations: Sequence[timedelta],
    now: datetime,
) -> datetime | None:
    """Return when something lands next, if nothing fails; None if that is not known, or nothing is to land.

    `waiting` are members of runs and entries that wait. `durations` is how long the last landings were at the front.
    """
    moving = [entry for entry in waiting if all(blocker.exempts(entry) for blocker in blockers)]
    numbers = {entry.number for entry in moving}
    ends = [run.ends_at for run in runs if numbers.intersection(run.numbers)]
    if (known := next((at for at in ends if at is not None), None)) is not None or not moving:
        return known
    if len(durations) < FEWEST:
        return None
    return max(now, (moving[0].run.started_at or now) + sorted(durations)[len(durations) // 2])


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue at a glance."""

    view: QueueView
    blockers: tuple[BlockerState, ...]
    runs: tuple[RunView, ...]
    """The active runs, the one with the front first."""
    failed: tuple[FailingMembers, ...]
    """Failed runs whose cause is not found yet."""
    landed: TimelineEvent | None
    week: tuple[int, ...]
    """How many landed on each of the last days in UTC, today last."""
    next_landing: datetime | None

    @property
    def condition(self) -> StateKind:
        """What the queue does."""
        return condition_of(self.blockers, self.failed, self.runs, self.view.depth)

    @property
    def needs_person(self) -> bool:
        """Whether a person has to act before the queue continues."""
        return any(each.whose_move is not PullRequestActor.NONE for each in self.blockers)

    @property
    def waiting(self) -> int:
        """How many entries with room are in no run."""
        return max(0, self.view.depth - len({number for run in self.runs for number in run.numbers}))


@dataclass(frozen=True, slots=True)
class QueueStates:
    """Several queues at a glance, and their sums."""

    states: tuple[QueueState, ...]
    landed_today: int
    """Since midnight in UTC, as `failed_today`."""
    failed_today: int
    median_wait: float | None
    """Seconds in the queue of the landings of the last days, `WEEK` of them; None without any."""

    @property
    def needing(self) -> tuple[QueueState, ...]:
        """The queues that need a person, faults before pauses."""
        found = (each for each in self.states if each.needs_person)
        return tuple(sorted(found, key=lambda each: each.condition in DELIBERATE))

    @property
    def ordered(self) -> tuple[QueueState, ...]:
        """The queues that need a person first, and idle ones last, each by the repository's name."""
        return tuple(sorted(self.states, key=_order))

    @property
    def queued(self) -> int:
        """How many pull requests are queued, with room or without."""
        return sum(each.view.depth + each.view.held for each in self.states)

    @property
    def next_landing(self) -> datetime | None:
        """When something lands next in any of them."""
        return min((each.next_landing for each in self.states if each.next_landing is not None), default=None)


def _order(state: QueueState) -> tuple[bool, bool, str]:
    idle = state.condition is StateKind.IDLE
    return not state.needs_person, idle, state.view.queue.repository.full_name.casefold()


async def load_overview(tx: Transaction, views: Sequence[QueueView], now: datetime) -> QueueStates:
    """Load these queues, in a few statements for all of them."""
    today = day_of(now)
    query = DepartureQuery(today - WEEK + 1, today, frozenset(view.queue.repository.id for view in views))
    left = await tx.statistics.by_queue(query) if views else {}
    keys = [(view.queue.repository.id, view.queue.base_branch) for view in views]
    of_days = range(query.first_day, today + 1)
    weeks = [tuple(left.get((*key, day, EntryStatus.LANDED), 0) for day in of_days) for key in keys]
    landings = sum(map(sum, weeks))
    return QueueStates(
        await _load_states(tx, views, weeks, now),
        sum(week[-1] for week in weeks),
        sum(left.get((*key, today, EntryStatus.FAILED), 0) for key in keys),
        await tx.statistics.waited(query, MEDIAN, among=landings),
    )


async def _load_states(
    tx: Transaction, views: Sequence[QueueView], weeks: Sequence[tuple[int, ...]], now: datetime
) -> tuple[QueueState, ...]:
    busy = [view.queue for view in views if view.depth or view.held]
    running: dict[int, list[Entry]] = defaultdict(list)
    for entry in await tx.entries.in_runs([queue.id for queue in busy]) if busy else ():
        running[entry.queue_id].append(entry)
    with_trains = [queue.id for queue in busy if queue.in_trains]
    trains: dict[int, TrainStatus] = {}
    if with_trains:
        every = await tx.runs.of_queues(with_trains)
        memories = await tx.trains.of_queues(with_trains)
        trains = {
            each: train_status([run for run in every if run.queue_id == each], memories.get(each, {}))
            for each in with_trains
        }
    at_work = [queue for queue in busy if queue.id in running or queue.id in trains]
    usual = await load_usual_times_of(tx, at_work)
    runs = {
        queue.id: group_runs(
            running[queue.id],
            trains[queue.id].runs if queue.id in trains else (),
            usual.get(queue.id, {}),
            now,
        )
        for queue in at_work
    }
    last = (
        await tx.timeline_reads.last_of_queues([view.queue.id for view in views], EntryStatus.LANDED.value)
        if views
        else ()
    )
    landed = {(event.repository_id, event.base_branch): event for event in last}
    return tuple(
        QueueState(
            view,
            blocker_states(view.queue, view.blockers),
            runs.get(view.queue.id, ()),
            trains[view.queue.id].failed if view.queue.id in trains else (),
            landed.get((view.queue.repository.id, view.queue.base_branch)),
            week,
            next_landing(runs.get(view.queue.id, ()), running.get(view.queue.id, ()), view.blockers, (), now),
        )
        for view, week in zip(views, weeks, strict=True)
    )


async def load_health(tx: Transaction, queues: Sequence[Queue], now: datetime) -> dict[int, Health]:
    """Load the health of each of these queues, by the queue's id; pull requests that people dequeued do not count."""
    waits, failed = defaultdict[int, list[float]](list), Counter[int]()
    for record in await tx.timeline_reads.waits(queues, now - PERIOD, limit=COUNTED):
        if record.outcome == EntryStatus.LANDED:
            waits[record.queue_id].append(record.seconds)
        elif record.outcome == EntryStatus.FAILED:
            failed[record.queue_id] += 1
    return {queue.id: health_of_last(waits[queue.id], failed=failed[queue.id]) for queue in queues}


_LEFT_READ = 60
"""Departures that are read; the page shows fewer of each outcome."""

Left = tuple[Departure, TimelineEvent | None]
"""A departure, with its event as far as the timeline keeps it."""


@dataclass(frozen=True, slots=True)
class RunPlace:
    """A failed run with the runs that look for its cause beneath, or an active run."""

    failed: FailingMembers | None = None
    run: RunView | None = None
    children: tuple["RunPlace", ...] = ()
    rest: tuple[int, ...] = ()
    """Suspects of the failed run that no active run tests: the next runs do."""


def run_tree(runs: Sequence[RunView], failed: Sequence[FailingMembers]) -> tuple[RunPlace, ...]:
    """Order runs: each failed run with those that bisect it, each beneath the smallest that it is a part of."""
    groups = sorted(failed, key=lambda each: len(each.members))
    parents: dict[int, int] = {}
    for place, group in enumerate(groups):
        wider = (n for n in range(place + 1, len(groups)) if set(group.members) < set(groups[n].members))
        if (parent := next(wider, None)) is not None:
            parents[place] = parent
    owners: dict[int, list[RunView]] = {}
    others: list[RunPlace] = []
    for run in runs:
        owner = next((n for n, group in enumerate(groups) if group.suspects & run.tested), None)
        if owner is None:
            others.append(RunPlace(run=run))
        else:
            owners.setdefault(owner, []).append(run)

    def node(place: int) -> RunPlace:
        group, its_runs = groups[place], owners.get(place, [])
        parts = [child for child, parent in parents.items() if parent == place]
        found = {number for run in its_runs for number in run.tested}
        found |= {number for part in parts for number in groups[part].members}
        rest = tuple(number for number in group.members if number in group.suspects - found)
        return RunPlace(group, None, (*map(node, parts), *(RunPlace(run=run) for run in its_runs)), rest)

    return (*(node(place) for place in range(len(groups)) if place not in parents), *others)


@dataclass(frozen=True, slots=True)
class QueueRuns:
    """A queue at one instant."""

    status: QueueStatus
    runs: tuple[RunView, ...]
    waiting: tuple[EntryView, ...]
    """Entries with room that are no members of a run, in order."""
    blockers: tuple[BlockerState, ...]
    landed: tuple[Left, ...]
    """The last landings, newest first."""
    ejected: tuple[Left, ...]
    """Pull requests that failed and did not come back, newest first."""
    dequeued: tuple[Left, ...]
    """Pull requests that people dequeued and that did not come back, newest first."""
    landed_today: int
    health: Health
    next_landing: datetime | None
    usual_run: timedelta | None
    """How long a run usually takes; None without history."""

    @property
    def failed(self) -> tuple[FailingMembers, ...]:
        """Failed runs whose cause is not found yet."""
        return () if self.status.trains is None else self.status.trains.failed

    @property
    def condition(self) -> StateKind:
        """What the queue does."""
        return condition_of(self.blockers, self.failed, self.runs, self.status.depth)

    @property
    def tree(self) -> tuple[RunPlace, ...]:
        """Its runs, each failed one with those that look for its cause."""
        return run_tree(self.runs, self.failed)

    @property
    def untouched(self) -> tuple[int, ...]:
        """Entries that are no part of a failed run."""
        suspected = {number for each in self.failed for number in each.members}
        return tuple(view.entry.number for view in self.status.entries if view.entry.number not in suspected)

    @property
    def last_landing(self) -> datetime | None:
        """When the last entry is likely to land."""
        eta = self.waiting[-1].eta if self.waiting else None
        return None if eta is None else eta[0] + (eta[1] - eta[0]) / 2

    def bisection(self, group: FailingMembers, now: datetime) -> tuple[int, datetime | None]:
        """Return about how many runs it takes at worst to find the cause of a failed run, and when that is known."""
        runs = ceil(log2(max(len(group.suspects), 1))) + 1
        ends = [run.ends_at for run in self.runs if group.suspects & run.tested and run.ends_at is not None]
        if self.usual_run is None:
            return runs, None
        return runs, (min(ends) + (runs - 1) * self.usual_run if ends else now + runs * self.usual_run)


async def load_runs(tx: Transaction, queue: Queue, policy: Policy | None, now: datetime) -> QueueRuns:
    status = await load_queue(tx, queue, policy, now)
    repository_id, branch = queue.repository.id, queue.base_branch
    usual = await load_usual_times(tx, repository_id, branch)
    entries = [view.entry for view in status.entries]
    runs = group_runs(entries, status.trains.runs if status.trains else (), usual, now)
    in_runs = {number for run in runs for number in run.numbers}
    left = await tx.timeline_reads.departures(repository_id, branch, limit=_LEFT_READ)
    queued = {entry.number for entry in (*entries, *status.without_room, *status.outside)}
    last = {each.number: (each, event) for each, event in reversed(left) if each.number not in queued}
    gone = sorted(last.values(), key=lambda each: each[0].left_at, reverse=True)
    today = DepartureQuery(day_of(now), day_of(now), frozenset({repository_id}), branch)
    return QueueRuns(
        status,
        runs,
        tuple(view for view in status.entries if view.entry.number not in in_runs),
        blocker_states(queue, status.blockers),
        tuple(each for each in left if each[0].outcome is EntryStatus.LANDED),
        tuple(each for each in gone if each[0].outcome is EntryStatus.FAILED),
        tuple(each for each in gone if each[0].outcome is EntryStatus.CANCELLED),
        sum((await tx.statistics.landings(today)).values()),
        (await load_health(tx, [queue], now))[queue.id],
        next_landing(
            runs, entries, status.blockers, await load_durations(tx, repository_id, branch) if entries else (), now
        ),
        timedelta(seconds=max(usual.values())) if usual else None,
    )
