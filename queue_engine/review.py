"""Re-reading one queued pull request: whether it still has consent, wherever in its queue it stands.

Where a push is to cost the place and no more, whoever pushed is asked about anew: the new head joins at the end for
somebody who may queue, and for nobody else (P4).
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from queue_engine import journal
from queue_engine.admission import Knock, let_in
from queue_engine.consent import is_own_update, withdrawn
from queue_engine.door import barred, may_queue
from queue_engine.engine import Engine
from queue_engine.entering import unseen_head
from queue_engine.errors import StaleVersion
from queue_engine.facts import PullRequest, Snapshot
from queue_engine.model import Entry, EntryStatus, Repository
from queue_engine.own_merges import answered_merge, merged_by_imq
from queue_engine.policy import OnPush, Policy
from queue_engine.reasons import Reason
from queue_engine.wish import as_wished, queued_since

_log = structlog.get_logger("imq.review")

_TRIES = 5


@dataclass(frozen=True, slots=True)
class Push:
    """Who pushed which head, as a webhook told it."""

    by: str
    head_sha: str


async def review(
    engine: Engine,
    repository: Repository,
    number: int,
    *,
    delivery: str | None = None,
    push: Push | None = None,
    called_off: bool = False,
) -> PullRequest | None:
    """Read a queued pull request, and dequeue it if consent is gone; returns it as read, None if it is not queued.

    No entry leaves or changes by facts older than its own last change: where it changed while GitHub was asked, and
    the answer speaks against it, GitHub is asked again. `called_off` says that a person is known to have taken its
    label off, however GitHub tells of it. Raises GitHubError, and StaleVersion when the entry changes each time.
    """
    for _ in range(_TRIES):
        async with engine.store.reading() as tx:
            entry = await tx.entries.find(repository.id, number)
        if entry is None:
            return None
        pull = await engine.github.pull_request(repository, number)
        policy = await engine.policies.of(repository, entry.base_branch)
        since = None if called_off else queued_since(entry)
        pull = await as_wished(engine.github, engine.store, repository, pull, entry.vouched, policy, since=since)
        with suppress(StaleVersion):
            if push is not None and await _join_again(engine, entry, pull, push, policy, delivery):
                return pull
            await _judge(engine, entry, pull, policy, delivery)
            return pull
    raise StaleVersion(f"the entry of pull request {number} changed each time that it was read")


async def left_to_pass(engine: Engine, repository: Repository, number: int) -> bool:
    """Whether IMQ has asked for its merge: then only the pass that asked judges it, whatever a read would show.

    That pass looks first, unless GitHub's answer to the merge is known: then there is nothing to look for.
    """
    async with engine.change() as change:
        entry = await change.tx.entries.find(repository.id, number)
        if entry is None or entry.merge_requested_at is None:
            return False
        if await answered_merge(change.tx, entry, change.now) is None:
            await change.tx.entries.save(replace(entry, suspect=True))
            await change.tx.queues.wake(entry.queue_id, change.now)
    return True


async def contradicts(engine: Engine, repository: Repository, listed: PullRequest) -> bool:
    """Whether a listed pull request, which may be older than its entry, gives cause to read it once more."""
    async with engine.store.reading() as tx:
        entry = await tx.entries.find(repository.id, listed.number)
    if entry is None:
        return False
    policy = await engine.policies.of(repository, entry.base_branch)
    pull = await as_wished(engine.github, engine.store, repository, listed, entry.vouched, policy, since=None)
    changed, reason = _verdict(entry, pull, policy, engine.clock.now())
    return changed is not None or reason is not None


async def _join_again(
    engine: Engine, entry: Entry, pull: PullRequest, push: Push, policy: Policy, delivery: str | None
) -> bool:
    """Whether nothing but this push speaks against the pull request, and it has joined again with the new head.

    A head that is newer than the push has a push of its own on its way, which is the one to judge.
    """
    repository = entry.repository
    if entry.merge_requested_at is not None or policy.on_push is not OnPush.REQUEUE:
        return False
    # While an update is under way too, the head that was queued is compared with the one that was pushed.
    reason = withdrawn(replace(entry, status=EntryStatus.PENDING), pull, policy)
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
    request = Knock(repository, pull.number, push.by, pull.head_sha, delivery=delivery, anew=False)
    await let_in(engine, request, Snapshot(pull, permission), by=push.by, leaving=entry)
    return True


async def _judge(engine: Engine, before: Entry, pull: PullRequest, policy: Policy, delivery: str | None) -> None:
    """Store what the facts mean for the entry. Raises StaleVersion if they are older than its last change.

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
            raise StaleVersion(f"pull request {pull.number} was read before its entry changed")
        if changed is not None:
            await change.tx.entries.save(changed)
            await change.tx.queues.wake(entry.queue_id, change.now)
            return
        assert reason is not None
        if reason is Reason.MERGED_ELSEWHERE and await merged_by_imq(change.tx, entry, change.now):
            await change.tx.entries.save(replace(entry, merge_requested_at=change.now, suspect=True))
            await change.tx.queues.wake(entry.queue_id, change.now)
            return
        people = tuple(dict.fromkeys((pull.author, *pull.assignees)))
        bar = barred(pull, policy)
        detail = bar.detail if bar is not None and bar.reason is reason else None
        change.happenings.append(
            await journal.dismiss(
                change.tx, entry, reason, policy, change.now, detail=detail, people=people, delivery=delivery
            )
        )
    _log.info("left", repository=before.repository.full_name, number=pull.number, reason=reason.value)


def _verdict(entry: Entry, pull: PullRequest, policy: Policy, now: datetime) -> tuple[Entry | None, Reason | None]:
    """The entry with what its own pass is to look into, or the reason to leave, or neither."""
    if entry.merge_requested_at is not None:
        return replace(entry, suspect=True), None
    new_head = pull.open and entry.status is EntryStatus.UPDATING and pull.head_sha != entry.head
    if new_head and entry.candidate_head != pull.head_sha:
        return unseen_head(entry, pull.head_sha, policy, now), None
    reason = withdrawn(entry, pull, policy)
    if reason is None and pull.mergeable is False and entry.status is EntryStatus.PENDING:
        reason = Reason.CONFLICT
    return None, reason
