"""Repository, queue, entry, and the statuses of an entry: plain, frozen data."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import NOT_BEGUN, Run


class EntryStatus(StrEnum):
    """Where an entry stands. What happened to it is told by the timeline, never by the status."""

    PENDING = "pending"
    UPDATING = "updating"
    CHECKING = "checking"
    READY = "ready"
    LANDED = "landed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether an entry with this status has left its queue for good."""
        return not TRANSITIONS[self]


_LEAVING = frozenset({EntryStatus.FAILED, EntryStatus.CANCELLED})

TRANSITIONS: Mapping[EntryStatus, frozenset[EntryStatus]] = {
    EntryStatus.PENDING: _LEAVING | {EntryStatus.UPDATING, EntryStatus.CHECKING},
    EntryStatus.UPDATING: _LEAVING | {EntryStatus.PENDING, EntryStatus.CHECKING},
    # Back to updating: the base moved while the checks ran, or between the last check and the merge. Back to checking:
    # GitHub names a check at the merge that was not known to be required, or was started again. Back to pending: a
    # hotfix takes the turn, or IMQ lacks a permission. From updating only when GitHub refused the update: else the head
    # that was asked for is bound first, so that it is nobody's.
    EntryStatus.CHECKING: _LEAVING | {EntryStatus.PENDING, EntryStatus.UPDATING, EntryStatus.READY},
    EntryStatus.READY: _LEAVING | {EntryStatus.PENDING, EntryStatus.UPDATING, EntryStatus.CHECKING, EntryStatus.LANDED},
    EntryStatus.LANDED: frozenset(),
    EntryStatus.FAILED: frozenset(),
    EntryStatus.CANCELLED: frozenset(),
}
"""The only transitions there are; `queue_engine.rules.invariants.check_transition` refuses every other.

An entry may leave (`landed` only from `ready`) from each of the four waiting statuses. A merge found to have
happened although its answer was lost is always found in `ready`, where it was asked for.
"""

PROCESSING = frozenset({EntryStatus.UPDATING, EntryStatus.CHECKING, EntryStatus.READY})
"""Statuses that only members of an active run may have."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository as IMQ addresses it. `id` outlives renames; `owner` and `name` may not."""

    id: int
    owner: str
    name: str
    installation_id: int

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True, slots=True)
class Pause:
    """A blocker that somebody set: it holds until somebody lifts it, or until `until`."""

    reason: Reason
    """One of `PAUSES`: the slot that it takes."""
    detail: str
    since: datetime
    until: datetime | None = None
    by: str | None = None
    """Who paused the queue, if a person did."""

    def has_ended(self, now: datetime) -> bool:
        """Whether the pause is over by itself."""
        return self.until is not None and self.until <= now


PAUSES = (Reason.INVARIANT_BROKEN, Reason.TREE_MISMATCH, Reason.PAUSED_BY_HAND, Reason.FROZEN)
"""The slots of a queue for pauses, the most important first. Each is set and lifted without regard to the others.

A broken invariant and passes that keep failing share a slot: both are faults of IMQ, and only a person lifts them. A
tree mismatch has its own, because the checks of the landed tip may lift it.
"""


@dataclass(frozen=True, slots=True)
class RedBase:
    """A required check fails on the base branch itself: which one, on which commit, since when, and the next look."""

    check: str
    tip: str
    since: datetime
    looks: int
    look_at: datetime
    app_id: int | None = None
    """The App whose report it is; another one's of the same name tells nothing."""
    untested: bool = False
    """Nobody knows that it fails: a push by hand made a tip that was never tested, and its checks have to tell."""
    rerun: str | None = None
    """The tip whose failed jobs were run again."""


@dataclass(frozen=True, slots=True)
class Stall:
    """No check starts on the front's head: since when, which checks, and whether the CI was seen to be up since."""

    since: datetime
    head: str
    checks: str
    """Their names, for people to read."""
    ci_seen_at: datetime | None = None
    """When a check first reported on another commit of the repository since then."""


@dataclass(frozen=True, slots=True)
class Queue:
    """One base branch of one repository, with what is needed to advance it.

    `wake_count` counts the calls for attention; a worker that releases the queue having seen fewer than there are
    makes it due at once, so that no webhook is lost between its last look and its release.
    """

    id: int
    repository: Repository
    base_branch: str
    due_at: datetime | None
    wake_count: int
    pauses: tuple[Pause, ...] = ()
    """At most one for each slot of `PAUSES`, in their order; one that has ended stays until a pass lifts it."""
    announced: str | None = None
    """The blockers that were announced, and to which entries: an `BlockerNotices`, as JSON."""
    red: RedBase | None = None
    """What is known of a base that does not pass its checks; only what mends it is let through."""
    errors: int = 0
    """Passes in a row that ended with an unexpected error."""
    stall: Stall | None = None
    """No check starts for its front."""

    def pause(self, reason: Reason) -> Pause | None:
        """What is in this slot."""
        return next((pause for pause in self.pauses if pause.reason is reason), None)


@dataclass(frozen=True, slots=True)
class Entry:
    """Membership of one pull request in a queue.

    `queued_head` is the head that was consented to; `head` is it or IMQ's own update of it, bound for checking and
    merging. An update is bound on its webhook and proved by its parents before anything lands (`head_proved`). Both
    outlive a run: who waits again after a hotfix keeps the head that IMQ made. The rest of an attempt is in `run`.
    """

    id: str
    queue_id: int
    repository: Repository
    base_branch: str
    number: int
    title: str
    author: str
    queued_by: str
    priority: int
    seq: int
    position: int
    status: EntryStatus
    queued_head: str
    head: str
    head_proved: bool
    updated_from: str | None
    """The head that IMQ's own update started from; the first parent that `head` must have to be proved."""
    newer_tip: str | None
    """A tip of the base branch that `head` lacks, as far as IMQ knows; None: no such tip is known."""
    needs_refetch: bool
    """A webhook says that consent may be gone: the pull request is read before anything else is done."""
    enqueued_at: datetime
    status_since: datetime
    version: int
    arrived: int = 0
    """Milliseconds since 1970, never fewer than of who joined this queue before: clocks may jump, the order not."""
    rank: int = 0
    """Its place: `arrived`, less the head start that its priority gives. The lower comes first."""
    hotfix: bool = False
    """Goes before all that are not, whatever their rank: a hotfix."""
    preempts: bool = False
    """Does not even wait for the one that is being processed."""
    fixes_base: bool = False
    """Is let through while the base is red."""
    freeze_exempt: bool = False
    """Is let through in a freeze."""
    trusted_labels: tuple[str, ...] = ()
    """The labels that may steer it: those that were there when it was queued, and those that somebody who may queue
    has set since."""
    trace: str | None = None
    """The W3C traceparent of the delivery or API call that queued it."""
    delivery: str | None = None
    """The webhook that queued it, if one did."""
    blocked_since: datetime | None = None
    """Since when IMQ lacks a permission to land it; its queue goes on without it."""
    blocked_until: datetime | None = None
    """When IMQ tries again to land it, if nobody grants the permission before."""
    held_since: datetime | None = None
    """Since when people read that it waits for room in a full queue; None: they read that it has room."""
    shared_head: str | None = None
    """Its head branch, if IMQ alone may push to it, or other pull requests are merged into it: IMQ does not push to it
    where rules protect it."""
    run: Run = NOT_BEGUN
    """The attempt that it is a member of."""
