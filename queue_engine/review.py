"""Re-reading one queued pull request: whether it still has consent, wherever in its queue it stands."""

from dataclasses import replace
from datetime import datetime

import structlog

from queue_engine import journal
from queue_engine.consent import withdrawn
from queue_engine.engine import Engine
from queue_engine.entering import unseen_head
from queue_engine.errors import StaleVersion
from queue_engine.facts import PullRequest
from queue_engine.model import Entry, EntryStatus, Repository
from queue_engine.policy import Policy
from queue_engine.reasons import Reason

_log = structlog.get_logger("imq.review")

_TRIES = 5


async def review(engine: Engine, repository: Repository, number: int, *, delivery: str | None = None) -> None:
    """Ask GitHub about a queued pull request and let it go if consent is gone.

    Raises GitHubError, and StaleVersion when the entry changes faster than it can be judged.
    """
    async with engine.store.reading() as tx:
        if await tx.entries.find(repository.id, number) is None:
            return
    await judge(engine, repository, await engine.github.pull_request(repository, number), delivery=delivery)


async def judge(engine: Engine, repository: Repository, pull: PullRequest, *, delivery: str | None = None) -> None:
    """Let a queued pull request go if these facts, just read, say that consent is gone.

    While its merge is asked for, only the pass that asked may judge: it is told to look first.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            await _judge(engine, repository, pull, delivery)
        except StaleVersion:
            if attempt == _TRIES:
                raise
        else:
            return


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
        change.happenings.append(
            await journal.dismiss(change.tx, entry, reason, policy, change.now, people=people, delivery=delivery)
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
