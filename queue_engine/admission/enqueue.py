"""Queue, move and dequeue pull requests for callers that wait for the answer.

The same eligibility check applies as for labels, and the outbox sets the label on GitHub once the entry is stored.
Changes to queued entries are stored within the caller's transaction, together with the answer.

The label of a dequeued pull request comes off as well. While GitHub merges, the label does not count, so that IMQ does
not retry a merge that fails.
"""

from dataclasses import dataclass, replace

from queue_engine.admission.admit import admit
from queue_engine.admission.case import Case, EnqueueRequest
from queue_engine.admission.head_consent import last_departure
from queue_engine.admission.rejection import RejectionError, assert_may_queue
from queue_engine.config.model import Policy
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.errors import EngineError
from queue_engine.domain.facts import Permission, Snapshot
from queue_engine.domain.model import Entry, EntryOrder, TimelineEvent
from queue_engine.domain.reasons import Reason
from queue_engine.effects import notices, record
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.labels import queued_by
from queue_engine.queries.queue_status import load_delay
from queue_engine.rules.eligibility import Reject
from queue_engine.rules.priority import PriorityEffect

CONTROL_ROLES = frozenset({Permission.MAINTAIN, Permission.ADMIN})
"""The permissions that allow to pause, freeze and resume queues, and to set priorities."""


class MergePending(EngineError):
    """IMQ has requested the merge, so GitHub decides whether the pull request still leaves."""


@dataclass(frozen=True, slots=True)
class Queued:
    """The entry of a pull request, its policy, and whether this call queued it."""

    entry: Entry
    policy: Policy
    new: bool


async def enqueue(
    engine: Engine,
    case: Case,
    *,
    by: str,
    head_sha: str | None,
    taken: Snapshot | None = None,
    may_wait: bool = False,
    source: ConsentKind = ConsentKind.CALL,
    order: EntryOrder | None = None,
) -> Queued:
    """Queue the present head of a pull request on behalf of this person, or only `head_sha`, if given.

    The case names the comment or API call, so that a repetition changes nothing. `taken` is a snapshot that the caller
    has just read, with this person's permission. Raises RejectionError, GitHubError, and SlotsBusy when the queue is
    full, unless the pull request `may_wait` for room: then nothing is stored.
    """
    if (entry := case.entry) is None:
        taken, case = await _read_snapshot(engine, case, by, taken)
        head = head_sha or taken.pull.head_sha
        return await _admit(
            engine, EnqueueRequest(case, by, head, may_wait=may_wait, source=source, order=order), taken
        )
    permission = None if taken is None else taken.permission
    policy = (await case.with_policy(engine, entry.base_branch)).policy
    assert_may_queue(policy, by, permission or await engine.github.permission(case.repository, by))
    if head_sha not in {None, entry.queued_head, entry.head_sha}:
        raise RejectionError(Reason.HEAD_CHANGED)
    return Queued(entry, policy, new=_is_own(entry, case))


async def requeue(
    engine: Engine,
    case: Case,
    *,
    by: str,
    head_sha: str | None,
    taken: Snapshot | None = None,
    source: ConsentKind = ConsentKind.CALL,
) -> Queued:
    """Dequeue a pull request and queue its present head at the end, with new consent as by `enqueue`.

    The entry may wait for room there. A repeated comment or call changes nothing. Raises MergePending, and the errors
    of `enqueue`. A rejected pull request has left its queue, and its comment says why.
    """
    if (entry := case.entry) is None or _is_own(entry, case):
        return await enqueue(engine, case, by=by, head_sha=head_sha, taken=taken, source=source)
    if entry.run.merge_requested_at is not None:
        raise MergePending(f"the merge of pull request {case.number} was asked for")
    taken, case = await _read_snapshot(engine, case, by, taken)
    if head_sha not in {None, taken.pull.head_sha}:
        raise RejectionError(Reason.HEAD_CHANGED)
    request = EnqueueRequest(case, by, taken.pull.head_sha, source=source, leaves_for=Reason.UNQUEUED)
    return await _admit(engine, request, taken)


def _is_own(entry: Entry, case: Case) -> bool:
    """Return whether this very comment or call queued the pull request."""
    return case.delivery is not None and entry.delivery == case.delivery


async def _admit(engine: Engine, request: EnqueueRequest, taken: Snapshot) -> Queued:
    """Store the entry of an eligible pull request, and set its label. Raises the errors of `enqueue`."""
    policy = request.case.policy
    if not policy.has_trigger_label(taken.pull.labels):
        request = replace(request, sets_label=policy.trigger_label)
        taken = replace(taken, pull=replace(taken.pull, labels=taken.pull.labels | {policy.trigger_label}))
    answer = await admit(engine, request, taken, answered=request.leaves_for is None)
    if not isinstance(answer, Entry):
        reason, detail = (answer.reason, answer.detail) if isinstance(answer, Reject) else (Reason.LABEL_REMOVED, None)
        raise RejectionError(reason, policy.trigger_label, detail)
    return Queued(answer, policy, new=True)


@dataclass(frozen=True, slots=True)
class PriorityChange:
    """An entry with its new position, the depth of the queue, and the entries that it delays."""

    entry: Entry
    depth: int
    delay: PriorityEffect


async def prioritise(
    change: Change, entry: Entry, priority: int, policy: Policy, *, by: str, delivery: str | None = None
) -> PriorityChange:
    """Give an entry another priority, on behalf of a maintainer. Raises StaleRecord if the entry changed since."""
    tx, now = change.tx, change.now
    placed = entry
    if priority != entry.priority:
        order = EntryOrder(priority, entry.hotfix, entry.preempts, entry.fixes_base, entry.freeze_exempt)
        placed = await tx.entries.reprioritise(entry, order, policy.priority.ageing)
        await tx.queues.wake(entry.queue_id, now)
        await change.record(
            "priority", entry, delivery=delivery, data={"by": by, "priority": priority, "position": placed.position}
        )
    return PriorityChange(placed, *await load_delay(tx, placed, now))


async def _read_snapshot(engine: Engine, case: Case, by: str, taken: Snapshot | None = None) -> tuple[Snapshot, Case]:
    """Read an open pull request that this person may queue, and its policy. Raises RejectionError for others."""
    if taken is None:
        taken = await engine.github.snapshot(case.repository, case.number, login=by)
    pull, permission = taken.pull, taken.permission or await engine.github.permission(case.repository, by)
    case = await case.with_policy(engine, pull.base_branch)
    assert_may_queue(case.policy, by, permission)
    if not pull.open:
        raise RejectionError(Reason.MERGED_ELSEWHERE if pull.merged else Reason.CLOSED)
    return replace(taken, permission=permission), case


class NotQueued(EngineError):
    """The pull request is not queued."""


@dataclass(frozen=True, slots=True)
class DequeuePermission:
    """The permission to dequeue a pull request: its case, with its policy."""

    case: Case
    by: str
    """The login of the requester."""
    left: TimelineEvent | None = None
    """How shadow mode dequeued it before: its consent counts again once IMQ may write, unless it is withdrawn."""


async def authorize_dequeue(engine: Engine, case: Case, *, by: str, taken: Snapshot | None = None) -> DequeuePermission:
    """Permit an author, or who may queue, to dequeue. Raises RejectionError, NotQueued and GitHubError."""
    queued: Entry | TimelineEvent | None = case.entry
    if queued is None:
        async with engine.store.reading() as tx:
            queued = last_departure(await tx.timeline.of_pull_request(case.repository.id, case.number))
        if queued is None or queued.reason is not Reason.SHADOW_MODE:
            raise NotQueued(f"pull request {case.number} is not queued")
        taken = taken or await engine.github.snapshot(case.repository, case.number, login=by)
    case = await case.with_policy(engine, queued.base_branch)
    author = queued.author if taken is None and isinstance(queued, Entry) else taken.pull.author if taken else ""
    if author.casefold() != by.casefold():
        permission = None if taken is None else taken.permission
        assert_may_queue(case.policy, by, permission or await engine.github.permission(case.repository, by))
    return DequeuePermission(case, by=by, left=None if isinstance(queued, Entry) else queued)


async def dequeue_by_user(change: Change, permitted: DequeuePermission) -> bool:
    """Dequeue a pull request, and its label; False while its merge is under way. Raises NotQueued."""
    tx, now, case = change.tx, change.now, permitted.case
    repository, number, policy = case.repository, case.number, case.policy
    entry = await tx.entries.find(repository.id, number)
    if entry is None and (left := permitted.left) is not None:
        why = DequeueReason(Reason.UNQUEUED, delivery=case.delivery, by=permitted.by)
        await record.withdraw(change, repository, left, why, policy)
        return True
    if entry is None:
        raise NotQueued(f"pull request {number} is not queued")
    if entry.run.merge_requested_at is None:
        why = DequeueReason(Reason.UNQUEUED, delivery=case.delivery, by=permitted.by)
        await record.dequeue(change, entry, why, policy)
        return True
    # If GitHub refuses the merge, IMQ checks consent again: then no label that queued the pull request counts.
    queuing = await queued_by(tx, repository.id, number, entry.trusted_labels, policy)
    trusted = tuple(label for label in entry.trusted_labels if label not in queuing)
    await tx.entries.save(replace(entry, needs_refetch=True, trusted_labels=trusted))
    await notices.remove_label(change, repository, number, policy, also=queuing)
    await tx.queues.wake(entry.queue_id, now)
    return False
