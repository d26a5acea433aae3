"""Store a pull request that joins its queue, or that waits until the queue has room."""

from dataclasses import replace

from queue_engine.admission.enqueue_request import EnqueueRequest
from queue_engine.admission.rejection import rejection_notice
from queue_engine.core.observability import trace
from queue_engine.domain.entry_order import EntryOrder
from queue_engine.domain.facts import PullRequest, Snapshot
from queue_engine.domain.known_facts import Consent, Fact, of_pull
from queue_engine.domain.model import Entry, Queue, Repository
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.policy import Policy, has_label
from queue_engine.domain.reasons import Reason
from queue_engine.effects import notices, record
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.queue_depth import hold
from queue_engine.rules.consent_changes import last_change
from queue_engine.rules.priority import precedence_of
from queue_engine.store import EntryConflict


async def keep_consent(change: Change, request: EnqueueRequest, pull: PullRequest) -> None:
    """Store when somebody asked for this pull request to be queued: what was told later may withdraw that consent."""
    at = request.labelled_at or last_change(pull) or change.now
    consent = Fact(subject=of_pull(pull.number), told=Consent(at=at, by=request.by))
    await change.tx.known.tell(request.repository.id, [consent], change.now)


async def store_entry(
    change: Change,
    queue: Queue,
    taken: Snapshot,
    policy: Policy,
    request: EnqueueRequest,
    trusted: frozenset[str],
    priority: int | None,
) -> Entry:
    """`priority` is the one that was given to it while it waited; None: that of its labels."""
    tx, now, pull = change.tx, change.now, taken.pull
    given = precedence_of(trusted, policy)
    if priority is not None:
        given = replace(given, priority=priority)
    try:
        entry = await _join(change, queue, taken, policy, request, trusted, given)
    except EntryConflict:
        standing = await tx.entries.find(queue.repository.id, pull.number)
        assert standing is not None
        return standing
    await tx.held.remove(queue.repository.id, pull.number)
    await _keep_labels_on(change, queue.repository, pull, trusted, policy)
    depth = entry.position + 1
    await notices.announce_progress(tx, entry, NoticeKind.QUEUED, policy, now, depth=depth)
    labels = sorted(label for label in trusted if policy.has_trigger_label([label]))
    data = {"by": entry.queued_by, "head": pull.head_sha, "position": entry.position, "labels": labels}
    await change.record(
        "queued", entry, delivery=request.delivery, data=data | await record.delays_caused(tx, entry, now)
    )
    await tx.queues.wake(queue.id, now)
    return entry


async def _join(
    change: Change,
    queue: Queue,
    taken: Snapshot,
    policy: Policy,
    request: EnqueueRequest,
    trusted: frozenset[str],
    given: EntryOrder,
) -> Entry:
    """Add the entry. Raises EntryConflict."""
    pull = taken.pull
    return await change.tx.entries.add(
        queue_id=queue.id,
        number=pull.number,
        title=pull.title,
        author=pull.author,
        queued_by=request.by or "",
        queued_head=pull.head_sha,
        enqueued_at=change.now,
        arrived_at=request.arrived_at,
        ageing=policy.ageing,
        trace=trace.current(),
        delivery=request.delivery,
        trusted_labels=sorted(trusted),
        known_behind=bool(taken.behind),
        base_tip=taken.base_tip if taken.behind else None,
        shared_head=await _shared_head(change, queue.repository, pull),
        **vars(given),
    )


async def _keep_labels_on(
    change: Change, repository: Repository, pull: PullRequest, trusted: frozenset[str], policy: Policy
) -> None:
    """Have the labels set that are new consent: IMQ's removal after an earlier dequeue may be on its way to GitHub."""
    removals = await change.tx.outbox.wanted_labels(repository.id, pull.number)
    for label in sorted(trusted):
        if policy.has_trigger_label([label]) and has_label([label], removals):
            await change.tx.outbox.want_label(repository, pull.number, label, on=True, due=change.now)


async def _shared_head(change: Change, repository: Repository, pull: PullRequest) -> str | None:
    """The head branch, if it is one that others are merged into: the default branch, or one that has a queue."""
    if pull.head_repository != repository.full_name:
        return None
    shared = (
        pull.head_branch == pull.default_branch
        or await change.tx.queues.find(repository.id, pull.head_branch) is not None
    )
    return pull.head_branch if shared else None


async def hold_back(
    engine: Engine,
    change: Change,
    queue: Queue,
    pull: PullRequest,
    policy: Policy,
    request: EnqueueRequest,
    trusted: frozenset[str],
) -> None:
    tx, now, repository = change.tx, change.now, queue.repository
    by, delivery = request.by or "", request.delivery
    if not await hold(change, queue, pull, by=by, delivery=delivery, trusted_labels=trusted):
        return
    await _keep_labels_on(change, repository, pull, trusted, policy)
    engine.meter.count("queue_full", where="label")
    ahead = await tx.held.ahead(queue.id, repository.id, pull.number)
    notice = rejection_notice(policy, pull, NoticeKind.HELD, Reason.QUEUE_FULL, now, request.by, position=ahead)
    await notices.announce(tx, repository, notice, policy, due=now)
    data = {"labels": sorted(label for label in trusted if policy.has_trigger_label([label]))}
    await change.record("held", queue, number=pull.number, reason=Reason.QUEUE_FULL, delivery=delivery, data=data)
