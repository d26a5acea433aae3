"""Read a queued pull request again, at any position, and check that it still has consent.

Where a push is to cost the place and no more, the pusher's permission is checked: the new head joins at the end if
the pusher may queue, and else not at all (P4).
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from queue_engine.admission.admit import admit
from queue_engine.admission.enqueue_request import EnqueueRequest
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.facts import PullRequest, Snapshot
from queue_engine.domain.model import Entry, EntryStatus, Repository
from queue_engine.domain.policy import Policy, PushPolicy
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Engine
from queue_engine.effects.labels import effective_labels
from queue_engine.known.own_merges import answered_merge, merged_by_imq
from queue_engine.rules.consent import entry_consent_lost, is_own_update
from queue_engine.rules.eligibility import blocked_by_config, may_queue
from queue_engine.rules.transitions import with_candidate

_log = structlog.get_logger("imq.revalidate")

_TRIES = 5


@dataclass(frozen=True, slots=True)
class Push:
    """Who pushed which head, as a webhook told it."""

    by: str
    head_sha: str


async def revalidate(
    engine: Engine,
    repository: Repository,
    number: int,
    *,
    delivery: str | None = None,
    push: Push | None = None,
) -> PullRequest | None:
    """Read a queued pull request, and dequeue it if consent is gone; returns it as read, None if it is not queued.

    No entry leaves or changes by facts older than its own last change: where it changed while GitHub was asked, and
    the answer speaks against it, GitHub is asked again. Raises GitHubError, and StaleRecord when the entry changes each
    time.
    """
    for _ in range(_TRIES):
        async with engine.store.reading() as tx:
            entry = await tx.entries.find(repository.id, number)
        if entry is None:
            return None
        pull = await engine.github.pull_request(repository, number)
        policy = await engine.policies.of(repository, entry.base_branch)
        pull = await effective_labels(engine.store, repository, pull, entry.trusted_labels, policy)
        with suppress(StaleRecord):
            if push is not None and await _requeue_new_head(engine, entry, pull, push, policy, delivery):
                return pull
            await _judge(engine, entry, pull, policy, delivery)
            return pull
    raise StaleRecord(f"the entry of pull request {number} changed each time that it was read")


async def left_to_pass(engine: Engine, repository: Repository, number: int) -> bool:
    """Whether IMQ has asked for its merge: then only the pass that asked judges it, whatever a read would show.

    That pass looks first, unless GitHub's answer to the merge is known: then there is nothing to look for.
    """
    async with engine.change() as change:
        entry = await change.tx.entries.find(repository.id, number)
        if entry is None or entry.merge_requested_at is None:
            return False
        if await answered_merge(change.tx, entry, change.now) is None:
            await change.tx.entries.save(replace(entry, needs_refetch=True))
            await change.tx.queues.wake(entry.queue_id, change.now)
    return True


async def contradicts(engine: Engine, repository: Repository, listed: PullRequest) -> bool:
    """Whether a listed pull request, which may be older than its entry, gives cause to read it once more."""
    async with engine.store.reading() as tx:
        entry = await tx.entries.find(repository.id, listed.number)
    if entry is None:
        return False
    policy = await engine.policies.of(repository, entry.base_branch)
    pull = await effective_labels(engine.store, repository, listed, entry.trusted_labels, policy)
    changed, reason = _verdict(entry, pull, policy, engine.clock.now())
    return changed is not None or reason is not None


async def _requeue_new_head(
    engine: Engine, entry: Entry, pull: PullRequest, push: Push, policy: Policy, delivery: str | None
) -> bool:
    """Whether nothing but this push speaks against the pull request, and it has joined again with the new head.

    A head that is newer than the push has a push of its own on its way, which is the one to judge.
    """
    repository = entry.repository
    if entry.merge_requested_at is not None or policy.on_push is not PushPolicy.REQUEUE:
        return False
    # While an update is under way too, the head that was queued is compared with the one that was pushed.
    reason = entry_consent_lost(replace(entry, status=EntryStatus.PENDING), pull, policy)
    if reason is not Reason.HEAD_CHANGED:
        return False
    if pull.head_sha != push.head_sha:
        return True
    if entry.status is EntryStatus.UPDATING:
        compared = await engine.github.comparison(repository, entry.base_branch, pull.head_sha)
        if is_own_update(entry.head, compared, policy):
            return False
    permission = await engine.github.permission(repository, push.by)
    if may_queue(policy, push.by, permission) is not None:
        return False
    request = EnqueueRequest(repository, pull.number, push.by, pull.head_sha, delivery=delivery, gives_consent=False)
    await admit(engine, request, Snapshot(pull, permission), by=push.by, leaving=entry)
    return True


async def _judge(engine: Engine, before: Entry, pull: PullRequest, policy: Policy, delivery: str | None) -> None:
    """Store what the facts mean for the entry. Raises StaleRecord if they are older than its last change.

    While its merge is asked for, only the pass that asked may judge: it is told to look first.
    """
    async with engine.change() as change:
        entry = await change.tx.entries.find(before.repository.id, before.number)
        if entry is None:
            return
        changed, reason = _verdict(entry, pull, policy, change.now)
        if changed is None and reason is None:
            return
        if (entry.id, entry.version) != (before.id, before.version) and entry.merge_requested_at is None:
            raise StaleRecord(f"pull request {pull.number} was read before its entry changed")
        if changed is not None:
            await change.tx.entries.save(changed)
            await change.tx.queues.wake(entry.queue_id, change.now)
            return
        assert reason is not None
        if reason is Reason.MERGED_ELSEWHERE and await merged_by_imq(change.tx, entry, change.now):
            await change.tx.entries.save(replace(entry, merge_requested_at=change.now, needs_refetch=True))
            await change.tx.queues.wake(entry.queue_id, change.now)
            return
        people = tuple(dict.fromkeys((pull.author, *pull.assignees)))
        bar = blocked_by_config(pull, policy)
        detail = bar.detail if bar is not None and bar.reason is reason else None
        why = DequeueReason(reason, detail, people=people, delivery=delivery)
        await record.dequeue(change, entry, why, policy)
    _log.info("left", repository=before.repository.full_name, number=pull.number, reason=reason.value)


def _verdict(entry: Entry, pull: PullRequest, policy: Policy, now: datetime) -> tuple[Entry | None, Reason | None]:
    """The entry with what its own pass is to look into, or the reason to leave, or neither."""
    if entry.merge_requested_at is not None:
        return replace(entry, needs_refetch=True), None
    new_head = pull.open and entry.status is EntryStatus.UPDATING and pull.head_sha != entry.head
    if new_head and entry.candidate_head != pull.head_sha:
        return with_candidate(entry, pull.head_sha, policy, now), None
    reason = entry_consent_lost(entry, pull, policy)
    if reason is None and pull.mergeable is False and entry.status is EntryStatus.PENDING:
        reason = Reason.CONFLICT
    return None, reason
