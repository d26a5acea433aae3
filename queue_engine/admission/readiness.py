"""Judge pull requests again that wait outside their queues until they are ready, on events that may change the answer.

One that is ready joins at the end of its priority, as if it had been asked for at that instant: all that are in the
queue were ready before. GitHub's own auto-merge adds a pull request to GitHub's merge queue in the same way.
"""

from contextlib import suppress
from dataclasses import replace

import structlog

from queue_engine.admission.case import Case
from queue_engine.admission.enqueue_request import EnqueueRequest
from queue_engine.admission.entries import record_consent, store_entry
from queue_engine.admission.not_ready_pushes import Push, bind_waiting_push
from queue_engine.admission.required_facts import requirements_of
from queue_engine.admission.shared_heads import behind_shared_head, follow_shared_update
from queue_engine.admission.stacks import followed
from queue_engine.config.model import Policy
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.facts import BranchRules, PullRequest, Snapshot
from queue_engine.domain.model import Entry, EntryOrder
from queue_engine.domain.unmet_requirement import UnmetRequirement
from queue_engine.effects import record
from queue_engine.effects.actors import followed_login
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.github_merges import disable_later
from queue_engine.effects.labels import effective_labels, wanted_labels
from queue_engine.effects.queue_depth import announce_joined, announce_not_ready
from queue_engine.rules.eligibility import Admit, NotReady, Reject, disables_auto_merge
from queue_engine.rules.priority import precedence_of, trusted_of
from queue_engine.rules.readiness import judge_readiness, wait_ended

_log = structlog.get_logger("imq.readiness")

_TRIES = 5


async def judge_again(engine: Engine, case: Case, *, push: Push | None = None) -> Case:
    """Read a pull request that is not ready: it joins its queue, waits on, or its wait ends; returns the case then.

    `push` is one that a webhook reported.
    Nothing is stored by facts older than the entry's last change: then IMQ reads again. Raises GitHubError, and
    StaleRecord when the entry changes each time.
    """
    for _ in range(_TRIES):
        if (entry := case.entry) is None or entry.is_ready:
            return case
        wanted = (await wanted_labels(engine.store, entry))[entry.id]
        taken = await engine.github.snapshot(case.repository, case.number, login=entry.queued_by, head_sha=entry.head)
        if await followed_login(engine, entry, taken) is not None:
            case = await case.reload(engine)
            continue
        case = await case.with_policy(engine, entry.base_branch)
        policy, trusted = case.policy, entry.trusted_labels
        pull = await effective_labels(engine.store, case.repository, taken.pull, trusted, policy, before=wanted)
        found = await followed(engine, entry, replace(taken, pull=pull))
        before = entry
        with suppress(StaleRecord):
            if isinstance(found, Reject):
                return await _end(engine, replace(case, pull=pull), entry, found)
            entry, taken = found
            moves, pull = entry.base_branch != before.base_branch, taken.pull
            case = await replace(case, pull=pull).with_policy(engine, entry.base_branch)
            policy = case.policy
            if pull.open and pull.head_sha != entry.head:
                followed_update = await follow_shared_update(engine, case, pull.head_sha, pushed_by_imq=False)
                if followed_update is not None:
                    return followed_update
                bound = await bind_waiting_push(engine, case, entry, pull, push)
                if isinstance(bound, Case):
                    return bound
                if not isinstance(bound, Entry):
                    return case if bound is None else await _end(engine, case, entry, bound)
                # The base was compared with the former head.
                entry, taken = bound, replace(taken, comparison=None, base_tip=None, behind=None, ahead=None)
                case = replace(case, entry=entry)
            if (ended := wait_ended(entry, pull, policy, engine.clock.now())) is not None:
                return await _end(engine, case, entry, ended)
            if policy.fault is not None:
                return case
            return await _judge(engine, case, entry, before, taken, moves=moves)
        case = await case.reload(engine)
    raise StaleRecord(f"the entry of pull request {case.number} changed each time that it was read")


async def _judge(engine: Engine, case: Case, entry: Entry, before: Entry, taken: Snapshot, *, moves: bool) -> Case:
    """Store what these facts mean for an entry whose wait has not ended. Raises StaleRecord.

    What it lacked `before` counts for its former head.
    An entry that `moves` is stored for another base branch than the one of the entry to be judged.
    """
    policy, repository = case.policy, case.repository
    taken, requirements = await requirements_of(engine, repository, taken, policy, waiting=before)
    if taken.permission is None:
        taken = replace(taken, permission=await engine.github.permission(repository, entry.queued_by))
    answer = judge_readiness(entry, taken, requirements, policy)
    if isinstance(answer, Reject):
        return await _end(engine, case, entry, answer)
    async with engine.change() as change:
        match await behind_shared_head(change.tx, repository, taken.pull, policy, answer):
            case NotReady(unmet) if not moves:
                saved = await _wait_on(change, entry, unmet, policy)
                if disables_auto_merge(taken.pull, policy):
                    await disable_later(change, repository, case.number)
            case Admit() if not moves and entry.head != entry.queued_head:
                saved = await _return(change, entry, taken, policy)
            case NotReady() | Admit() as found:
                unmet = found.unmet if isinstance(found, NotReady) else ()
                saved = await _join(change, case, entry, taken, requirements.rules, unmet)
            case _:
                return case
    joined = saved.is_ready and not entry.is_ready
    log = _log.info if joined else _log.debug
    log("queued" if joined else "readiness", repository=repository.full_name, number=case.number, head=saved.head)
    return replace(case, entry=saved)


async def _wait_on(change: Change, entry: Entry, unmet: tuple[UnmetRequirement, ...], policy: Policy) -> Entry:
    """Store what the entry lacks now, and announce it if that changed."""
    saved = await change.tx.entries.save(replace(entry, unmet=unmet, read_at=change.now))
    if unmet != entry.unmet:
        await announce_not_ready(change, saved, policy)
    return saved


async def _return(change: Change, entry: Entry, taken: Snapshot, policy: Policy) -> Entry:
    """Bring an entry back to its place in the queue, which it left for an approval that IMQ's update cost."""
    tip = taken.base_tip if taken.behind else None
    saved = await change.tx.entries.save(replace(entry, unmet=(), read_at=None, newer_tip=tip))
    placed = await change.tx.entries.get(saved.id)
    assert placed is not None
    await change.tx.queues.wake(entry.queue_id, change.now)
    return await announce_joined(change, placed, policy, depth=await change.tx.entries.count(entry.queue_id))


async def _join(
    change: Change,
    case: Case,
    entry: Entry,
    taken: Snapshot,
    rules: BranchRules,
    unmet: tuple[UnmetRequirement, ...],
) -> Entry:
    """Replace the entry by one in the queue, at the end of its priority, with the same consent.

    One that lacks anything waits outside of the queue of another base branch then.
    """
    tx, policy = change.tx, case.policy
    queue = await tx.queues.find_or_create(case.repository, entry.base_branch, change.now)
    await tx.queues.lock_order(queue.id)
    await tx.entries.remove(entry)
    trusted = trusted_of(taken.pull.labels, entry.trusted_labels)
    request = EnqueueRequest(
        replace(case, delivery=entry.delivery), entry.queued_by, entry.queued_head, order=_order(entry, trusted, policy)
    )
    await record_consent(change, request, taken.pull)
    return await store_entry(change, queue, taken, rules, policy, request, trusted, unmet)


def _order(entry: Entry, trusted: frozenset[str], policy: Policy) -> EntryOrder:
    """Return the order that the labels give; a priority from a command holds."""
    order = precedence_of(trusted, policy)
    by_labels = precedence_of(entry.trusted_labels, policy).priority
    return order if entry.priority == by_labels else replace(order, priority=entry.priority)


async def _end(engine: Engine, case: Case, entry: Entry, why: Reject) -> Case:
    """End the wait of an entry that joins no queue. Raises StaleRecord."""
    pull: PullRequest | None = case.pull
    people = () if pull is None else tuple(dict.fromkeys((pull.author, *pull.assignees)))
    async with engine.change() as change:
        reason = DequeueReason(why.reason, why.detail, people=people, delivery=case.delivery)
        await record.dequeue(change, entry, reason, case.policy)
    _log.info("wait_ended", repository=case.repository.full_name, number=case.number, reason=why.reason.value)
    return replace(case, entry=None)
