"""Queue and move pull requests for callers that wait for the answer.

The same eligibility check applies, and the label on GitHub stays the visible truth: it is set as part of the call.
What the label means is stored before it is set: if the process dies in between, the pull request joins. Changes to
queued entries are stored within the caller's transaction, together with the answer.
"""

from dataclasses import dataclass, replace

import structlog

from queue_engine.admission.admit import admit, judged
from queue_engine.admission.case import Case
from queue_engine.admission.enqueue_request import EnqueueRequest
from queue_engine.admission.entries import keep_consent
from queue_engine.admission.rejection import RejectionError, assert_may_queue
from queue_engine.admission.required_facts import requirements_of
from queue_engine.core.concurrency.slots import SlotsBusy
from queue_engine.domain.entry_order import EntryOrder
from queue_engine.domain.errors import EngineError, GitHubError, Unavailable
from queue_engine.domain.facts import Permission, PullRequest, Snapshot
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.queue_depth import hold, occupied_slots
from queue_engine.queries.position import load_delay
from queue_engine.rules.eligibility import Hold, Reject
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
) -> Queued:
    """Queue the head that the pull request has now, for this person; only if it is `head_sha`, when that is given.

    `delivery` names the comment or the call that asks: what it has done already is not done again. `taken` is the
    snapshot that the caller has just taken, with this person's permission. Raises Refused, SlotsBusy (nothing is held
    then, and no label set) and GitHubError. After Unavailable it may join all the same, and within the minute.
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
    pull = taken.pull
    request = EnqueueRequest(Case(repository, number, delivery=delivery), by, head_sha or pull.head_sha)
    labelled = replace(taken, pull=with_label(pull, policy))
    waited = await _reserve_slot(engine, request, labelled, policy)
    try:
        await add_label(engine, repository, pull, policy)
    except GitHubError as error:
        if not waited and not isinstance(error, Unavailable):
            await _release_slot(engine, request)
        raise
    answer = await admit(engine, request, labelled, answered=True)
    if isinstance(answer, Entry):
        _log.info("queued", repository=repository.full_name, number=number, by=by, position=answer.position)
        return Queued(answer, new=True)
    # Rules or settings changed in this moment.
    await _release_slot(engine, request)
    await engine.github.remove_label(repository, number, policy.trigger_label)
    raise _refusal(engine, answer, policy)


async def requeue(
    engine: Engine, repository: Repository, number: int, *, by: str, head_sha: str | None, delivery: str | None = None
) -> Queued | None:
    """Take a pull request out and queue its present head again, at the end: consent is renewed, as by `enqueue`.

    None: the places that there are belong to others, and it waits for one. What this `delivery` has done already is
    done: only the label may still be missing. Raises MergePending, and what `enqueue` raises; a pull request that is
    refused has left its queue, and is told why there as well.
    """
    async with engine.store.reading() as tx:
        leaving = await tx.entries.find(repository.id, number)
        waiting = await tx.held.find(repository.id, number)
    if delivery is not None and delivery in {each.delivery for each in (leaving, waiting) if each is not None}:
        pull = await engine.github.pull_request(repository, number)
        await add_label(engine, repository, pull, await engine.policies.of(repository, pull.base_branch))
        return None if leaving is None else Queued(leaving, new=True)
    if leaving is None:
        return await enqueue(engine, repository, number, by=by, head_sha=head_sha, delivery=delivery)
    if leaving.merge_requested_at is not None:
        raise MergePending(f"the merge of pull request {number} was asked for")
    taken, policy = await _read_snapshot(engine, repository, number, by)
    pull = taken.pull
    if head_sha not in {None, pull.head_sha}:
        raise RejectionError(Reason.HEAD_CHANGED)
    case = Case(repository, number, leaving, delivery)
    request = EnqueueRequest(case, by, pull.head_sha, leaves_for=Reason.UNQUEUED)
    labelled = replace(taken, pull=with_label(pull, policy))
    answer = await admit(engine, request, labelled)
    if isinstance(answer, Reject):
        raise RejectionError(answer.reason, policy.trigger_label, answer.detail)
    await add_label(engine, repository, pull, policy)
    return Queued(answer, new=True) if isinstance(answer, Entry) else None


def with_label(pull: PullRequest, policy: Policy) -> PullRequest:
    """The pull request as it is when its label is on."""
    return pull if policy.has_trigger_label(pull.labels) else replace(pull, labels=pull.labels | {policy.trigger_label})


async def add_label(engine: Engine, repository: Repository, pull: PullRequest, policy: Policy) -> None:
    """Set the label that queues, unless the pull request carries one of that kind. Raises GitHubError."""
    if not policy.has_trigger_label(pull.labels):
        await engine.github.add_label(repository, pull.number, policy.trigger_label)


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


async def _reserve_slot(engine: Engine, request: EnqueueRequest, taken: Snapshot, policy: Policy) -> bool:
    """Keep a place, before anything is done on GitHub; whether this pull request waited for one already."""
    taken, requirements = await requirements_of(engine, request.repository, taken, policy)
    pull = taken.pull
    async with engine.change() as change:
        tx, number = change.tx, request.number
        queue = await tx.queues.find_or_create(request.repository, pull.base_branch, change.now)
        answer = judged(request, taken, requirements, policy, depth=await occupied_slots(change, queue, number))
        if isinstance(answer, Hold | Reject):
            raise _refusal(engine, answer, policy)
        waited = await tx.held.find(request.repository.id, number) is not None
        await keep_consent(change, request, pull)
        await hold(change, queue, pull, by=request.by or "", delivery=request.delivery, trusted_labels=pull.labels)
        return waited


async def _release_slot(engine: Engine, request: EnqueueRequest) -> None:
    async with engine.change() as change:
        waiting = await change.tx.held.find(request.repository.id, request.number)
        if waiting is not None:
            await change.tx.held.remove(request.repository.id, request.number)
            await record.wake_waiting(change.tx, waiting.queue_id, change.now)


def _refusal(engine: Engine, answer: object, policy: Policy) -> RejectionError | SlotsBusy:
    if isinstance(answer, Reject):
        return RejectionError(answer.reason, policy.trigger_label, answer.detail)
    engine.meter.count("queue_full", where="api")
    return SlotsBusy("queue full")
