"""Read a queued pull request again, in its queue or outside, and judge whether it still has consent, and is ready.

With `on_push: requeue` IMQ checks the pusher's permission: the new head joins at the end if the pusher may queue, and
otherwise not at all (P4).
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import structlog

from queue_engine.admission.admit import behind_shared_head
from queue_engine.admission.bound_heads import (
    bind_lost_update,
    bind_waiting_push,
    follow_shared_update,
    requeue_new_head,
)
from queue_engine.admission.case import Case, EnqueueRequest, load_case
from queue_engine.admission.new_entries import record_consent, store_entry
from queue_engine.admission.required_facts import readiness_of
from queue_engine.admission.required_landings import in_landing_order
from queue_engine.admission.stack_place import followed
from queue_engine.config.model import Policy
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.facts import BranchRules, PullRequest, Snapshot
from queue_engine.domain.model import Entry, EntryOrder, EntryStatus, Repository, UnmetRequirement
from queue_engine.domain.port import SnapshotRequest
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.labels import LabelStates, effective_labels, wanted_labels
from queue_engine.effects.record import announce_joined, announce_not_ready, disable_later, explained
from queue_engine.effects.renames import followed_login
from queue_engine.known.own_writes import answered_merge, merged_by_imq
from queue_engine.rules.consent import NewHead, consent_lost, may_push
from queue_engine.rules.eligibility import Admit, NotReady, Reject, disables_auto_merge
from queue_engine.rules.landing_order import all_names, lacked_beside_set, new_requirements, set_of
from queue_engine.rules.priority import precedence_of, trusted_of
from queue_engine.rules.readiness import is_read_due, seems_changed, seems_freed, wait_ended
from queue_engine.rules.transitions import with_new_head

_log = structlog.get_logger("imq.revalidate")

_TRIES = 5


async def revalidate(engine: Engine, case: Case, *, push: NewHead | None = None) -> Case:
    """Read a pull request, and store what that means for its entry; returns the case as it is then.

    An entry in the queue leaves if consent is lost. One that is not ready joins the queue, waits on, or its wait ends.
    `push` is one that a webhook reported.

    No entry leaves or changes by facts older than its own last change. If the entry changed during the read, and the
    answer withdraws consent, IMQ reads again. Raises GitHubError, and StaleRecord when the entry changes each time.
    """
    for _ in range(_TRIES):
        if (entry := case.entry) is None:
            return case
        wanted = (await wanted_labels(engine.store, entry))[entry.id]
        with suppress(StaleRecord):
            judge = _judge_queued if entry.is_ready else _judge_waiting
            if (judged := await judge(engine, case, entry, wanted, push)) is not None:
                return judged
        case = await case.reload(engine)
    raise StaleRecord(f"the entry of pull request {case.number} changed each time that it was read")


async def _judge_queued(
    engine: Engine, case: Case, entry: Entry, wanted: LabelStates, push: NewHead | None
) -> Case | None:
    """Judge an entry in the queue, at any position, by its pull request."""
    pull = await engine.github.pull_request(case.repository, case.number)
    case = await case.with_policy(engine, entry.base_branch)
    trusted, policy = entry.trusted_labels, case.policy
    pull = await effective_labels(engine.store, case.repository, pull, trusted, policy, before=wanted)
    case = replace(case, pull=pull)
    if push is None and entry.status is not EntryStatus.UPDATING and may_push(entry, pull.author, policy):
        # If its bot pushed, and no webhook says so, GitHub's activity of the branch does.
        push = NewHead(pull.head_sha, by=pull.author)
    if pull.head_sha != entry.head_sha and entry.status is EntryStatus.PENDING:
        followed_update = await follow_shared_update(engine, case, pull.head_sha, by_imq=False)
        if followed_update is not None:
            return followed_update
    if pull.head_sha != entry.head_sha and push is None:
        updated = await bind_lost_update(engine, case, entry, pull.head_sha)
        if updated is not None:
            return updated
    if push is not None and (requeued := await requeue_new_head(engine, case, entry, pull, push)) is not None:
        return requeued
    return replace(case, entry=await _judge(engine, entry, pull, policy, case.delivery))


async def _judge_waiting(
    engine: Engine, case: Case, entry: Entry, wanted: LabelStates, push: NewHead | None
) -> Case | None:
    """Judge an entry that waits outside the queue, by a snapshot; None if its person has another login now.

    One that is ready joins at the end of its priority, as if it had been asked for at that instant: all that are in the
    queue were ready before. GitHub's own auto-merge adds a pull request to GitHub's merge queue in the same way.
    """
    taken = await engine.github.snapshot(case.repository, case.number, login=entry.queued_by, head_sha=entry.head_sha)
    if await followed_login(engine, entry, taken) is not None:
        return None
    case, before = await case.with_policy(engine, entry.base_branch), entry
    policy, trusted = case.policy, entry.trusted_labels
    pull = await effective_labels(engine.store, case.repository, taken.pull, trusted, policy, before=wanted)
    found = await followed(engine, entry, replace(taken, pull=pull))
    if isinstance(found, Reject):
        return await _end(engine, replace(case, pull=pull), entry, found)
    entry, taken = found
    moves, pull = entry.base_branch != before.base_branch, taken.pull
    case = await replace(case, pull=pull).with_policy(engine, entry.base_branch)
    policy = case.policy
    if pull.open and pull.head_sha != entry.head_sha:
        followed_update = await follow_shared_update(engine, case, pull.head_sha, by_imq=False)
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
    return await _judge_readiness(engine, case, entry, before, taken, moves=moves)


async def left_to_pass(engine: Engine, repository: Repository, number: int) -> bool:
    """Return whether only the pass that requested a merge judges the entry, unless GitHub's answer is known."""
    async with engine.change() as change:
        entry = await change.tx.entries.find(repository.id, number)
        if entry is None or entry.run.merge_requested_at is None:
            return False
        if await answered_merge(change.tx, entry, change.now) is None:
            await change.tx.entries.save(replace(entry, needs_refetch=True))
            await change.tx.queues.wake(entry.queue_id, change.now)
    return True


async def read_unlisted(engine: Engine, repository: Repository, listed: Collection[int]) -> dict[int, PullRequest]:
    """Read the queued pull requests that a list of open ones left out, ten in one query; returns those it showed."""
    async with engine.store.reading() as tx:
        entries = [each for each in await tx.entries.of_repository(repository.id) if each.number not in listed]
    requests = [SnapshotRequest(each.number, "", each.head_sha) for each in entries if each.is_ready]
    found = await engine.github.snapshots(repository, requests) if requests else {}
    return {number: taken.pull for number, taken in found.items()}


async def needs_read(
    engine: Engine, repository: Repository, number: int, latest: Mapping[int, PullRequest], *, whole: bool
) -> bool:
    """Return whether an entry's pull request is to be read, since it seems to have lost consent, or to be ready.

    `latest` are the open ones that changed last, which may be older than their entries. `whole`: these are all.
    """
    case = await load_case(engine, repository, number)
    if (entry := case.entry) is None:
        return False
    now, listed = engine.clock.now(), latest.get(number)
    if listed is None:
        return entry.is_ready or whole or is_read_due(entry, now)
    policy = (await case.with_policy(engine, entry.base_branch)).policy
    pull = await effective_labels(engine.store, repository, listed, entry.trusted_labels, policy)
    if not entry.is_ready:
        freed = seems_freed(entry, latest, now, whole=whole) or await _is_alone(engine, entry)
        seems_due = freed or seems_changed(entry, pull, policy, now)
    else:
        seems_due = _verdict(entry, pull, policy, now) != (None, None) or bool(new_requirements(entry, pull))
    return seems_due or disables_auto_merge(pull, policy)


async def _is_alone(engine: Engine, entry: Entry) -> bool:
    """Return whether an entry waits for others of its branch, although none of them is queued any more."""
    if entry.head_branch is None or all(each.reason is not Reason.HEAD_SHARED for each in entry.unmet):
        return False
    async with engine.store.reading() as tx:
        others = await tx.entries.sharing(entry.repository.id, entry.number, entry.head_branch)
    return not any(other.is_ready for other in others)


async def _judge(
    engine: Engine, before: Entry, pull: PullRequest, policy: Policy, delivery: str | None
) -> Entry | None:
    """Judge the entry by these facts, store the result, and return the entry; None if it left.

    While its merge is requested, only the pass that requested it may judge: the entry is marked `needs_refetch`. Raises
    StaleRecord if the facts are older than the entry's last change.
    """
    known: tuple[Reject, Reject] | None = None
    why = DequeueReason(Reason.LABEL_REMOVED)
    if (first := _verdict(before, pull, policy, engine.clock.now())[1]) is not None:
        known = first, await explained(engine, before, first)
        why = DequeueReason(known[1].reason, known[1].detail)
        why = await record.with_author(engine, before, why, pull, policy)
    async with engine.change() as change:
        entry = await change.tx.entries.find(before.repository.id, before.number)
        if entry is None:
            return None
        changed, lost = _verdict(entry, pull, policy, change.now)
        if changed is None and lost is None and (unmet := new_requirements(entry, pull)):
            return await _reorder(change, entry, unmet, policy)
        if changed is None and lost is None and (names := all_names(pull, entry.repository)) != entry.depends_on:
            changed = replace(entry, depends_on=names)
        if lost is None and disables_auto_merge(pull, policy):
            await disable_later(change, entry.repository, entry.number)
        if changed is None and lost is None:
            return entry
        if (entry.id, entry.version) != (before.id, before.version) and entry.run.merge_requested_at is None:
            raise StaleRecord(f"pull request {pull.number} was read before its entry changed")
        if lost == Reject(Reason.MERGED_ELSEWHERE) and await merged_by_imq(change.tx, entry, change.now):
            changed = replace(entry, needs_refetch=True, run=replace(entry.run, merge_requested_at=change.now))
        if changed is not None:
            saved = await change.tx.entries.save(changed)
            await change.tx.queues.wake(entry.queue_id, change.now)
            return saved
        assert lost is not None
        if known is None or lost.reason is not known[0].reason:
            why = DequeueReason(lost.reason, lost.detail)
        people = tuple(dict.fromkeys((pull.author, *pull.assignees)))
        why = replace(why, people=people, delivery=delivery)
        await record.dequeue(change, entry, why, policy)
    _log.info("dequeued", repository=before.repository.full_name, number=pull.number, reason=why.reason.value)
    return None


async def _reorder(change: Change, entry: Entry, unmet: tuple[UnmetRequirement, ...], policy: Policy) -> Entry:
    """Have an entry wait outside until IMQ has judged the pull requests that its description names since it joined."""
    if not entry.head_proved:
        # A pass proves IMQ's own update first.
        await change.tx.queues.wake(entry.queue_id, change.now)
        return await change.tx.entries.save(replace(entry, needs_refetch=True))
    saved = await record.unready(change, entry, unmet, policy)
    await record.read_again(change, entry.repository, entry.number)
    return saved


def _verdict(entry: Entry, pull: PullRequest, policy: Policy, now: datetime) -> tuple[Entry | None, Reject | None]:
    """Return the entry marked for its own pass, or the reason to leave, or neither."""
    if entry.run.merge_requested_at is not None:
        return replace(entry, needs_refetch=True), None
    new_head = pull.open and entry.status is EntryStatus.UPDATING and pull.head_sha != entry.head_sha
    if new_head and entry.run.new_head != pull.head_sha:
        return with_new_head(entry, pull.head_sha, policy, now), None
    lost = consent_lost(entry, pull, policy)
    if lost is None and pull.mergeable is False and entry.status is EntryStatus.PENDING:
        lost = Reject(Reason.CONFLICT)
    return None, lost


async def _judge_readiness(
    engine: Engine, case: Case, entry: Entry, before: Entry, taken: Snapshot, *, moves: bool
) -> Case:
    """Store what facts mean for an entry that waits, also one that `moves` to this base. Raises StaleRecord."""
    policy, repository = case.policy, case.repository
    taken, requirements, answer = await readiness_of(engine, entry, before, taken, policy)
    if isinstance(answer, Reject):
        return await _end(engine, case, entry, answer)
    if isinstance(answer, Admit) and case.in_order is not None:
        await case.in_order(entry.base_branch, policy, EntryOrder(hotfix=entry.hotfix))
    async with engine.change() as change:
        found = await behind_shared_head(change.tx.entries, repository, taken.pull, policy, answer)
        match await in_landing_order(change, repository, entry.queue_id, policy, found):
            case NotReady(unmet) if not moves:
                names = all_names(taken.pull, repository)
                saved = await _wait_on(change, replace(entry, depends_on=names), unmet, policy)
                if disables_auto_merge(taken.pull, policy):
                    await disable_later(change, repository, case.number)
            case Admit() if not moves and entry.head_sha != entry.queued_head:
                saved = await _return(change, entry, taken, policy)
            case NotReady() | Admit() as found:
                unmet = found.unmet if isinstance(found, NotReady) else ()
                saved = await _join(change, case, entry, taken, requirements.rules, unmet)
            case _:
                return case
        await record.note_set_ready(change, saved, requirements.landings)
    joined = saved.is_ready and not entry.is_ready
    log = _log.info if joined else _log.debug
    log(
        "queued" if joined else "readiness",
        repository=repository.full_name,
        number=case.number,
        head_sha=saved.head_sha,
    )
    return replace(case, entry=saved)


async def _wait_on(change: Change, entry: Entry, unmet: tuple[UnmetRequirement, ...], policy: Policy) -> Entry:
    """Store what the entry lacks now, and announce it if that changed. A cause stays as long as its reason."""
    unmet = tuple([await record.with_dismissal(change, entry, each) for each in unmet])
    saved = await change.tx.entries.save(replace(entry, unmet=unmet, read_at=change.now))
    if unmet != entry.unmet:
        await announce_not_ready(change, saved, policy)
    if (lacked := lacked_beside_set(saved, set_of(saved))) is not None:
        await record.note_set_left(change, saved, lacked.reason)
    return saved


async def _return(change: Change, entry: Entry, taken: Snapshot, policy: Policy) -> Entry:
    """Bring an entry back to its place in the queue, which it left for an approval that IMQ's update cost."""
    tip = taken.base_tip if taken.behind else None
    names = all_names(taken.pull, entry.repository)
    saved = await change.tx.entries.save(replace(entry, unmet=(), read_at=None, newer_tip=tip, depends_on=names))
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
    """Replace the entry by one at the end of its priority, with the same consent; outside if it lacks anything."""
    tx, policy = change.tx, case.policy
    queue = await tx.queues.find_or_create(case.repository, entry.base_branch, change.now)
    await tx.queues.lock_order(queue.id)
    await tx.entries.remove(entry)
    await record.name_later_one(change, entry)
    ledger = await tx.consents.of(entry)
    trusted = trusted_of(taken.pull.labels, entry.trusted_labels)
    request = EnqueueRequest(
        replace(case, delivery=entry.delivery),
        entry.queued_by,
        entry.queued_head,
        order=_order(entry, trusted, policy),
        source=next(each.source for each in reversed(ledger) if each.head_sha == entry.queued_head),
    )
    await record_consent(change, request, taken.pull)
    joined = await store_entry(change, queue, taken, rules, policy, request, trusted, unmet)
    await tx.consents.keep_alone(entry, joined)
    return joined


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
