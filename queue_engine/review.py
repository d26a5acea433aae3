"""Re-reading one queued pull request: whether it still has consent, wherever in its queue it stands.

Where a push is to cost the place and no more, whoever pushed is asked about anew: the new head joins at the end for
somebody who may queue, and for nobody else (P4).
"""

from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from queue_engine import journal
from queue_engine.admission import Knock, let_in
from queue_engine.consent import is_own_update, lapsed, withdrawn
from queue_engine.door import barred, may_queue
from queue_engine.engine import Engine
from queue_engine.entering import unseen_head
from queue_engine.errors import StaleVersion
from queue_engine.facts import PullRequest
from queue_engine.model import Entry, EntryStatus, Repository
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
) -> None:
    """Ask GitHub about a queued pull request and let it go if consent is gone.

    `called_off` says that a person is known to have taken its label off, however GitHub tells of it. Raises
    GitHubError, and StaleVersion when the entry changes faster than it can be judged.
    """
    async with engine.store.reading() as tx:
        if await tx.entries.find(repository.id, number) is None:
            return
    pull = await engine.github.pull_request(repository, number)
    await judge(engine, repository, pull, delivery=delivery, push=push, called_off=called_off)


async def judge(
    engine: Engine,
    repository: Repository,
    pull: PullRequest,
    *,
    delivery: str | None = None,
    push: Push | None = None,
    called_off: bool = False,
) -> None:
    """Let a queued pull request go if these facts, just read, say that consent is gone.

    While its merge is asked for, only the pass that asked may judge: it is told to look first.
    """
    async with engine.store.reading() as tx:
        queued = await tx.entries.find(repository.id, pull.number)
    if queued is None:
        return
    policy = await engine.policies.of(repository, queued.base_branch)
    since = None if called_off else queued_since(queued)
    pull = await as_wished(engine.github, engine.store, repository, pull, queued.vouched, policy, since=since)
    for attempt in range(1, _TRIES + 1):
        try:
            if push is None or not await _join_again(engine, repository, pull, push, delivery):
                await _judge(engine, repository, pull, delivery)
        except StaleVersion:
            if attempt == _TRIES:
                raise
        else:
            return


async def _join_again(
    engine: Engine, repository: Repository, pull: PullRequest, push: Push, delivery: str | None
) -> bool:
    """Whether nothing but this push speaks against the pull request, and it has joined again with the new head.

    A head that is newer than the push has a push of its own on its way, which is the one to judge.
    """
    async with engine.store.reading() as tx:
        entry = await tx.entries.find(repository.id, pull.number)
    if entry is None or entry.merge_requested_at is not None:
        return False
    policy = await engine.policies.of(repository, entry.base_branch)
    if policy.on_push is not OnPush.REQUEUE:
        return False
    if lapsed(pull, base_branch=entry.base_branch, head=entry.head, policy=policy) is not Reason.HEAD_CHANGED:
        return False
    if pull.head_sha != push.head_sha:
        return True
    if entry.status is EntryStatus.UPDATING:
        compared = await engine.github.comparison(repository, entry.base_branch, pull.head_sha)
        if is_own_update(entry.head, compared):
            return False
    permission = await engine.github.permission(repository, push.by)
    if may_queue(policy, push.by, permission) is not None:
        return False
    request = Knock(repository, pull.number, push.by, pull.head_sha, delivery=delivery, anew=False)
    await let_in(engine, request, pull, by=push.by, permission=permission, leaving=entry)
    return True


async def _judge(engine: Engine, repository: Repository, pull: PullRequest, delivery: str | None) -> None:
    async with engine.store.reading() as tx:
        entry = await tx.entries.find(repository.id, pull.number)
    if entry is None:
        return
    policy = await engine.policies.of(repository, entry.base_branch)
    async with engine.change() as change:
        entry = await change.tx.entries.find(repository.id, pull.number)
        if entry is None:
            return
        changed = _as_told(entry, pull, policy, change.now)
        if changed is not None:
            await change.tx.entries.save(changed)
            await change.tx.queues.wake(entry.queue_id, change.now)
            return
        reason = withdrawn(entry, pull, policy)
        if reason is None and pull.mergeable is False and entry.status is EntryStatus.PENDING:
            reason = Reason.CONFLICT
        if reason is None:
            return
        people = tuple(dict.fromkeys((pull.author, *pull.assignees)))
        bar = barred(pull, policy)
        detail = bar.detail if bar is not None and bar.reason is reason else None
        change.happenings.append(
            await journal.dismiss(
                change.tx, entry, reason, policy, change.now, detail=detail, people=people, delivery=delivery
            )
        )
    _log.info("left", repository=repository.full_name, number=pull.number, reason=reason.value)


def _as_told(entry: Entry, pull: PullRequest, policy: Policy, now: datetime) -> Entry | None:
    """The entry with what its own pass is to look into, or None if the review can judge by itself."""
    if entry.merge_requested_at is not None:
        return replace(entry, suspect=True)
    new_head = pull.open and entry.status is EntryStatus.UPDATING and pull.head_sha != entry.head
    if new_head and entry.candidate_head != pull.head_sha:
        return unseen_head(entry, pull.head_sha, policy, now)
    return None
