"""Load the state of a pull request, and why it waits: its entry, room in its queue, or how it left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypeVar

from queue_engine.config.model import Policy
from queue_engine.core.read_model import INTERNAL, adapter
from queue_engine.domain.culprit import CULPRIT, REVERTED, CulpritOutcome
from queue_engine.domain.departure import Cause, FailingCheckFacts, NewCommits
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.model import EntryStatus, Queue, TimelineEvent, UnmetRequirement, failing_in
from queue_engine.domain.notice import TrainProgress
from queue_engine.domain.reasons import (
    MERGED_REASONS,
    REASONS,
    RETRY_REASONS,
    PullRequestActor,
    Reason,
    ReasonActor,
    WaitReason,
)
from queue_engine.queries.queue_status import (
    EntryView,
    QueueStatus,
    entry_view,
    load_durations,
    load_queue,
    queue_blockers,
    trains_of,
)
from queue_engine.rules.depth import with_room
from queue_engine.rules.priority import FairShare, share_behind
from queue_engine.store import Transaction
from queue_engine.store.rejections import Rejection

HELD, NOT_READY, NOT_QUEUED = "held", "not_ready", "not_queued"
"""The states of a pull request that waits for room, waits outside the queue until it is ready, or is not queued;
otherwise its state is the entry's status."""

_READ_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class QueueHistory:
    """How a pull request last left a queue: it landed, failed, was cancelled, or was refused."""

    event: str
    reason: Reason | None
    detail: str | None
    at: datetime
    base_branch: str | None = None
    head_sha: str | None = None
    """The head that left or was refused, where the event has it."""
    failing: tuple[FailingCheck, ...] = ()
    cause: Cause | None = None
    """Who caused it, if that is known."""
    failure: FailingCheckFacts | None = None
    """For failed checks: what else IMQ knows of them."""
    new_commits: NewCommits | None = None
    """For a departure by a push."""
    blamed: Annotated[float | None, INTERNAL] = None
    """With what probability it broke its base branch as it landed; None: it is not named, or results contradict that.
    """
    revert: Annotated[int | None, INTERNAL] = None
    """The pull request that IMQ opened to revert it."""


@dataclass(frozen=True, slots=True)
class PullRequestStatus:
    """One pull request at one instant, and what has to happen next.

    This is the only answer to "why does it wait", for `/why`, the API, the pages and the command line.
    """

    number: int
    state: str
    base_branch: str | None
    depth: int
    """How many entries have room in that queue."""
    entry: EntryView | None = None
    """Its entry, if that has room."""
    held_behind: int | None = None
    """While the entry waits for room: how many others get room before."""
    unmet: tuple[UnmetRequirement, ...] = ()
    """While its entry waits outside the queue: what the pull request lacks, the most important first."""
    fair_share: FairShare | None = None
    """If entries that joined later are ahead."""
    previous: QueueHistory | None = None
    """If the pull request is not queued: how it last left, if ever."""
    rejected: Rejection | None = None
    """If the pull request is not queued: the last rejected head, since it was last queued or landed."""

    red_checks: tuple[FailingCheck, ...] = ()
    """If the red base blocks its entry: the checks that fail there."""

    @property
    def is_queued(self) -> bool:
        """Whether the pull request has an entry: with room, without, or outside the queue until it is ready."""
        return self.base_branch is not None

    @property
    def outcome(self) -> str | None:
        """How the pull request left its queue (`landed`, `failed`, `cancelled`, `refused`); None if it is queued."""
        return None if self.previous is None else self.previous.event

    @property
    def reason(self) -> Reason | WaitReason:
        """The code for why the pull request waits, or for how it left."""
        if self.entry is not None:
            return _wait_reason(self.entry)
        if self.unmet:
            return self.unmet[0].reason
        if self.is_queued:
            return Reason.QUEUE_FULL
        if self.previous is None:
            return WaitReason.NEVER_QUEUED
        return self.previous.reason or WaitReason.LANDED

    @property
    def detail(self) -> str | None:
        """Details of the reason; may hold text from GitHub or users."""
        if self.entry is not None:
            if self.entry.blockers:
                return self.entry.blockers[0].detail or None
            return None if self.entry.deferral is None else self.entry.deferral.detail
        if self.unmet:
            return self.unmet[0].detail
        return None if self.previous is None else self.previous.detail

    @property
    def whose_move(self) -> PullRequestActor:
        """Who has to act now, so that the pull request lands, or is reverted."""
        broke = self.previous is not None and self.previous.blamed is not None and self.previous.revert is None
        return PullRequestActor.MAINTAINER if broke else whose_move(self.reason)

    @property
    def retry_safe(self) -> bool:
        """Whether the same head may land if it is queued again now, without anybody's act before."""
        return not self.is_queued and self.reason in {*RETRY_REASONS, WaitReason.NEVER_QUEUED}

    @property
    def may_be_queued(self) -> bool:
        """Whether the next call is to queue the pull request; unless `retry_safe`, somebody has to act before."""
        return not self.is_queued and self.reason is not WaitReason.LANDED and self.reason not in MERGED_REASONS

    @property
    def failing(self) -> tuple[FailingCheck, ...]:
        """The failed checks that the reason is about."""
        if self.unmet:
            return failing_in(self.unmet)
        return self.red_checks if self.previous is None else self.previous.failing


@dataclass(frozen=True, slots=True)
class ReplyFacts:
    """What `/why` and `/status` ask for."""

    pull_request: PullRequestStatus
    queue: QueueStatus | None
    """The queue of its base branch; None if it never had one."""
    policy: Policy | None


_ACTORS: Mapping[Reason | WaitReason, PullRequestActor] = {
    WaitReason.BEHIND_OTHERS: PullRequestActor.IMQ,
    WaitReason.NEXT_IN_QUEUE: PullRequestActor.IMQ,
    WaitReason.FINDING_CAUSE: PullRequestActor.IMQ,
    WaitReason.TRAIN_FILLING: PullRequestActor.IMQ,
    WaitReason.UPDATING_BRANCH: PullRequestActor.GITHUB,
    WaitReason.CHECKS_PENDING: PullRequestActor.CI,
    WaitReason.MERGING: PullRequestActor.IMQ,
    WaitReason.GITHUB_FAILING: PullRequestActor.GITHUB,
    WaitReason.NEVER_QUEUED: PullRequestActor.AUTHOR,
    WaitReason.LANDED: PullRequestActor.NONE,
    # Nobody is asked by a comment, but somebody has to act.
    Reason.PAUSED_BY_HAND: PullRequestActor.MAINTAINER,
    Reason.NOT_QUEUED: PullRequestActor.AUTHOR,
    Reason.RUNNERS_BUSY: PullRequestActor.CI,
}
"""Who has to act, where the catalogue of reasons does not say it."""


def whose_move(reason: Reason | WaitReason) -> PullRequestActor:
    """Return who has to act next for a pull request that waits, or left, for this reason."""
    if (actor := _ACTORS.get(reason)) is not None or not isinstance(reason, Reason):
        return actor or PullRequestActor.NONE
    meant = REASONS[reason].next_actor
    return PullRequestActor.NONE if meant is ReasonActor.NONE else PullRequestActor(meant.value)


_STATUS_REASONS: Mapping[EntryStatus, WaitReason] = {
    EntryStatus.UPDATING: WaitReason.UPDATING_BRANCH,
    EntryStatus.CHECKING: WaitReason.CHECKS_PENDING,
    EntryStatus.READY: WaitReason.MERGING,
}


def _wait_reason(view: EntryView) -> Reason | WaitReason:
    if view.blockers:
        return view.blockers[0].reason
    if view.deferral is not None:
        return view.deferral.reason
    if view.outage is not None:
        return WaitReason.GITHUB_FAILING
    if view.train is not None and view.train.progress is TrainProgress.BISECTING:
        return WaitReason.FINDING_CAUSE
    if view.train is not None and view.train.progress is TrainProgress.FILLING:
        return WaitReason.TRAIN_FILLING
    return status_reason(view.entry.status.value, view.entry.position or int(view.fair_share is not None))


def status_reason(status: str, position: int) -> WaitReason:
    """Return what an entry with this status waits for at this position, if nothing blocks it."""
    waiting = WaitReason.BEHIND_OTHERS if position else WaitReason.NEXT_IN_QUEUE
    return {each.value: reason for each, reason in _STATUS_REASONS.items()}.get(status, waiting)


async def load_pull_request(
    tx: Transaction, repository_id: int, number: int, policies: Mapping[str, Policy], now: datetime
) -> PullRequestStatus:
    """Load the stored state of a pull request.

    `policies` are the known policies of base branches; `queue_blockers` says what happens without one.
    """
    queue = await tx.queues.of_pull_request(repository_id, number)
    if queue is None:
        previous = await _load_outcome(tx, repository_id, number)
        rejected = await tx.rejections.find(repository_id, number)
        return PullRequestStatus(number, NOT_QUEUED, None, 0, previous=previous, rejected=rejected)
    return await _of_queue(tx, queue, number, policies.get(queue.base_branch), now)


async def load_reply_facts(
    tx: Transaction, repository_id: int, number: int, base_branch: str, policy: Policy | None, now: datetime
) -> ReplyFacts:
    """Load what a person asks on a pull request with this base branch, of which `policy` is known."""
    policies = {} if policy is None else {base_branch: policy}
    found = await load_pull_request(tx, repository_id, number, policies, now)
    queue = await tx.queues.find(repository_id, base_branch)
    return ReplyFacts(found, None if queue is None else await load_queue(tx, queue, policy, now), policy)


async def _of_queue(
    tx: Transaction, queue: Queue, number: int, policy: Policy | None, now: datetime
) -> PullRequestStatus:
    every = await tx.entries.of_queue(queue.id)
    # Without a policy (it may take a request), the last announcement says which entries wait for room.
    entries = [each for each in every if each.held_since is None] if policy is None else with_room(every, policy)
    entry = next((each for each in every if each.number == number), None)
    if entry is None:
        outside = await tx.entries.find(queue.repository.id, number)
        unmet = () if outside is None else outside.unmet
        return PullRequestStatus(number, NOT_READY, queue.base_branch, len(entries), unmet=unmet)
    behind = entry.position - len(entries)
    if behind >= 0:
        share = share_behind(every, entry)
        return PullRequestStatus(number, HELD, queue.base_branch, len(entries), held_behind=behind, fair_share=share)
    durations = await load_durations(tx, queue.repository.id, queue.base_branch)
    trains = await trains_of(tx, queue)
    view = entry_view(queue, entries, entry, queue_blockers(queue, policy, now), durations, now, trains)
    red = queue.red is not None and view.blockers and view.blockers[0].reason is Reason.BASE_RED
    return PullRequestStatus(
        number,
        entry.status.value,
        queue.base_branch,
        len(entries),
        view,
        fair_share=view.fair_share,
        red_checks=queue.red.failing if red and queue.red is not None else (),
    )


async def _load_outcome(tx: Transaction, repository_id: int, number: int) -> QueueHistory | None:
    """Load how a pull request last left a queue, by its last events: a long history is not read as a whole."""
    before = None
    while True:
        found = await tx.timeline_reads.of_pull_request(repository_id, number, limit=_READ_AT_ONCE, before=before)
        if (outcome := last_outcome(found[::-1])) is not None or len(found) < _READ_AT_ONCE:
            return outcome
        before = found[-1].id


def _cause(event: TimelineEvent) -> Cause | None:
    by, data = event.data.get("dequeued_by"), event.data
    return Cause(by, bool(data.get("by_bot")), data.get("after_update")) if isinstance(by, str) else None


_T = TypeVar("_T")


def _of_data(kind: type[_T], event: TimelineEvent, name: str) -> _T | None:
    data = event.data.get(name)
    return None if data is None else adapter(kind).validate_python(data)


def _since_landing(left: TimelineEvent, newest: Mapping[str, TimelineEvent]) -> tuple[float | None, int | None]:
    """Return with what probability a landing broke its base, and what reverts it, by the newest event of each kind."""
    if left.event != EntryStatus.LANDED:
        return None, None
    named, reverted = newest.get(CULPRIT), newest.get(REVERTED)
    stands = named is not None and named.data.get("outcome") != CulpritOutcome.UNCERTAIN
    return (
        named.data.get("probability") if named is not None and stands else None,
        None if reverted is None else reverted.data["revert"],
    )


def last_outcome(events: Sequence[TimelineEvent]) -> QueueHistory | None:
    """Find how a pull request last left a queue, by its events, oldest first; None if it never did."""
    newest: dict[str, TimelineEvent] = {}
    for event in reversed(events):
        newest.setdefault(event.event, event)
        if event.event == EntryStatus.LANDED or event.reason is not None:
            return QueueHistory(
                event.event,
                event.reason,
                event.data.get("detail"),
                event.at,
                event.base_branch,
                event.data.get("head"),
                FailingCheck.all_of(event.data),
                _cause(event),
                _of_data(FailingCheckFacts, event, "failure"),
                _of_data(NewCommits, event, "new_commits"),
                *_since_landing(event, newest),
            )
    return None
