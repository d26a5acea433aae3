"""Read a queued pull request again, at any position, and check that it still has consent.

With `on_push: requeue` IMQ checks the pusher's permission: the new head joins at the end if the pusher may queue, and
otherwise not at all (P4).
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import structlog

from queue_engine.admission.admit import admit
from queue_engine.admission.case import Case, load_case
from queue_engine.admission.enqueue_request import EnqueueRequest
from queue_engine.admission.not_ready_pushes import Push
from queue_engine.admission.own_pushes import is_proved
from queue_engine.admission.readiness import judge_again
from queue_engine.admission.shared_heads import follow_shared_update, is_alone
from queue_engine.config.model import Policy
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.facts import PullRequest, Snapshot
from queue_engine.domain.model import Entry, EntryStatus, Repository
from queue_engine.domain.policy import PushPolicy
from queue_engine.domain.port import SnapshotRequest
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.causes import explained
from queue_engine.effects.context import Engine
from queue_engine.effects.github_merges import disable_later
from queue_engine.effects.labels import effective_labels, wanted_labels
from queue_engine.known.own_merges import answered_merge, merged_by_imq
from queue_engine.rules.consent import consent_lost, is_own_update
from queue_engine.rules.eligibility import Reject, disables_auto_merge, may_queue
from queue_engine.rules.own_pushes import may_push
from queue_engine.rules.readiness import is_read_due, seems_changed, seems_freed
from queue_engine.rules.transitions import with_new_head

_log = structlog.get_logger("imq.revalidate")

_TRIES = 5


async def revalidate(engine: Engine, case: Case, *, push: Push | None = None) -> Case:
    """Read a queued pull request, and dequeue it if consent is lost; returns the case as it is then.

    No entry leaves or changes by facts older than its own last change. If the entry changed during the read, and the
    answer withdraws consent, IMQ reads again. Raises GitHubError, and StaleRecord when the entry changes each time.
    """
    for _ in range(_TRIES):
        if (entry := case.entry) is None:
            return case
        if not entry.is_ready:
            return await judge_again(engine, case, push=push)
        before = (await wanted_labels(engine.store, entry))[entry.id]
        pull = await engine.github.pull_request(case.repository, case.number)
        case = await case.with_policy(engine, entry.base_branch)
        trusted, policy = entry.trusted_labels, case.policy
        pull = await effective_labels(engine.store, case.repository, pull, trusted, policy, before=before)
        case = replace(case, pull=pull)
        if push is None and entry.status is not EntryStatus.UPDATING and may_push(entry, pull.author, case.policy):
            # If its bot pushed, and no webhook says so, GitHub's activity of the branch does.
            push = Push(pull.author, pull.head_sha, reported=False)
        with suppress(StaleRecord):
            if pull.head_sha != entry.head and entry.status is EntryStatus.PENDING:
                followed = await follow_shared_update(engine, case, pull.head_sha, pushed_by_imq=False)
                if followed is not None:
                    return followed
            if push is not None and (requeued := await _requeue_new_head(engine, case, entry, pull, push)) is not None:
                return requeued
            return replace(case, entry=await _judge(engine, entry, pull, case.policy, case.delivery))
        case = await case.reload(engine)
    raise StaleRecord(f"the entry of pull request {case.number} changed each time that it was read")


async def left_to_pass(engine: Engine, repository: Repository, number: int) -> bool:
    """Return whether IMQ has requested the merge: then only the pass that requested it judges the entry.

    That pass reads the pull request first, unless GitHub's answer to the merge is known.
    """
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
    requests = [SnapshotRequest(each.number, "", each.head) for each in entries if each.is_ready]
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
        freed = seems_freed(entry, latest, now, whole=whole) or await is_alone(engine, entry)
        seems_due = freed or seems_changed(entry, pull, policy, now)
    else:
        seems_due = _verdict(entry, pull, policy, now) != (None, None)
    return seems_due or disables_auto_merge(pull, policy)


async def _requeue_new_head(engine: Engine, case: Case, entry: Entry, pull: PullRequest, push: Push) -> Case | None:
    """Queue the pull request again with the new head; None if consent is lost for more than this push.

    A head that is newer than the push has its own webhook, which decides.
    """
    repository, policy = case.repository, case.policy
    is_own, requeues = may_push(entry, push.by, policy), push.reported and policy.on_push.queued is PushPolicy.REQUEUE
    if entry.run.merge_requested_at is not None or not (is_own or requeues):
        return None
    # Compare the queued head with the pushed one, also while an update is under way.
    lost = consent_lost(replace(entry, status=EntryStatus.PENDING), pull, policy)
    if lost != Reject(Reason.HEAD_CHANGED):
        return None
    if pull.head_sha != push.head_sha:
        return case
    if entry.status is EntryStatus.UPDATING:
        compared = await engine.github.comparison(repository, entry.base_branch, pull.head_sha)
        if is_own_update(entry.head, compared, policy):
            return None
    is_own = is_own and await is_proved(engine, entry, pull, push.before)
    if not (is_own or requeues):
        return None
    # The consent to a bot's pull request remains that of the person who gave it.
    by = entry.queued_by if is_own else push.by
    permission = await engine.github.permission(repository, by)
    if may_queue(policy, by, permission) is not None:
        return None
    request = EnqueueRequest(case, by, pull.head_sha, gives_consent=False, leaves_for=Reason.HEAD_CHANGED)
    answer = await admit(engine, request, Snapshot(pull, permission))
    return replace(case, entry=answer if isinstance(answer, Entry) else None)


async def _judge(
    engine: Engine, before: Entry, pull: PullRequest, policy: Policy, delivery: str | None
) -> Entry | None:
    """Judge the entry by these facts, store the result, and return the entry; None if it left.

    While its merge is requested, only the pass that requested it may judge: the entry is marked `needs_refetch`. Raises
    StaleRecord if the facts are older than the entry's last change.
    """
    known: tuple[Reject, Reject] | None = None
    if (first := _verdict(before, pull, policy, engine.clock.now())[1]) is not None:
        known = first, await explained(engine, before, first)
    async with engine.change() as change:
        entry = await change.tx.entries.find(before.repository.id, before.number)
        if entry is None:
            return None
        changed, lost = _verdict(entry, pull, policy, change.now)
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
        if known is not None and lost.reason is known[0].reason:
            lost = known[1]
        people = tuple(dict.fromkeys((pull.author, *pull.assignees)))
        why = DequeueReason(lost.reason, lost.detail, people=people, delivery=delivery)
        await record.dequeue(change, entry, why, policy)
    _log.info("dequeued", repository=before.repository.full_name, number=pull.number, reason=lost.reason.value)
    return None


def _verdict(entry: Entry, pull: PullRequest, policy: Policy, now: datetime) -> tuple[Entry | None, Reject | None]:
    """Return the entry marked for its own pass, or the reason to leave, or neither."""
    if entry.run.merge_requested_at is not None:
        return replace(entry, needs_refetch=True), None
    new_head = pull.open and entry.status is EntryStatus.UPDATING and pull.head_sha != entry.head
    if new_head and entry.run.new_head != pull.head_sha:
        return with_new_head(entry, pull.head_sha, policy, now), None
    lost = consent_lost(entry, pull, policy)
    if lost is None and pull.mergeable is False and entry.status is EntryStatus.PENDING:
        lost = Reject(Reason.CONFLICT)
    return None, lost
