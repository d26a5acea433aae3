"""Repository, queue, entry, and the statuses of an entry: plain, frozen data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

from pydantic import PlainSerializer

from queue_engine.domain import facts
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import NOT_BEGUN, Run, RunState


@dataclass(frozen=True, slots=True)
class UnmetRequirement:
    """A requirement that the pull request does not meet yet; `detail` may hold text from GitHub or users."""

    reason: Reason
    """One that people remove without a new request: with `when_not_ready: wait` the pull request waits for that."""
    detail: str | None = None
    failing: tuple[FailingCheck, ...] = ()
    """The required checks that fail on the head."""
    cause: str | None = None
    """The part of `detail` that says who caused it: webhooks of that are known for minutes only."""

    def caused(self, cause: str) -> "UnmetRequirement":
        """Return it with who caused it."""
        return replace(self, detail="; ".join(filter(None, (self.detail, cause))), cause=cause)

    def as_data(self) -> list[Any]:
        """Return JSON data: reason and detail, failing checks if there are any, and a cause if one is known."""
        failing = [facts.as_data(self.failing)] if self.failing or self.cause else []
        return [self.reason.value, self.detail, *failing, *filter(None, [self.cause])]

    @classmethod
    def of_data(cls, data: Sequence[Any]) -> "UnmetRequirement":
        """Read what `as_data` returned."""
        reason, detail, *more = data
        failing = more[0] if more else ()
        cause = more[1] if len(more) > 1 else None
        return cls(Reason(reason), detail, tuple(map(FailingCheck.of_data, failing)), cause)

    @classmethod
    def all_of(cls, data: Sequence[Sequence[Any]] | None) -> tuple["UnmetRequirement", ...]:
        """Read what `as_data` returned for each."""
        return tuple(map(cls.of_data, data or ()))


def failing_in(unmet: Sequence[UnmetRequirement]) -> tuple[FailingCheck, ...]:
    """Return the checks that fail, of all requirements."""
    return tuple(check for each in unmet for check in each.failing)


class EntryStatus(StrEnum):
    """The present state of an entry, which follows from its run. Its history is in the timeline."""

    PENDING = "pending"
    UPDATING = "updating"
    CHECKING = "checking"
    READY = "ready"
    LANDED = "landed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @classmethod
    def of(cls, run: Run) -> "EntryStatus":
        """Return the status of an entry with this run, which waits if its run has not begun, or has ended."""
        match run.state:
            case None | RunState.ENDED:
                return cls.PENDING
            case RunState.BUILDING:
                # IMQ changes no head of a train's member.
                return cls.CHECKING if run.has_branch else cls.UPDATING
            case RunState.TESTING:
                return cls.CHECKING
            case RunState.PASSED | RunState.LANDING:
                return cls.READY


_LEAVING = frozenset({EntryStatus.FAILED, EntryStatus.CANCELLED})

TRANSITIONS: Mapping[EntryStatus, frozenset[EntryStatus]] = {
    EntryStatus.PENDING: _LEAVING | {EntryStatus.UPDATING, EntryStatus.CHECKING},
    EntryStatus.UPDATING: _LEAVING | {EntryStatus.PENDING, EntryStatus.CHECKING},
    # Back to updating: the base moved while the checks ran, or between the last check and the merge. Back to checking:
    # at the merge GitHub names a check that IMQ did not know to be required, or that was started again. Back to
    # pending: a hotfix preempts the entry, or IMQ lacks a permission. From updating only when GitHub refused the
    # update: otherwise IMQ binds the requested head first, so that no head remains without an entry.
    EntryStatus.CHECKING: _LEAVING | {EntryStatus.PENDING, EntryStatus.UPDATING, EntryStatus.READY},
    EntryStatus.READY: _LEAVING | {EntryStatus.PENDING, EntryStatus.UPDATING, EntryStatus.CHECKING, EntryStatus.LANDED},
    EntryStatus.LANDED: frozenset(),
    EntryStatus.FAILED: frozenset(),
    EntryStatus.CANCELLED: frozenset(),
}
"""All transitions; `queue_engine.rules.transitions.check_transition` refuses every other.

An entry may leave from each of the four waiting statuses, as `landed` only from `ready`. A merge whose answer was lost
is always found in `ready`, where IMQ requested it.
"""

PROCESSING = frozenset({EntryStatus.UPDATING, EntryStatus.CHECKING, EntryStatus.READY})
"""Statuses that only members of an active run may have."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository as IMQ addresses it. A rename or transfer changes `owner` or `name`, never `id`."""

    id: int
    owner: str
    name: str
    installation_id: int

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner}/{self.name}"


RepositoryName = Annotated[Repository, PlainSerializer(lambda repository: repository.full_name, return_type=str)]
"""A repository that programs get as `owner/name`."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A stored blocker: it holds until somebody lifts it, or until `until`."""

    reason: Reason
    """One of `PAUSES`, and so its slot."""
    detail: str
    since: datetime
    until: datetime | None = None
    by: str | None = None
    """Who paused the queue, if a person did."""

    def has_ended(self, now: datetime) -> bool:
        """Return whether the pause has ended by itself."""
        return self.until is not None and self.until <= now


PAUSES = (
    Reason.INVARIANT_BROKEN,
    Reason.TREE_MISMATCH,
    Reason.PAUSED_BY_HAND,
    Reason.FROZEN,
    Reason.GITHUB_REFUSES,
)
"""The slots of a queue for pauses, the most important first. Each is set and lifted independently.

A broken invariant and repeatedly failing passes share a slot: both are faults of IMQ, and only a person lifts them. A
tree mismatch has its own, because the checks of the landed tip may lift it. IMQ lifts the refusal of an installation
or a repository that is out of order by itself (`queue_engine.planner.github_outage`).
"""

PASSING_PAUSES = frozenset({Reason.FROZEN, Reason.GITHUB_REFUSES})
"""Those that end without a person."""


@dataclass(frozen=True, slots=True)
class RedBase:
    """A required check fails on the base branch itself: which one, on which commit, since when, and the next poll."""

    check: str
    """Its name; of an untested tip: why the tip is untested, empty after a tree mismatch, whose pause says it."""
    tip: str
    since: datetime
    polls: int
    next_poll_at: datetime
    app_id: int | None = None
    """The App that reported the check; a check of another App by the same name does not count."""
    untested: bool = False
    """Whether the result is still unknown: a push by hand, or a train that stopped half-way, made a tip that was never
    tested, and its checks run."""
    rerun: str | None = None
    """The tip whose failed jobs IMQ ran again."""
    failing: tuple[FailingCheck, ...] = ()
    """The checks that fail on the base, with their links."""

    @property
    def is_workflow(self) -> bool:
        """Whether it is no check, but the path of a workflow file of the base whose runs end without a job."""
        return self.check.startswith(".github/workflows/")


NOWHERE = ""
"""In place of the head of a stall: no commit has the checks."""


@dataclass(frozen=True, slots=True)
class Stall:
    """No check starts on the front's head: since when, which checks, and when CI ran on another commit."""

    since: datetime
    head_sha: str
    checks: str
    """The names of the checks, for people to read."""
    ci_active_at: datetime | None = None
    """When a check first reported on another commit of the repository since then. If `never`: when IMQ last looked."""

    @property
    def never(self) -> bool:
        """Whether no commit has the checks, so that no head of this queue can get them."""
        return self.head_sha == NOWHERE

    @property
    def next_poll_at(self) -> datetime | None:
        """When IMQ looks again for checks that no commit had: after an hour, if no event comes."""
        return (self.ci_active_at or self.since) + timedelta(hours=1) if self.never else None


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue of one base branch, as a worker needs it to advance the queue.

    `wake_count` counts wake-ups. A worker that releases the queue compares it with the count at its last read. If the
    queue was woken since, it is due at once, so no webhook is lost between the last read and the release.
    """

    id: int
    repository: Repository
    base_branch: str
    due_at: datetime | None
    wake_count: int
    pauses: tuple[Pause, ...] = ()
    """At most one for each slot of `PAUSES`, in their order; a pause that has ended remains until a pass lifts it."""
    announced: str | None = None
    """The announced blockers, and to which entries: `BlockerNotices` as JSON."""
    red: RedBase | None = None
    """The red base, if the base fails its checks: then only fixes of the base may land."""
    errors: int = 0
    """Passes in a row that ended with an unexpected error."""
    stall: Stall | None = None
    """The stall, while no check starts for the front."""
    generation: int = 0
    """How often configuration or rules of its repository have changed."""
    in_trains: bool = False
    """Whether runs of several members may be stored for it."""
    label_updates: bool = False
    """Whether a pull request for this base branch has got `update_label`, and none was found without any since."""

    def pause(self, reason: Reason) -> Pause | None:
        """Return the pause in this slot."""
        return next((pause for pause in self.pauses if pause.reason is reason), None)


@dataclass(frozen=True, slots=True)
class Entry:
    """Membership of one pull request in a queue, or its wait outside until it is ready (`unmet`).

    `queued_head` is the head with consent. `head_sha` is the same, or IMQ's own update of that head, which IMQ checks
    and merges. IMQ binds an update by its webhook, and proves it by its parents before anything lands (`head_proved`).
    Both outlive a run: a preempted entry keeps the head that IMQ made. `run` has the rest of an attempt.
    """

    id: str
    queue_id: int
    repository: Repository
    base_branch: str
    number: int
    title: str
    author: str
    """Who opened the pull request; of one that IMQ opened, the person who asked for it."""
    queued_by: str
    queued_head: str
    head_sha: str
    enqueued_at: datetime
    status_since: datetime
    priority: int = 0
    seq: int = 0
    position: int = 0
    head_proved: bool = True
    updated_from: str | None = None
    """The head that IMQ updated: `head_sha` is proved if this is its first parent."""
    newer_tip: str | None = None
    """A tip of the base branch that `head_sha` lacks, as far as IMQ knows; None: no such tip is known."""
    needs_refetch: bool = False
    """Whether a webhook says that consent may be lost: IMQ reads the pull request before anything else."""
    version: int = 1
    """Counts its stored changes."""
    arrived: int = 0
    """Milliseconds since 1970, never fewer than of earlier entries: clocks may jump, the order may not."""
    rank: int = 0
    """The order key: `arrived` and `share_delay`, less the head start of the priority. The lowest comes first."""
    share_delay: int = 0
    """By how many milliseconds the entry counts as later, because its author has others in the queue. It counts only
    without a priority above 0."""
    hotfix: bool = False
    """Whether the entry comes before all entries that are no hotfixes, by any rank."""
    preempts: bool = False
    """Whether the entry does not even wait for the entry being processed."""
    fixes_base: bool = False
    """Whether the entry may land while the base is red."""
    freeze_exempt: bool = False
    trusted_labels: tuple[str, ...] = ()
    """The labels that count for priority and method: those at admission, and those that somebody with the right to
    queue has set since."""
    trace: str | None = None
    """The W3C traceparent of the delivery or API call that queued the pull request."""
    delivery: str | None = None
    """The webhook that queued the pull request, if one did."""
    blocked_since: datetime | None = None
    """Since when IMQ lacks a permission to land the entry, or a free runner to test it; its queue continues without
    it."""
    blocked_until: datetime | None = None
    """When IMQ tries again to land the entry, if the permission is not granted before."""
    blocked_for: str | None = None
    """The scarce runners that the entry waits for, in words; None: it waits for the permission."""
    held_since: datetime | None = None
    """Since when the comment says that the entry waits for room; None: the comment says that it has room."""
    shared_head: str | None = None
    """The head branch, if IMQ alone may push to it, or if it is a base of other pull requests: IMQ does not push to it
    where rules protect it."""
    head_branch: str | None = None
    """`owner/name:branch` of the head; None if the fork is deleted."""
    own_check_required: bool = False
    """Whether GitHub merges the pull request only after IMQ's own check has passed on its head."""
    unmet: tuple[UnmetRequirement, ...] = ()
    """What the pull request lacks. While it lacks anything, it waits outside the queue, behind all that are in it."""
    read_at: datetime | None = None
    """When IMQ last read what an entry lacks that is not ready."""
    queued_by_id: int | None = None
    """The number of the account that queued the pull request, which stays if the login changes; None: not known."""
    depends_on: tuple[str, ...] = ()
    """The pull requests that its description named when it joined the queue: they have landed, or land before it."""
    run: Run = NOT_BEGUN
    """The present attempt to land the entry."""

    @property
    def status(self) -> EntryStatus:
        """How far the attempt to land the entry is."""
        return EntryStatus.of(self.run)

    @property
    def is_ready(self) -> bool:
        """Whether the pull request is in the queue, and not outside of it for something that it lacks."""
        return not self.unmet


@dataclass(frozen=True, slots=True)
class QueueFront:
    """The first entry of a queue, and what an idle queue depends on of the others: cheaper than to read them all."""

    entry: Entry
    count: int
    """How many entries the queue has, with this one."""
    others_wait: bool
    """Whether each of the others only waits behind it: pending, without a run or a block, neither hotfix nor held."""


@dataclass(frozen=True)
class EntryOrder:
    """The precedence that `Entries.add` and `Entries.reprioritise` store."""

    priority: int = 0
    hotfix: bool = False
    preempts: bool = False
    fixes_base: bool = False
    freeze_exempt: bool = False


WHOLE_QUEUE = 0
"""In place of a pull request's number: the event concerns a whole queue."""


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """An event of a pull request or, with `number` `WHOLE_QUEUE`, of its queue, and the reason."""

    at: datetime
    event: str
    """The event's name, such as `queued` or `landed`."""
    repository_id: int
    base_branch: str
    number: int
    entry_id: str | None = None
    reason: Reason | None = None
    delivery: str | None = None
    """The webhook that caused the event."""
    data: Mapping[str, Any] = field(default_factory=dict)
    id: int = 0
    """The ascending number in the timeline; 0 until the event is stored."""
