"""Response models of queues and entries."""

from datetime import datetime

from pydantic import Field

from bot.api.answers import StateAnswer, state_fields
from bot.api.payload import AnswerModel
from notifications.render.answer import answer_text
from notifications.render.trains import train_text
from queue_engine.config.model import Policy
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.train_notice import TrainNotice
from queue_engine.domain.unmet_requirement import UnmetRequirement
from queue_engine.queries.pull_request_status import HELD, NOT_READY, PullRequestStatus, QueueHistory
from queue_engine.queries.queue_status import EntryView, QueueStatus
from queue_engine.queries.queue_status import QueueView as Summary
from queue_engine.rules.check_progress import tally
from queue_engine.rules.depth import waits_for_room
from queue_engine.rules.priority import PriorityEffect


class BlockerView(AnswerModel):
    """A blocker of a queue: its reason code, details, and when it ends by itself, if that is known."""

    reason: str
    detail: str
    until: datetime | None

    @classmethod
    def of(cls, blocker: Blocker) -> "BlockerView":
        """Convert a blocker."""
        return cls(reason=blocker.reason.value, detail=blocker.detail, until=blocker.until)


class Landing(AnswerModel):
    """When an entry is likely to land, by earlier landings."""

    earliest: datetime
    latest: datetime


class TrainAnswer(AnswerModel):
    """What a train does with an entry: `state`, in `sentences`.

    `run` tests all `members` in one CI run on `branch`, whose tip is `candidate`; they are null outside of a run.
    `progress` is how many of its checks have reported, such as `3 of 7 checks`. `failed` are the members of the failed
    run that IMQ bisects. `conflict` is the pull request that holds this one back, `conflicts` are those of which one
    does. `suspicion` is the chance from 0 to 1 that this one breaks its run.
    """

    state: str
    sentences: tuple[str, ...]
    run: int | None
    branch: str | None
    candidate: str | None
    members: tuple[int, ...]
    progress: str | None
    failed: tuple[int, ...]
    conflict: int | None
    conflicts: tuple[int, ...]
    suspicion: float | None

    @classmethod
    def of(cls, train: TrainNotice, entry: Entry) -> "TrainAnswer":
        """Convert what a train does with an entry."""
        checks = None if train.run is None else tally(entry)
        return cls(
            state=train.progress.value,
            sentences=tuple(each.replace("`", "") for each in train_text(train, entry.number, entry.base_branch)),
            run=train.run,
            branch=train.branch,
            candidate=train.candidate,
            members=train.members,
            progress=None if checks is None else f"{checks[0]} of {checks[1]} checks",
            failed=train.failed,
            conflict=train.conflict,
            conflicts=train.conflicts,
            suspicion=train.suspicion,
        )


class EntryAnswer(AnswerModel):
    """An entry. `position` counts from 0, `status_since` is when its status began.

    `pending_checks` are the pending checks; `blockers` are the queue's blockers, unless the entry is exempt;
    `outage` is when requests to GitHub began to fail; `train` is what a train does with it, if it does.
    """

    number: int
    title: str
    author: str
    queued_by: str
    position: int
    status: str
    head_sha: str
    priority: int
    hotfix: bool
    enqueued_at: datetime
    status_since: datetime
    pending_checks: tuple[str, ...]
    blockers: tuple[BlockerView, ...]
    outage: datetime | None
    train: TrainAnswer | None
    eta: Landing | None

    @classmethod
    def of(cls, view: EntryView) -> "EntryAnswer":
        """Convert an entry."""
        entry, eta = view.entry, view.eta
        return cls(
            number=entry.number,
            title=entry.title,
            author=entry.author,
            queued_by=entry.queued_by,
            position=view.position.position,
            status=entry.status.value,
            head_sha=entry.head,
            priority=entry.priority,
            hotfix=entry.hotfix,
            enqueued_at=entry.enqueued_at,
            status_since=view.since,
            pending_checks=view.pending_checks,
            blockers=tuple(map(BlockerView.of, view.blockers)),
            outage=None if view.outage is None else view.outage.since,
            train=None if view.train is None else TrainAnswer.of(view.train, entry),
            eta=None if eta is None else Landing(earliest=eta[0], latest=eta[1]),
        )


class QueueSummary(AnswerModel):
    """A queue: its base branch, how many have room, wait for room, and wait until they are ready; what blocks it."""

    branch: str
    depth: int
    held: int
    not_ready: int
    blockers: tuple[BlockerView, ...]

    @classmethod
    def of(cls, found: Summary) -> "QueueSummary":
        """One queue, as of now."""
        return cls(
            branch=found.queue.base_branch,
            depth=found.depth,
            held=found.held,
            not_ready=found.not_ready,
            blockers=tuple(map(BlockerView.of, found.blockers)),
        )


class QueuesAnswer(AnswerModel):
    """The queues of a repository, by their branches."""

    repository: str
    queues: tuple[QueueSummary, ...]


class QueueAnswer(QueueSummary):
    """A queue with its entries, the front first."""

    repository: str
    entries: tuple[EntryAnswer, ...]

    @classmethod
    def full(cls, found: QueueStatus) -> "QueueAnswer":
        """One queue, as of now."""
        return cls(
            branch=found.queue.base_branch,
            depth=found.depth,
            held=found.held,
            not_ready=len(found.not_ready),
            blockers=tuple(map(BlockerView.of, found.blockers)),
            repository=found.queue.repository.full_name,
            entries=tuple(map(EntryAnswer.of, found.entries)),
        )


class LastOutcome(AnswerModel):
    """How a pull request last left a queue: landed, failed or cancelled; or that it was rejected."""

    event: str
    reason: str | None
    detail: str | None
    at: datetime

    @classmethod
    def of(cls, history: QueueHistory) -> "LastOutcome":
        """Convert the last outcome."""
        reason = None if history.reason is None else history.reason.value
        return cls(event=history.event, reason=reason, detail=history.detail, at=history.at)


class FairShare(AnswerModel):
    """Why entries that joined later are ahead: the author has so many here; 0 for one of many bots and agents."""

    author: str
    pull_requests: int


class UnmetAnswer(AnswerModel):
    """A requirement that a pull request does not meet yet."""

    reason: str
    sentence: str
    detail: str | None

    @classmethod
    def of(cls, unmet: UnmetRequirement, base: str | None, policy: Policy | None) -> "UnmetAnswer":
        """Convert an unmet requirement."""
        text = answer_text(unmet.reason, base=base, policy=policy, awaited=True)
        return cls(reason=unmet.reason.value, sentence=text.sentence, detail=unmet.detail)


class WhyAnswer(StateAnswer):
    """The status of a pull request: its entry, if that has room; how many entries get room before it, if it is held.

    `state` is the entry's status, `held`, `not_ready`, or `not_queued`. `unmet` is what a pull request lacks that is
    not ready, the most important first.
    """

    repository: str
    number: int
    queue: str | None
    depth: int
    entry: EntryAnswer | None
    held_behind: int | None
    fair_share: FairShare | None
    unmet: tuple[UnmetAnswer, ...] = ()
    last: LastOutcome | None
    version: str = Field("", description="Changes with the answer, but not with its estimates.")

    @classmethod
    def of(cls, repository: Repository, found: PullRequestStatus, policy: Policy | None = None) -> "WhyAnswer":
        """Convert a pull request's status."""
        return cls(
            **state_fields(found, repository, policy),
            repository=repository.full_name,
            number=found.number,
            queue=found.base_branch,
            depth=found.depth,
            entry=None if found.entry is None else EntryAnswer.of(found.entry),
            held_behind=found.held_behind,
            fair_share=None if found.share is None else FairShare(author=found.share[0], pull_requests=found.share[1]),
            unmet=tuple(UnmetAnswer.of(each, found.base_branch, policy) for each in found.unmet),
            last=None if found.previous is None else LastOutcome.of(found.previous),
        )


class Delays(AnswerModel):
    """The pull requests that a priority delays, and for about how many seconds each, if that is known.

    `preempts` is the preempted entry.
    """

    numbers: tuple[int, ...]
    seconds: int | None
    preempts: int | None

    @classmethod
    def of(cls, delay: PriorityEffect) -> "Delays":
        """Convert the effect of a priority."""
        seconds = None if delay.by is None else round(delay.by.total_seconds())
        return cls(numbers=delay.numbers, seconds=seconds, preempts=delay.preempts)


class QueuedAnswer(StateAnswer):
    """A queued pull request; `position` counts from 0.

    For a held one `position` is null and `status` is `held`; for one that is not ready, `not_ready`. `delays` is the
    effect of a priority that was set.
    """

    repository: str
    queue: str
    number: int
    position: int | None
    status: str
    head_sha: str
    queued_by: str
    priority: int
    delays: Delays | None = None

    @classmethod
    def of(cls, entry: Entry, policy: Policy, found: PullRequestStatus, delays: Delays | None = None) -> "QueuedAnswer":
        """Convert an entry, with the state of its pull request."""
        held = entry.is_ready and waits_for_room(entry.position, policy)
        outside = HELD if held else NOT_READY if not entry.is_ready else None
        return cls(
            **state_fields(found, entry.repository, policy),
            repository=entry.repository.full_name,
            queue=entry.base_branch,
            number=entry.number,
            position=entry.position if outside is None else None,
            status=outside or entry.status.value,
            head_sha=entry.head,
            queued_by=entry.queued_by,
            priority=entry.priority,
            delays=delays,
        )


class DequeuedAnswer(StateAnswer):
    """Whether the pull request was dequeued; if not, its merge has started."""

    repository: str
    number: int
    left: bool
