"""Correct stale comments and check runs: those that say "queued" of pull requests in no queue, or the opposite.

They remain when a database was restored or replaced, when GitHub lost a write, and after shadow mode. IMQ sweeps each
repository once a day, some minutes after it is installed, after a pause without writes, and after shadow mode. Sweeps
of labels come first: what they queue or refuse is not stale any more. A sweep lists IMQ's own comments that changed
since the last one. IMQ corrects those that show a waiting pull request, and their check runs. It changes an outcome
only of a pull request that is queued again, or if GitHub shows an older one than IMQ wrote. It changes a landing only
where GitHub shows the pull request as open, with a head that its base branch lacks.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from enum import Enum

import structlog
from cachetools import LRUCache

from queue_engine.admission.head_consent import last_departure
from queue_engine.config.model import Policy
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.jobs.job import Job
from queue_engine.domain.departure import is_withdrawn
from queue_engine.domain.errors import GitHubError, NotFound, naming
from queue_engine.domain.facts import OwnCheckRun, OwnComment, PullRequest
from queue_engine.domain.model import Repository
from queue_engine.domain.notice import WAITING, NoticeKind, kind_of
from queue_engine.domain.policy import CommentPolicy
from queue_engine.domain.port import PAGE
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Change, Engine, EngineHandler
from queue_engine.effects.notices import (
    NOTICE_OF_STATUS,
    announce,
    announce_withdrawn,
    contradicts,
    notice_of_pull,
    progress_notice,
    want_check_run,
)
from queue_engine.executor.cleanup import request_lost
from queue_engine.store import Transaction
from queue_engine.store.known import compared_runs, stale_comments
from queue_engine.store.outbox.items import OutboxKind, OutboxRun

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
_COMPARED_EVERY = timedelta(hours=1)
_MOST_FOUND = 1_000
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


class StaleComments(EngineHandler):
    """Finds stale comments and has them corrected."""

    async def sweep(self, job: Job) -> None:
        """List comments that changed since the last sweep, and correct stale ones. Raises GitHubError."""
        repository, now = Repository(**job.request), self._engine.clock.now()
        async with self._engine.store.reading() as tx:
            last = await tx.sweeps.last(stale_comments(repository.id))
            doubted = await tx.sweeps.last(_DOUBTED)
        since = now - _LONGEST if last is None else max(last - _LAG, now - _LONGEST)
        with working(RequestPriority.BACKGROUND), naming(f"the comments in {repository.full_name}"):
            try:
                comments, since = await self._engine.github.own_comments(repository, since)
            except NotFound:
                return  # The App was uninstalled meanwhile: IMQ can correct nothing there.
            await self._resend_unlisted(repository, {each.id for each in comments}, since, now)
            shown = newest(comments)
            unlanded = await self._unlanded(repository, shown)
            for comment in shown:
                await self._correct(repository, comment, unlanded=comment.number in unlanded)
            if doubted is not None and (last is None or last < doubted):
                await self._end_unknown_runs(repository, {comment.number for comment in shown})
        trains = last is None and await self._has_trains(repository)
        async with self._engine.change() as change:
            await change.tx.sweeps.done(stale_comments(repository.id), now)
            if trains:  # An empty database replaces one that may have known their branches.
                await request_lost(change, repository)

    async def _resend_unlisted(
        self, repository: Repository, listed: Collection[int], since: datetime, now: datetime
    ) -> None:
        """Send comments again that the list lacks; `GithubWriter` decides about deleted ones."""
        async with self._engine.change() as change:
            written = await change.tx.outbox.written(repository.id, since + _LAG / 2, now - _LAG / 2)
            for number in sorted(number for number, comment in written.items() if comment not in listed):
                await change.tx.outbox.resend(repository.id, number, due=now)
                _log.info("stale_comment_corrected", repository=repository.full_name, number=number)

    async def _end_unknown_runs(self, repository: Repository, numbers: set[int]) -> None:
        """End check runs of entries that left on heads that a restored backup does not know: IMQ made them since."""
        latest = await self._engine.github.latest_pull_requests(repository)
        async with self._engine.change() as change:
            for pull in (each for each in latest if each.number in numbers):
                notice = await change.tx.outbox.wanted(OutboxKind.COMMENT, repository.id, pull.number)
                queued = await change.tx.entries.is_queued(repository.id, pull.number)
                if queued or notice is None or notice.kind in WAITING or notice.head_sha == pull.head_sha:
                    continue
                await change.tx.outbox.search_first(repository, pull.number, change.now, kind=OutboxKind.CHECK_RUN)
                shown = notice.model_copy(update={"head_sha": pull.head_sha})
                await change.tx.outbox.want(OutboxKind.CHECK_RUN, repository, pull.number, due=change.now, notice=shown)

    async def _has_trains(self, repository: Repository) -> bool:
        queues = await self._engine.store.read(lambda tx: tx.queues.of_repository(repository.id))
        policies = [await self._engine.policies.of(repository, queue.base_branch) for queue in queues]
        return any(policy.trains.enabled for policy in policies)

    async def _unlanded(self, repository: Repository, comments: Iterable[OwnComment]) -> frozenset[int]:
        """Return the pull requests whose comment says "Landed", and that did not land. Raises GitHubError."""
        github, doubted = self._engine.github, {each.number for each in comments if is_landing(each)}
        async with self._engine.store.reading() as tx:
            for number in sorted(doubted):
                wanted = await tx.outbox.wanted(OutboxKind.COMMENT, repository.id, number)
                if wanted is not None and wanted.landed_with is not None:
                    doubted.remove(number)
        if not doubted:
            return frozenset()
        found = [each for each in await github.latest_pull_requests(repository) if each.number in doubted]
        return frozenset(
            [
                each.number
                for each in found
                if each.open and not (await github.comparison(repository, each.base_branch, each.head_sha)).head_landed
            ]
        )

    async def _correct(self, repository: Repository, comment: OwnComment, *, unlanded: bool) -> None:
        """Send the comment again, or announce whether the pull request is queued, if the comment is false."""
        async with self._engine.store.reading() as tx:
            fault = await _fault_of(tx, repository, comment, self._engine.clock.now(), unlanded=unlanded)
            entry = await tx.entries.find(repository.id, comment.number)
        if fault is None:
            return
        pull = None
        if fault is _Fault.CONTRADICTS and entry is None:
            try:
                pull = await self._engine.github.pull_request(repository, comment.number)
            except NotFound:
                return
        branch = entry.base_branch if entry is not None else pull.base_branch if pull is not None else None
        policy = Policy() if branch is None else await self._engine.policies.of(repository, branch)
        async with self._engine.change() as change:
            if await _fault_of(change.tx, repository, comment, change.now, unlanded=unlanded) is not fault:
                return
            if fault is _Fault.OUTDATED:
                await change.tx.outbox.resend(repository.id, comment.number, due=change.now)
                _log.info("stale_comment_corrected", repository=repository.full_name, number=comment.number)
            elif pull is not None:
                await self._announce_not_queued(change, repository, pull, policy)
            else:
                await _announce_queued(change, repository, comment, policy)
            if unlanded:  # Otherwise a landing stays.
                await change.tx.outbox.adopt(repository.id, comment.number, comment.id)

    async def _announce_not_queued(
        self, change: Change, repository: Repository, pull: PullRequest, policy: Policy
    ) -> None:
        if is_withdrawn(left := last_departure(await change.tx.timeline.of_pull_request(repository.id, pull.number))):
            await announce_withdrawn(change, repository, left, policy)
            return
        reason = Reason.NOT_QUEUED if pull.open else Reason.MERGED_ELSEWHERE if pull.merged else Reason.CLOSED
        its_own = pull.number, pull.base_branch, pull.head_sha
        notice = notice_of_pull(*its_own, NoticeKind.CANCELLED, policy, change.now, reason=reason)
        await change.tx.outbox.search_first(repository, pull.number, change.now)
        await announce(change, repository, notice, policy)
        await change.tx.outbox.search_first(repository, pull.number, change.now, kind=OutboxKind.CHECK_RUN)
        await change.tx.outbox.want(OutboxKind.CHECK_RUN, repository, pull.number, due=change.now, notice=notice)
        _log.info("stale_comment_corrected", repository=repository.full_name, number=pull.number, reason=reason.value)


async def _announce_queued(change: Change, repository: Repository, comment: OwnComment, policy: Policy) -> None:
    """Replace an outcome by the progress, also where the configuration asks for outcomes only: it is false now."""
    entry = await change.tx.entries.find(repository.id, comment.number)
    if entry is None or policy.comments.level is CommentPolicy.NONE:
        return
    depth = await change.tx.entries.count(entry.queue_id)
    kind = NOTICE_OF_STATUS[entry.status]
    notice = await progress_notice(change, entry, kind, policy, depth=depth)
    await change.tx.outbox.search_first(repository, comment.number, change.now)
    await change.tx.outbox.want(OutboxKind.COMMENT, repository, comment.number, due=change.now, notice=notice)
    _log.info("stale_comment_corrected", repository=repository.full_name, number=comment.number, reason=kind.value)


async def correct_check_runs(engine: Engine, repository: Repository) -> None:
    """Send check runs again that contradict the queue by IMQ's own records, without a request."""
    async with engine.store.reading() as tx:
        queued = await tx.entries.of_repository(repository.id)
        ended = [each for each in queued if await contradicts(tx, each)]
        unfinished = await tx.outbox.left_unfinished(repository.id)
    policies = {each.base_branch: await engine.policies.of(repository, each.base_branch) for each in ended}
    if not ended and not unfinished:
        return
    async with engine.change() as change:
        for entry in ended:
            present = await change.tx.entries.find(repository.id, entry.number)
            if present is None or not await contradicts(change.tx, present):
                continue
            kind, policy = NOTICE_OF_STATUS[present.status], policies[entry.base_branch]
            depth = await change.tx.entries.count(present.queue_id)
            notice = await progress_notice(change, present, kind, policy, depth=depth)
            await want_check_run(change, present, notice, policy)
    for number, head_sha in unfinished.items():
        await _end_check_run(engine, repository, number, head_sha)


class LostCheckRuns:
    """Writes check runs again that GitHub does not show as IMQ wrote them: it lost the write, or ended a stale one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._found: LRUCache[tuple[int, int], tuple[OwnCheckRun, ...]] = LRUCache(_MOST_FOUND)
        """What IMQ wrote, and what GitHub showed, by pull request: where a second write changes nothing, IMQ stops."""

    async def sweep(self, repository: Repository) -> None:
        """Compare, once an hour, what IMQ wrote since then, in one request, or none if it wrote nothing.

        After a pause all is compared that a month's writes left. If GitHub does not answer, the next sweep compares.
        """
        engine, now = self._engine, self._engine.clock.now()
        async with engine.store.reading() as tx:
            last, doubted = await tx.sweeps.last(compared_runs(repository.id)), await tx.sweeps.last(_DOUBTED)
            since = now - _LONGEST if last is None or (doubted is not None and last < doubted) else last
            if now < since + _COMPARED_EVERY:
                return
            written = await tx.outbox.written_runs(repository.id, since, before := now - _LAG / 2, most=PAGE)
        if not written:
            return
        heads = list(dict.fromkeys(each.run.head_sha for each in written))
        try:
            with working(RequestPriority.BACKGROUND):
                shown = await engine.github.own_check_runs(repository, heads)
        except GitHubError as error:
            _log.info("check_runs_not_compared", repository=repository.full_name, error=error.message)
            return
        async with engine.change() as change:
            for each in written:
                if each.run.head_sha in shown:
                    await self._compare(change, repository, each, shown[each.run.head_sha])
            await change.tx.sweeps.done(
                compared_runs(repository.id), written[-1].at if len(written) == PAGE else before
            )

    async def _compare(
        self, change: Change, repository: Repository, written: OutboxRun, shown: Sequence[OwnCheckRun]
    ) -> None:
        its_own = tuple(each for each in shown if each.id in (None, written.run.id))
        if any(replace(each, id=written.run.id) == written.run for each in its_own):
            return
        found = tuple(replace(each, id=None) for each in (written.run, *its_own))
        if self._found.get(key := (repository.id, written.number)) == found:
            return
        self._found[key] = found
        ended = any(each.conclusion is not None for each in its_own) and written.run.conclusion is None
        if await change.tx.outbox.write_again(repository.id, written, change.now, as_new=ended or not its_own):
            _log.info("lost_check_run_written_again", repository=repository.full_name, number=written.number)


async def _end_check_run(engine: Engine, repository: Repository, number: int, head_sha: str) -> None:
    """Have the check run of an entry that left show its outcome; without known words, that it is not queued."""
    events = await engine.store.read(lambda tx: tx.timeline.of_pull_request(repository.id, number))
    branch = events[-1].base_branch if events else ""
    policy = await engine.policies.of(repository, branch)
    async with engine.change() as change:
        if await change.tx.entries.is_queued(repository.id, number):
            return
        if is_withdrawn(left := last_departure(events)):
            await announce_withdrawn(change, repository, left, policy)
            return
        kinds = (OutboxKind.CHECK_RUN, OutboxKind.COMMENT)
        known = [await change.tx.outbox.wanted(kind, repository.id, number) for kind in kinds]
        ended = (each for each in known if each is not None and each.kind not in {*WAITING, NoticeKind.ANSWERED})
        notice = next(ended, None) or notice_of_pull(
            number, branch, head_sha, NoticeKind.CANCELLED, policy, change.now, reason=Reason.NOT_QUEUED
        )
        await change.tx.outbox.want(OutboxKind.CHECK_RUN, repository, number, due=change.now, notice=notice)


def is_landing(comment: OwnComment) -> bool:
    return kind_of(comment.body) == NoticeKind.LANDED


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


class _Fault(Enum):
    """What is wrong with a comment."""

    OUTDATED = "outdated"
    """GitHub shows an older one than IMQ wrote, as it did after it lost a write."""
    CONTRADICTS = "contradicts"
    """It contradicts the queue, and the database knows no better words."""


async def _fault_of(
    tx: Transaction, repository: Repository, comment: OwnComment, now: datetime, *, unlanded: bool
) -> _Fault | None:
    kind = kind_of(comment.body)
    if kind == NoticeKind.LANDED and not unlanded:
        return None
    queued = await tx.entries.is_queued(repository.id, comment.number)
    wanted = await tx.outbox.wanted(OutboxKind.COMMENT, repository.id, comment.number)
    written = await tx.outbox.shown_since(OutboxKind.COMMENT, repository.id, comment.number)
    other = wanted is not None and wanted.kind != kind and (wanted.kind in WAITING) == queued
    lost = written is not None and comment.updated_at < written < now - _LAG
    if other and (unlanded or lost):
        return _Fault.OUTDATED
    if unlanded:
        return _Fault.CONTRADICTS
    if queued == (kind in WAITING):
        return None
    if wanted is None or (wanted.kind is not NoticeKind.LANDED and comment.updated_at > wanted.at + _LAG):
        return _Fault.CONTRADICTS
    return None
