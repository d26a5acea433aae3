"""Load a queue at one instant: its entries that have room, its blockers, and how many entries wait for room."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, floor

from queue_engine.config.model import Policy
from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.culprit import CulpritRecord
from queue_engine.domain.model import Entry, EntryStatus, Queue
from queue_engine.domain.notice import TrainNotice
from queue_engine.domain.reasons import Reason
from queue_engine.queries.train_status import TrainBlocker, TrainStatus, load_trains
from queue_engine.rules.blockers import blockers_of, is_blocked
from queue_engine.rules.check_progress import count_checks, pending_checks
from queue_engine.rules.depth import with_room
from queue_engine.rules.priority import FairShare, PriorityEffect, delay, share_behind
from queue_engine.store import Transaction

FEWEST = 5
"""The number of landings below which there is no estimate."""

_MINUTE = timedelta(minutes=1)
_STEPS = (
    (timedelta(minutes=10), _MINUTE),
    (timedelta(hours=1), 5 * _MINUTE),
    (timedelta(hours=3), 15 * _MINUTE),
    (timedelta(days=1), timedelta(hours=1)),
    (timedelta.max, timedelta(days=1)),
)
"""The precision of an estimate: up to the first duration, it is rounded to the second one."""

Range = tuple[timedelta, timedelta]


def landing(durations: Sequence[timedelta], *, ahead: int, spent: timedelta) -> Range | None:
    """Return the range in which it is likely to land, counted from now; None while there is too little history.

    `durations` is how long the last landed entries were at the front, and `spent` how long the present front has been
    there. `ahead` is how many entries are before this one. Each of them counts with the middle half of all durations.
    That range is wider than for independent durations, on purpose: a slow day slows all of them.
    """
    if len(durations) < FEWEST:
        return None
    # Imported when needed: it takes 200 kB, and a process at rest computes none.
    from statistics import quantiles

    quick, _, slow = quantiles((duration.total_seconds() for duration in durations), n=4, method="inclusive")
    # A front that has taken longer than most will not necessarily end at once.
    elapsed = min(max(spent, timedelta(0)).total_seconds(), quick)
    lowest, highest = (duration * (ahead + 1) - elapsed for duration in (quick, slow))
    return _rounded(timedelta(seconds=lowest), timedelta(seconds=highest))


def _rounded(low: timedelta, high: timedelta) -> Range:
    """Round the range outwards, by a step that suits its end; the result spans at least one step."""
    step = next(step for most, step in _STEPS if high <= most)
    begin, end = floor(low / step) * step, ceil(high / step) * step
    return begin, max(end, begin + step)


AHEAD_NAMED = 10
"""How many of the pull requests ahead people read by number."""


_CULPRIT_SHOWN = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Position:
    """The position of an entry, counted from 0, among `depth` entries."""

    position: int
    depth: int
    ahead: tuple[int, ...]
    """The pull requests ahead, the front first, at most `AHEAD_NAMED`."""
    eta: tuple[datetime, datetime] | None
    """When the entry is likely to land, unless the queue is blocked; None while the history is too short."""


def position_of(
    entry: Entry, first: Sequence[Entry], durations: Sequence[timedelta], now: datetime, *, depth: int
) -> Position:
    """Compute the position of an entry.

    `first` are the first `AHEAD_NAMED` entries of its queue; empty is enough for the front itself. `durations` is how
    long the last entries that landed were at the front.
    """
    front = first[0] if first else entry
    spent = timedelta(0) if front.run.started_at is None else now - front.run.started_at
    expected = landing(durations, ahead=entry.position, spent=spent)
    return Position(
        entry.position,
        depth,
        tuple(each.number for each in first[:AHEAD_NAMED] if each.position < entry.position),
        None if expected is None else (now + expected[0], now + expected[1]),
    )


async def load_position(tx: Transaction, entry: Entry, now: datetime, *, depth: int) -> Position:
    """Load the position of an entry, without reading the whole queue."""
    most = min(entry.position, AHEAD_NAMED)
    first = await tx.entries.of_queue(entry.queue_id, most=most) if most else ()
    return position_of(entry, first, await load_durations(tx, entry.repository.id, entry.base_branch), now, depth=depth)


async def load_durations(tx: Transaction, repository_id: int, base_branch: str) -> tuple[timedelta, ...]:
    """Load how long the last entries that landed on this branch were at the front."""
    return await tx.timeline.durations(repository_id, base_branch, EntryStatus.LANDED.value, "front")


async def load_delay(tx: Transaction, entry: Entry, now: datetime) -> tuple[int, PriorityEffect]:
    """Load the number of entries in its queue, and the entries that this one delays."""
    entries = await tx.entries.of_queue(entry.queue_id)
    durations = await load_durations(tx, entry.repository.id, entry.base_branch)
    return len(entries), delay(entries, entry, durations, now)


_STORED_ONLY = Policy()
"""A policy that adds no blocker to the stored ones."""

_OF_POLICY = frozenset({Reason.FROZEN, Reason.MISCONFIGURED})
"""Blockers that come from the policy. Without a policy, the last announcement has them."""


@dataclass(frozen=True, slots=True)
class GitHubOutage:
    """GitHub fails: since when, and when IMQ tries again."""

    since: datetime
    next_try: datetime | None
    """None: at once, or under way."""


@dataclass(frozen=True, slots=True)
class EntryBlock:
    """IMQ cannot test or land an entry, and its queue continues without it: why, since when, and until when."""

    reason: Reason
    since: datetime | None
    until: datetime | None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class EntryView:
    """An entry, and why it waits."""

    entry: Entry
    position: Position
    eta: tuple[datetime, datetime] | None
    """When the entry is likely to land; None while it is blocked or GitHub fails."""
    blockers: tuple[Blocker, ...]
    """The blockers of its queue that do not exempt it, the most important first."""
    pending_checks: tuple[str, ...]
    outage: GitHubOutage | None
    deferral: EntryBlock | None
    train: TrainNotice | None = None
    fair_share: FairShare | None = None
    """If entries that joined later are ahead."""

    @property
    def rests(self) -> bool:
        """Whether all its checks have ended while its queue is blocked: nothing runs until the queue continues."""
        run = self.entry.run
        ended = bool(run.completed_checks or run.timings) and not self.pending_checks
        return bool(self.blockers) and self.entry.status is EntryStatus.CHECKING and ended


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far the checks of an active run are: of one entry by its own head, or of several members of a train."""

    process_id: str | None
    """Names the run in reports of its progress: the entry or the candidate; None while the candidate is built."""
    batch_job_id: str | None
    """The candidate, whose CI run tests all members; None: the entry is tested by its own head."""
    members: tuple[int, ...]
    started_at: datetime | None
    done: int
    total: int
    """How many checks IMQ knows, of which `done` have reported."""


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue with the entries that have room in it, the front first."""

    queue: Queue
    entries: tuple[EntryView, ...]
    without_room: tuple[Entry, ...]
    """Entries that wait for room, in order."""
    blockers: tuple[Blocker, ...]
    trains: TrainStatus | None = None
    outside: tuple[Entry, ...] = ()
    """Entries that wait outside the queue until they are ready."""
    culprit: CulpritRecord | None = None
    """The last search for what broke the base, for a week."""

    @property
    def runs(self) -> tuple[RunProgress, ...]:
        """The active runs of trains, oldest first, and then those of one entry each."""
        trains = () if self.trains is None else self.trains.runs
        alone = [view.entry for view in self.entries if not view.entry.run.has_branch]
        begun = [each for each in alone if each.run.started_at is not None]
        return (
            *(
                RunProgress(each.candidate, each.candidate, each.numbers, each.started_at, *count_checks(each))
                for each in trains
            ),
            *(
                RunProgress(each.id, None, (each.number,), each.run.started_at, *count_checks(each.run))
                for each in begun
            ),
        )

    @property
    def fallback(self) -> TrainBlocker | None:
        """Why IMQ tests one entry after the other, if the configuration asks for trains."""
        return None if self.trains is None else self.trains.off

    @property
    def held(self) -> int:
        """How many entries wait for room."""
        return len(self.without_room)

    @property
    def not_ready(self) -> int:
        """How many entries wait outside the queue."""
        return len(self.outside)

    @property
    def depth(self) -> int:
        """The number of entries with room."""
        return len(self.entries)


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue without its entries."""

    queue: Queue
    depth: int
    held: int
    blockers: tuple[Blocker, ...]
    not_ready: int = 0
    """How many entries wait outside the queue until they are ready."""

    @property
    def busy(self) -> bool:
        """Whether the queue has entries or a blocker."""
        return bool(self.depth or self.held or self.not_ready or self.blockers)

    def accepts(self, most: int) -> bool:
        """Return whether one more entry would have room now; `most` is the depth limit, 0 for none."""
        return most == 0 or self.depth + self.held < most


def queue_blockers(queue: Queue, policy: Policy | None, now: datetime) -> tuple[Blocker, ...]:
    """Return the present blockers of a queue, the most important first.

    Without a policy (reading one may take a request to GitHub), only announced freeze windows and broken configurations
    are known.
    """
    if policy is not None:
        return blockers_of(queue, policy, now)
    stored = blockers_of(queue, _STORED_ONLY, now)
    pauses = tuple(blocker for blocker in stored if blocker.recorded)
    return (*pauses, *_announced(queue, now), *(blocker for blocker in stored if not blocker.recorded))


def _announced(queue: Queue, now: datetime) -> Sequence[Blocker]:
    announced = BlockerNotices.from_json(queue.announced)
    return [
        each.blocker()
        for each in (announced.blockers if announced else ())
        if each.reason in _OF_POLICY and not each.recorded and not (each.until is not None and each.until <= now)
    ]


def entry_view(
    queue: Queue,
    entries: Sequence[Entry],
    entry: Entry,
    holding: Sequence[Blocker],
    durations: Sequence[timedelta],
    now: datetime,
    trains: TrainStatus | None = None,
) -> EntryView:
    """Describe one of the entries of a queue with the blockers `holding`."""
    outage = deferral = None
    if entry.run.github_failing_since is not None:
        later = queue.due_at is not None and queue.due_at > now
        outage = GitHubOutage(entry.run.github_failing_since, queue.due_at if later else None)
    if entry.blocked_for is not None and entry.status is EntryStatus.PENDING:
        deferral = EntryBlock(Reason.RUNNERS_BUSY, entry.blocked_since, None, entry.blocked_for)
    elif is_blocked(entry, now):
        deferral = EntryBlock(Reason.WORKFLOWS_PERMISSION, entry.blocked_since, entry.blocked_until)
    blockers = tuple(blocker for blocker in holding if not blocker.exempts(entry))
    position = position_of(entry, entries, durations, now, depth=len(entries))
    return EntryView(
        entry=entry,
        position=position,
        eta=None if blockers or outage or deferral else position.eta,
        blockers=blockers,
        pending_checks=pending_checks(entry.run),
        outage=outage,
        deferral=deferral,
        train=None if trains is None else trains.notice(entry.number),
        fair_share=FairShare(entry.author, 0)
        if trains and trains.yields(entry.number)
        else share_behind(entries, entry),
    )


async def trains_of(tx: Transaction, queue: Queue) -> TrainStatus | None:
    """Load the trains of a queue; None, without a statement, where it has none."""
    return await load_trains(tx, queue.id) if queue.in_trains else None


async def load_queue(tx: Transaction, queue: Queue, policy: Policy | None, now: datetime) -> QueueStatus:
    """Load the stored state of a queue; `queue_blockers` says what happens without a policy."""
    every = await tx.entries.of_queue(queue.id)
    entries = with_room(every, policy) if policy else tuple(each for each in every if each.held_since is None)
    durations = await load_durations(tx, queue.repository.id, queue.base_branch)
    holding = queue_blockers(queue, policy, now)
    trains = await trains_of(tx, queue)
    views = tuple(entry_view(queue, entries, entry, holding, durations, now, trains) for entry in entries)
    outside = await tx.entries.not_ready(queue.id)
    with_it = {entry.id for entry in entries}
    without_room = tuple(entry for entry in every if entry.id not in with_it)
    searches = await tx.culprits.of_queue(queue.id)
    culprit = next((each for each in searches[:1] if each.started > now - _CULPRIT_SHOWN), None)
    return QueueStatus(queue, views, without_room, holding, trains, outside, culprit)


async def load_summaries(
    tx: Transaction, now: datetime, *, repository_id: int | None = None, policies: Mapping[str, Policy] | None = None
) -> tuple[QueueView, ...]:
    """Load every queue, or those of one repository, oldest first; with the policies of its base branches, if given."""
    queues = await (tx.queues.all() if repository_id is None else tx.queues.of_repository(repository_id))
    entries, held = await tx.depths.entries(repository_id), await tx.depths.held(repository_id)
    not_ready = await tx.depths.not_ready(repository_id)
    given = policies or {}
    return tuple(
        QueueView(
            queue,
            entries.get(queue.id, 0),
            held.get(queue.id, 0),
            queue_blockers(queue, given.get(queue.base_branch), now),
            not_ready.get(queue.id, 0),
        )
        for queue in queues
    )
