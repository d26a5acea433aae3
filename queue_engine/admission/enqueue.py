"""Queue and move pull requests for callers that wait for the answer.

The same eligibility check applies, and the label on GitHub stays the visible truth: the outbox sets it once the entry
is stored. Changes to queued entries are stored within the caller's transaction, together with the answer.
"""

from dataclasses import dataclass, replace

import structlog

from queue_engine.admission.admit import admit
from queue_engine.admission.case import Case
from queue_engine.admission.enqueue_request import EnqueueRequest
from queue_engine.admission.rejection import RejectionError, assert_may_queue
from queue_engine.domain.entry_order import EntryOrder
from queue_engine.domain.errors import EngineError
from queue_engine.domain.facts import Permission, Snapshot
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Change, Engine
from queue_engine.queries.position import load_delay
from queue_engine.rules.eligibility import Reject
from queue_engine.rules.priority import PriorityEffect

_log = structlog.get_logger("imq.enqueue")

CONTROL_ROLES = frozenset({Permission.MAINTAIN, Permission.ADMIN})
"""The rights of whom may pause, freeze and resume queues, and say what goes first in them."""


class MergePending(EngineError):
    """The merge was asked for: whether the pull request still leaves only GitHub can tell."""


@dataclass(frozen=True, slots=True)
class Queued:
    """Where a pull request stands, and whether it was this call that queued it."""

    entry: Entry
    new: bool


async def enqueue(
    engine: Engine,
    repository: Repository,
    number: int,
    *,
    by: str,
    head_sha: str | None,
    delivery: str | None = None,
    taken: Snapshot | None = None,
    may_wait: bool = False,
) -> Queued:
    """Queue the head that the pull request has now, for this person; only if it is `head_sha`, when that is given.

    `delivery` names the comment or the call that asks: what it has done already is not done again. `taken` is the
    snapshot that the caller has just taken, with this person's permission. Raises RejectionError, GitHubError, and
    SlotsBusy when the queue is full, unless the pull request `may_wait` for room: then nothing is stored.
    """
    async with engine.store.reading() as tx:
        standing = await tx.entries.find(repository.id, number)
    if standing is not None:
        told = None if taken is None else taken.permission
        permission = told or await engine.github.permission(repository, by)
        assert_may_queue(await engine.policies.of(repository, standing.base_branch), by, permission)
        if head_sha not in {None, standing.queued_head, standing.head}:
            raise RejectionError(Reason.HEAD_CHANGED)
        return Queued(standing, new=delivery is not None and standing.delivery == delivery)
    taken, policy = await _read_snapshot(engine, repository, number, by, taken)
    case, head_sha = Case(repository, number, delivery=delivery), head_sha or taken.pull.head_sha
    entry = await admit_labelled(engine, EnqueueRequest(case, by, head_sha, may_wait=may_wait), taken, policy)
    _log.info("queued", repository=repository.full_name, number=number, by=by, position=entry.position)
    return Queued(entry, new=True)


async def requeue(
    engine: Engine, repository: Repository, number: int, *, by: str, head_sha: str | None, delivery: str | None = None
) -> Queued:
    """Take a pull request out and queue its present head again, at the end: consent is renewed, as by `enqueue`.

    It may have to wait for room there. What this `delivery` has done already is done. Raises MergePending, and what
    `enqueue` raises; a pull request that is rejected has left its queue, and is told why there as well.
    """
    async with engine.store.reading() as tx:
        leaving = await tx.entries.find(repository.id, number)
    if leaving is None or (delivery is not None and leaving.delivery == delivery):
        return await enqueue(engine, repository, number, by=by, head_sha=head_sha, delivery=delivery)
    if leaving.merge_requested_at is not None:
        raise MergePending(f"the merge of pull request {number} was asked for")
    taken, policy = await _read_snapshot(engine, repository, number, by)
    if head_sha not in {None, taken.pull.head_sha}:
        raise RejectionError(Reason.HEAD_CHANGED)
    case = Case(repository, number, leaving, delivery)
    request = EnqueueRequest(case, by, taken.pull.head_sha, leaves_for=Reason.UNQUEUED)
    return Queued(await admit_labelled(engine, request, taken, policy), new=True)


async def admit_labelled(engine: Engine, request: EnqueueRequest, taken: Snapshot, policy: Policy) -> Entry:
    """Store the entry of an eligible pull request, and have its label set. Raises what `enqueue` raises."""
    if not policy.has_trigger_label(taken.pull.labels):
        request = replace(request, sets_label=policy.trigger_label)
        taken = replace(taken, pull=replace(taken.pull, labels=taken.pull.labels | {policy.trigger_label}))
    answer = await admit(engine, request, taken, answered=request.leaving is None)
    if isinstance(answer, Entry):
        return answer
    reason, detail = (answer.reason, answer.detail) if isinstance(answer, Reject) else (Reason.LABEL_REMOVED, None)
    raise RejectionError(reason, policy.trigger_label, detail)


@dataclass(frozen=True, slots=True)
class PriorityChange:
    """Where an entry stands by its new priority, of how many, and whom that delays."""

    entry: Entry
    depth: int
    delay: PriorityEffect


async def prioritise(
    change: Change, entry: Entry, priority: int, policy: Policy, *, by: str, delivery: str | None = None
) -> PriorityChange:
    """Give an entry another priority, on behalf of who may steer. Raises StaleRecord if it changed since."""
    tx, now = change.tx, change.now
    placed = entry
    if priority != entry.priority:
        standing = EntryOrder(priority, entry.hotfix, entry.preempts, entry.fixes_base, entry.freeze_exempt)
        placed = await tx.entries.reprioritise(entry, standing, policy.ageing)
        await tx.queues.wake(entry.queue_id, now)
        await change.record(
            "priority", entry, delivery=delivery, data={"by": by, "priority": priority, "position": placed.position}
        )
    return PriorityChange(placed, *await load_delay(tx, placed, now))


async def _read_snapshot(
    engine: Engine, repository: Repository, number: int, by: str, taken: Snapshot | None = None
) -> tuple[Snapshot, Policy]:
    """The pull request and what its base branch goes by, if it is open and this person may queue it. Raises Refused."""
    if taken is None:
        taken = await engine.github.snapshot(repository, number, login=by)
    pull, permission = taken.pull, taken.permission or await engine.github.permission(repository, by)
    taken = replace(taken, permission=permission)
    policy = await engine.policies.of(repository, pull.base_branch)
    assert_may_queue(policy, by, permission)
    if not pull.open:
        raise RejectionError(Reason.MERGED_ELSEWHERE if pull.merged else Reason.CLOSED)
    return taken, policy
