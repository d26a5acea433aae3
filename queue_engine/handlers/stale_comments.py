"""Correct stale comments: those that say "queued" or "checking" on pull requests in no queue, or the opposite.

They remain when a database was restored or replaced, and after shadow mode. IMQ sweeps each repository once a day, some
minutes after it is installed, after a pause without writes, and after shadow mode. Sweeps of labels come first: what
they queue or refuse is not stale any more. A sweep lists IMQ's own comments that changed since the last one. IMQ
corrects those that show a waiting pull request, and their check runs. It changes an outcome only of a pull request that
is queued again; a landing stays.
"""

from dataclasses import asdict
from datetime import timedelta

import structlog

from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.jobs.job_store import Job
from queue_engine.domain.errors import NotFound, naming
from queue_engine.domain.facts import OwnComment, PullRequest
from queue_engine.domain.model import Repository
from queue_engine.domain.notice import WAITING, Notice, NoticeKind, kind_of
from queue_engine.domain.policy import CommentPolicy, Policy
from queue_engine.domain.reasons import Reason
from queue_engine.effects.check_runs import NOTICE_OF_STATUS
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.notices import announce, progress_notice
from queue_engine.executor.trains.candidate_cleanup import request_lost
from queue_engine.store import Transaction
from queue_engine.store.outbox.outbox import OutboxKind
from queue_engine.store.reconciler_state import stale_comments

_log = structlog.get_logger("imq.stale_comments")

STALE_COMMENTS_JOB = "sweep_comments"
"""Kind of the job that finds stale comments in one repository."""

_EVERY = timedelta(days=1)
_FIRST_SWEEP_AFTER = timedelta(minutes=10)
_LONGEST = timedelta(days=30)
_ACTIVITY = "life"
"""Name under which the store keeps when a process last used this database."""
_DOUBTED = "database_doubted"
"""Name under which the store keeps when a process began to use this database after a pause."""
_LAG = timedelta(minutes=10)
"""A bound, with a wide margin, of how old a list is, and of how much later than its notice IMQ edits a comment."""


async def record_activity(change: Change, *, longest_pause: timedelta) -> None:
    """Record that a process uses this database now.

    After a longer pause the database may be a backup, or another one was used meanwhile: then all repositories are
    swept for stale comments soon. This function itself sends no request.
    """
    last = await change.tx.sweeps.last(_ACTIVITY)
    if last is not None and change.now - last > longest_pause:
        await doubt_comments(change)
    await change.tx.sweeps.done(_ACTIVITY, change.now)


async def doubt_comments(change: Change) -> None:
    """Record that the database may be a backup, so that comments that changed since the last sweep are listed soon."""
    await change.tx.sweeps.done(_DOUBTED, change.now)


async def request_sweep(change: Change, repository: Repository) -> None:
    """Enqueue a sweep of this repository's comments, if the last one was a day ago, or before a pause."""
    last = await change.tx.sweeps.last(stale_comments(repository.id))
    doubted = await change.tx.sweeps.last(_DOUBTED)
    since_pause = last is not None and (doubted is None or not last < doubted <= change.now)
    if last is not None and since_pause and change.now < last + _EVERY:
        return
    if not since_pause and any(each.in_trains for each in await change.tx.queues.of_repository(repository.id)):
        await request_lost(change, repository)
    if not await change.tx.jobs.unfinished(stale_comments(repository.id)):
        await change.tx.jobs.enqueue(
            kind=STALE_COMMENTS_JOB,
            request=asdict(repository),
            process_id=stale_comments(repository.id),
            now=change.now,
            not_before=change.now + _FIRST_SWEEP_AFTER,
            priority=-1,
        )


class StaleComments:
    """Finds stale comments and has them corrected."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def sweep(self, job: Job) -> None:
        """List comments that changed since the last sweep, and correct stale ones. Raises GitHubError."""
        repository, now = Repository(**job.request), self._engine.clock.now()
        async with self._engine.store.reading() as tx:
            last = await tx.sweeps.last(stale_comments(repository.id))
        since = now - _LONGEST if last is None else max(last - _LAG, now - _LONGEST)
        with working(RequestPriority.BACKGROUND), naming(f"the comments in {repository.full_name}"):
            try:
                comments = await self._engine.github.own_comments(repository, since)
            except NotFound:
                return  # The App was uninstalled meanwhile: IMQ can correct nothing there.
            for comment in newest(comments):
                await self._correct(repository, comment)
        trains = last is None and await self._has_trains(repository)
        async with self._engine.change() as change:
            await change.tx.sweeps.done(stale_comments(repository.id), now)
            if trains:  # An empty database replaces one that may have known their branches.
                await request_lost(change, repository)

    async def _has_trains(self, repository: Repository) -> bool:
        async with self._engine.store.reading() as tx:
            queues = await tx.queues.of_repository(repository.id)
        policies = [await self._engine.policies.of(repository, queue.base_branch) for queue in queues]
        return any(policy.trains is not None for policy in policies)

    async def _correct(self, repository: Repository, comment: OwnComment) -> None:
        """Announce whether the pull request is queued, unless the database has a newer notice."""
        async with self._engine.store.reading() as tx:
            if not await _is_stale(tx, repository, comment):
                return
            entry = await tx.entries.find(repository.id, comment.number)
        if entry is not None:
            policy = await self._engine.policies.of(repository, entry.base_branch)
            async with self._engine.change() as change:
                await _announce_queued(change, repository, comment, policy)
            return
        try:
            pull = await self._engine.github.pull_request(repository, comment.number)
        except NotFound:
            return
        policy = await self._engine.policies.of(repository, pull.base_branch)
        async with self._engine.change() as change:
            if await _is_stale(change.tx, repository, comment):
                await self._announce_not_queued(change, repository, pull, policy)

    async def _announce_not_queued(
        self, change: Change, repository: Repository, pull: PullRequest, policy: Policy
    ) -> None:
        reason = Reason.NOT_QUEUED if pull.open else Reason.MERGED_ELSEWHERE if pull.merged else Reason.CLOSED
        notice = Notice(
            kind=NoticeKind.CANCELLED,
            number=pull.number,
            base_branch=pull.base_branch,
            head_sha=pull.head_sha,
            at=change.now,
            reason=reason,
            trigger_label=policy.trigger_label,
            fix_labels=policy.fix_labels,
        )
        await change.tx.outbox.search_first(repository, pull.number, change.now)
        await announce(change.tx, repository, notice, policy, due=change.now)
        await change.tx.outbox.search_first(repository, pull.number, change.now, kind=OutboxKind.CHECK_RUN)
        await change.tx.outbox.want(OutboxKind.CHECK_RUN, repository, pull.number, due=change.now, notice=notice)
        _log.info("stale_comment_corrected", repository=repository.full_name, number=pull.number, reason=reason.value)


async def _announce_queued(change: Change, repository: Repository, comment: OwnComment, policy: Policy) -> None:
    """Replace an outcome by the progress, also where the configuration asks for outcomes only: it is false now."""
    entry = await change.tx.entries.find(repository.id, comment.number)
    if entry is None or policy.comments is CommentPolicy.NONE or not await _is_stale(change.tx, repository, comment):
        return
    depth = await change.tx.entries.count(entry.queue_id)
    kind = NOTICE_OF_STATUS[entry.status]
    notice = await progress_notice(change.tx, entry, kind, policy, change.now, depth=depth)
    await change.tx.outbox.search_first(repository, comment.number, change.now)
    await change.tx.outbox.want(OutboxKind.COMMENT, repository, comment.number, due=change.now, notice=notice)
    _log.info("stale_comment_corrected", repository=repository.full_name, number=comment.number, reason=kind.value)


def newest(comments: tuple[OwnComment, ...]) -> list[OwnComment]:
    """Return for each pull request the comment that changed last, unless that comment only answers a command."""
    latest: dict[int, OwnComment] = {}
    for comment in comments:
        if (kind := kind_of(comment.body)) is None or kind == NoticeKind.ANSWERED:
            continue
        shown = latest.get(comment.number)
        if shown is None or comment.updated_at > shown.updated_at:
            latest[comment.number] = comment
    return list(latest.values())


async def _is_stale(tx: Transaction, repository: Repository, comment: OwnComment) -> bool:
    kind = kind_of(comment.body)
    queued = await tx.entries.is_queued(repository.id, comment.number)
    if kind == NoticeKind.LANDED or queued == (kind in WAITING):
        return False
    wanted = await tx.outbox.wanted(OutboxKind.COMMENT, repository.id, comment.number)
    if wanted is None:
        return True
    return wanted.kind is not NoticeKind.LANDED and comment.updated_at > wanted.at + _LAG
