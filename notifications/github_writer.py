"""Write one outbox item to GitHub, so that it appears once although it may be sent twice.

The race: a process may die after GitHub created a comment or a check run and before its id is stored. Therefore
`maybe_created` is committed on its own before every creation, and a writer that finds it set looks for IMQ's marker (or
external id) on GitHub before creating anything. A search that finds nothing counts once reads show the request: until
then the item waits. Updates need no such care: sent twice, they say the same.

A notice that needs a person's action replaces the old comment: the writer creates the new comment, stores both ids, and
then deletes the old one. `announced_at` is the notice for which the newest comment was created.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog
from cachetools import LRUCache

from notifications.render.comment import (
    completes,
    external_id,
    must_act,
    render_check_run,
    render_comment,
    unmerged_conclusion,
)
from notifications.render.timeline_text import MOST_LINES, Events
from notifications.render.train_text import with_candidate_page
from notifications.texts import headlines
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import Forbidden, GitHubError, Invalid, NotFound, ReadLagError, Refused, Unavailable
from queue_engine.domain.facts import OWN_CHECK, OwnCheckRun
from queue_engine.domain.notice import QUESTIONS, WAITING, CommandReply, Notice, NoticeKind, kind_of
from queue_engine.domain.port import Comments
from queue_engine.domain.reasons import Reason
from queue_engine.effects.notices import renewed
from queue_engine.queries.pull_request_status import ReplyFacts, load_reply_facts
from queue_engine.rules.policies import Policies
from queue_engine.store import Store
from queue_engine.store.outbox.items import READS_LAG, OutboxItem, OutboxKind

log = structlog.get_logger(__name__)

_OF_LOST_ENTRIES = frozenset({Reason.NOT_QUEUED, Reason.MERGED_ELSEWHERE})
"""Reasons of entries that a lost database may have had: IMQ itself may have landed them."""

_TESTED = frozenset({NoticeKind.UPDATING, NoticeKind.CHECKING, NoticeKind.READY})
_SHOWN_TO_MAINTAINERS = frozenset({Reason.MISCONFIGURED, Reason.TREE_MISMATCH})


class GithubWriter:
    """Updates GitHub to the content of a claimed item, and stores the result."""

    def __init__(self, store: Store, github: Comments, clock: Clock) -> None:
        self._store = store
        self._github = github
        self._clock = clock
        self._searched: LRUCache[int, int] = LRUCache(1000)
        """By item, the deleted comment after which the writer searched for another one."""
        self.policies: Policies | None = None
        """For replies; None: the stored state is enough."""
        self.website: str | None = None
        """GitHub's, for links; None: without links."""

    async def send(self, item: OutboxItem) -> None:
        """Send an item and mark it done. Raises the errors of the port; completed writes are stored before."""
        async with self._store.reading() as tx:
            ahead = await tx.entries.landable(item.repository.installation_id, self._clock.now())
        with working(yields_to=ahead):
            await self._send(item)

    async def _send(self, item: OutboxItem) -> None:
        if item.kind is OutboxKind.LABEL:
            change = self._github.add_label if item.label_on else self._github.remove_label
            await change(item.repository, item.number, item.label)
            await self._done(item)
            return
        assert item.notice is not None
        notice = with_candidate_page(item.notice, item.repository.full_name, self.website)
        if item.kind is OutboxKind.COMMENT:
            await self._comment(item, notice)
        else:
            urgent = completes(notice) or item.remote_id is None
            with working(RequestPriority.NOW if urgent else RequestPriority.BACKGROUND):
                await self._check_run(item, notice)

    async def _comment(self, item: OutboxItem, notice: Notice) -> None:
        async with self._store.reading() as tx:
            reply = await tx.answers.find(item.repository.id, item.number)
            notice = await renewed(tx, item.repository, notice, self._clock.now())
        urgent = must_act(notice) or _is_unread(reply, item)
        with working(RequestPriority.NOW if urgent else RequestPriority.BACKGROUND):
            await self._write_comment(item, notice, reply)

    async def _write_comment(self, item: OutboxItem, notice: Notice, reply: CommandReply | None) -> None:
        facts = None if reply is None else await self._reply_facts(item, reply)
        body = render_comment(notice, events=await self._history(item, notice), answer=reply, facts=facts)
        existing = await self._find_existing(item, notice)
        known = existing.comment_id
        if existing.waiting:
            await self._adopt_check_run(item, notice)
        if known is not None and existing.landed and notice.kind is not NoticeKind.LANDED:
            # This database is older than the comment, or was empty: a landed pull request stays landed.
            await self._keep_landed(item, known)
            return
        if known is not None and (existing.announced or not must_act(notice)):
            try:
                await self._github.update_comment(item.repository, known, body)
            except NotFound:
                if self._searched.get(item.id) != known:
                    # This database may be older than GitHub's comments: another comment may have replaced this one.
                    self._searched[item.id] = known
                    again = replace(item, maybe_created=True, create_requested_at=None)
                    await self._write_comment(again, notice, reply)
                    return
                # A person deleted the comment, so IMQ reports no more progress. The id is kept, so that later notices
                # end here as well. Only a notice that needs an action, or an unread reply, gets a new comment.
                if not must_act(notice) and not _is_unread(reply, item):
                    # Nothing was written: the sweep of comments looks for what was.
                    await self._done(item, item.settled_at)
                    return
                known = None
            else:
                await self._delete(item, existing.older)
                await self._record_written(item, known)
                return
        await self._delete(item, existing.older)
        if known is not None and known != item.remote_id:
            await self._store.write(lambda tx: tx.outbox.created(item, known))
        create = partial(self._github.create_comment, item.repository, item.number, body)
        created = await self._create(item, create)
        if known is not None:
            await self._store.write(lambda tx: tx.outbox.created(item, created, superseded_id=known))
            if not await self._delete_one(item, known):
                bodies = await self._github.find_comments(item.repository, item.number)
                await self._delete(item, tuple(set(bodies) - {created}))
        await self._record_written(item, created)

    async def _reply_facts(self, item: OutboxItem, reply: CommandReply) -> ReplyFacts | None:
        """Load what the commands ask; without the configuration if GitHub does not answer."""
        base = next((str(each.facts["base_branch"]) for each in reply.replies if each.code in QUESTIONS), None)
        if base is None:
            return None
        policy = None
        if self.policies is not None:
            with suppress(GitHubError):
                policy = await self.policies.of(item.repository, base)
        async with self._store.reading() as tx:
            return await load_reply_facts(tx, item.repository.id, item.number, base, policy, self._clock.now())

    async def _create(self, item: OutboxItem, create: Callable[[], Awaitable[int]]) -> int:
        """Create a comment or check run. After a refusal by GitHub, nothing was created and no search is needed."""
        await self._store.write(lambda tx: tx.outbox.mark_maybe_created(item, self._clock.now()))
        try:
            return await create()
        except GitHubError as error:
            if not isinstance(error, Unavailable) or (isinstance(error, Refused) and error.disorder is not None):
                await self._store.write(lambda tx: tx.outbox.not_created(item))
            raise

    async def _delete(self, item: OutboxItem, superseded: tuple[int, ...]) -> None:
        for comment_id in superseded:
            await self._delete_one(item, comment_id)

    async def _delete_one(self, item: OutboxItem, comment_id: int) -> bool:
        """Delete a superseded comment; False when it was gone. Where GitHub forbids that, the old one stays, too."""
        try:
            return await self._github.delete_comment(item.repository, comment_id)
        except Forbidden as error:
            log.warning("comment_not_deleted", comment_id=comment_id, message=error.message)
            return True

    async def _find_existing(self, item: OutboxItem, notice: Notice) -> "_ExistingComment":
        """Find IMQ's comment on GitHub.

        The writer searches GitHub if a created comment may be unknown or the known one is gone. It also searches if the
        merge happened elsewhere: that may have been IMQ itself, before its database was restored.
        """
        older = () if item.superseded_id is None else (item.superseded_id,)
        announced = item.notice is not None and item.announced_at == item.notice.at
        if not item.maybe_created and notice.reason is not Reason.MERGED_ELSEWHERE:
            return _ExistingComment(item.remote_id, older, announced)
        # A deleted comment may have a successor, too.
        bodies = await self._github.find_comments(item.repository, item.number)
        found = sorted(bodies)
        # A comment newer than the known one was created for the notice at `announced_at`.
        newer = max(found, default=0) > (item.remote_id or 0)
        if not newer:
            self._wait_for_reads(item)
        if not found:
            return _ExistingComment(item.remote_id, older, announced=False)
        kind = kind_of(bodies[found[-1]])
        superseded = tuple(dict.fromkeys((*older, *found[:-1])))
        return _ExistingComment(found[-1], superseded, announced and newer, kind == NoticeKind.LANDED, kind in WAITING)

    def _wait_for_reads(self, item: OutboxItem) -> None:
        """Raise ReadLagError while a search may miss what the last request created, which it did not find."""
        if item.maybe_created and item.create_requested_at is not None:
            left = item.create_requested_at + READS_LAG - self._clock.now()
            if left > timedelta(0):
                raise ReadLagError("reads may not show yet what IMQ created", retry_after=left)

    async def _adopt_check_run(self, item: OutboxItem, notice: Notice) -> None:
        """Have the unfinished check run of a lost database show this notice before its comment does (P6)."""
        identity, now = external_id(item.repository, notice), self._clock.now()
        of_head = (item.repository, notice.head_sha, OWN_CHECK, identity)
        async with self._store.transaction() as tx:
            known = await tx.outbox.wanted(OutboxKind.CHECK_RUN, item.repository.id, item.number)
            await tx.outbox.search_first(item.repository, item.number, now, kind=OutboxKind.CHECK_RUN)
        if known is not None or await self._github.find_check_run(*of_head, unfinished=True) is None:
            return
        async with self._store.transaction() as tx:
            await tx.outbox.want(OutboxKind.CHECK_RUN, item.repository, item.number, due=now, notice=notice)

    async def _check_run(self, item: OutboxItem, notice: Notice) -> None:
        identity = external_id(item.repository, notice)
        run = render_check_run(notice, external_id=identity, events=await self._history(item, notice))
        known = item.remote_id if item.remote_head == notice.head_sha else None
        if known is None and item.remote_id is not None:
            await self._supersede(item, item.remote_id, unmerged_conclusion(notice))
        elif known is None:
            # The comment, which was sent since this item was claimed, may have shown that the database was lost.
            item = await self._store.read(lambda tx: tx.outbox.refreshed(item))
        if notice.reason in _OF_LOST_ENTRIES or _may_be_none(item, notice):
            known = await self._find_unfinished(item, notice, identity, known)
            if known is None:
                self._wait_for_reads(item)
                await self._record_nothing_written(item)
                return
        elif known is None and item.maybe_created:
            # A run that has ended stays as it is: of an earlier time in the queue, or of a merge that failed.
            of_head = (item.repository, notice.head_sha, OWN_CHECK, identity)
            unfinished = notice.own_check_required or not completes(notice)
            known = await self._github.find_check_run(*of_head, unfinished=unfinished)
            if known is None:
                self._wait_for_reads(item)
        if known is not None:
            try:
                changes = {name: value for name, value in run.items() if name != "head_sha"}
                await self._github.update_check_run(item.repository, known, changes)
            except NotFound:
                known = None
        if known is None:
            known = await self._create(item, partial(self._github.create_check_run, item.repository, run))
        # A completed run is final: GitHub keeps its conclusion, so the next time in the queue gets a run of its own.
        written = OwnCheckRun(notice.head_sha, known, run["status"], run.get("conclusion"), run["output"]["title"])
        await self._record_written(item, known, run=written, completed=completes(notice))
        if notice.merges_now:
            await self._wake(item)

    async def _wake(self, item: OutboxItem) -> None:
        """Wake the queue of a pull request whose check run has passed: IMQ merges it now."""
        async with self._store.transaction() as tx:
            if (entry := await tx.entries.find(item.repository.id, item.number)) is not None:
                await tx.queues.wake(entry.queue_id, self._clock.now())

    async def _find_unfinished(self, item: OutboxItem, notice: Notice, identity: str, known: int | None) -> int | None:
        """Find the run to complete. This database may be older than GitHub's runs, or was empty: a completed run is
        final. A list that lags may lack the known run."""
        of_head = (item.repository, notice.head_sha, OWN_CHECK, identity)
        found = await self._github.find_check_run(*of_head, unfinished=True)
        if found is not None or known is None:
            return found
        return None if await self._github.find_check_run(*of_head) is not None else known

    async def _record_nothing_written(self, item: OutboxItem) -> None:
        """Mark the item done without a write: the run is completed, or there never was one."""
        async with self._store.transaction() as tx:
            await tx.outbox.lost(item)
            await tx.outbox.done(item, self._clock.now())

    async def _history(self, item: OutboxItem, notice: Notice) -> Events:
        """Load the events of the pull request, including those after the notice."""
        async with self._store.reading() as tx:
            return await tx.timeline.history(item.repository.id, notice.base_branch, item.number, limit=2 * MOST_LINES)

    async def _supersede(self, item: OutboxItem, run_id: int, conclusion: str) -> None:
        """Complete the run on a superseded head, which would show as running for weeks; a refusal changes nothing."""
        with suppress(NotFound, Invalid):
            await self._github.update_check_run(
                item.repository,
                run_id,
                {
                    "name": OWN_CHECK,
                    "status": "completed",
                    "conclusion": conclusion,
                    "completed_at": f"{self._clock.now().astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
                    "output": {"title": headlines.SUPERSEDED_TITLE, "summary": headlines.SUPERSEDED_SUMMARY},
                },
            )

    async def _record_written(
        self, item: OutboxItem, remote_id: int, *, run: OwnCheckRun | None = None, completed: bool = False
    ) -> None:
        """Store in one transaction the id on GitHub, or that the run is `completed`, and that the item is done."""
        head = None if run is None else run.head_sha
        async with self._store.transaction() as tx:
            if completed:
                await tx.outbox.lost(item)
            elif item.maybe_created or (item.remote_id, item.remote_head) != (remote_id, head) or item.superseded_id:
                await tx.outbox.created(item, remote_id, head)
            await tx.outbox.done(item, self._clock.now(), written=run)

    async def _keep_landed(self, item: OutboxItem, remote_id: int) -> None:
        """Store the id of the comment that says "Landed", and that each later notice searches for it again."""
        async with self._store.transaction() as tx:
            await tx.outbox.created(item, remote_id)
            await tx.outbox.mark_maybe_created(item)
            await tx.outbox.done(item, self._clock.now())

    async def _done(self, item: OutboxItem, at: datetime | None = None) -> None:
        await self._store.write(lambda tx: tx.outbox.done(item, at or self._clock.now()))


def _may_be_none(item: OutboxItem, notice: Notice) -> bool:
    """Whether IMQ does not know that there is a check run, so that none is created only to end."""
    if not item.maybe_created:
        return False
    needed = notice.merges_now or notice.kind in _TESTED or notice.reason in _SHOWN_TO_MAINTAINERS
    return notice.reason is Reason.CLOSED or (item.announced_at is None and not needed)


def _is_unread(reply: CommandReply | None, item: OutboxItem) -> bool:
    """Whether this reply was not sent yet: it is not older than the last write."""
    return reply is not None and reply.at >= item.settled_at


@dataclass(frozen=True, slots=True)
class _ExistingComment:
    """The comment on GitHub, those that it replaces, and whether it was created for the current notice."""

    comment_id: int | None
    older: tuple[int, ...]
    announced: bool
    landed: bool = False
    waiting: bool = False
    """Whether it was searched for, and says that the pull request is queued."""
