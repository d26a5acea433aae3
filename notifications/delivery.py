"""How one letter reaches GitHub so that it may be sent twice and is seen once.

The race: a process may die after GitHub created a comment or a check run and before its id is stored. Therefore
`unsure` is committed on its own before every creation, and whoever finds it set looks for IMQ's marker (or external
id) on GitHub before creating anything. Updates need no such care: sent twice, they say the same.

A comment that somebody must act on replaces the one that stands: it is created first, both ids are noted, then the old
one is deleted. `announced_at` tells which notice the newest comment was created for, so that it is created once.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC

import structlog
from cachetools import LRUCache

from notifications import texts
from notifications.check_run import completes, external_id, render_check_run
from notifications.comment import MARKER, kind_of, must_act, render_comment
from notifications.story import MOST_LINES, Events
from queue_engine.checks import OWN_CHECK
from queue_engine.core.clock import Clock
from queue_engine.core.urgency import Priority, working
from queue_engine.errors import Forbidden, GitHubError, Invalid, NotFound, Unavailable
from queue_engine.notice import CommandAnswer, Notice, NoticeKind
from queue_engine.port import Letters
from queue_engine.reasons import Reason
from queue_engine.store import Store
from queue_engine.store.outbox import Letter, LetterKind
from queue_engine.telling import renewed

log = structlog.get_logger(__name__)

_OF_LOST_ENTRIES = frozenset({Reason.NOT_QUEUED, Reason.MERGED_ELSEWHERE})
"""Reasons that may tell of an entry that a lost database had: IMQ itself may have landed it."""


class Delivery:
    """Brings what stands on GitHub to what a claimed letter wants, and notes that it does."""

    def __init__(self, store: Store, letters: Letters, clock: Clock) -> None:
        self._store = store
        self._letters = letters
        self._clock = clock
        self._looked: LRUCache[int, int] = LRUCache(1000)
        """By letter, the deleted comment in whose place another one was looked for."""

    async def send(self, letter: Letter) -> None:
        """Send it and mark it done. Raises the errors of the port, with everything that did happen noted."""
        async with self._store.reading() as tx:
            merges_waiting = await tx.entries.count_of_installation(letter.repository.installation_id)
        with working(yields_to=merges_waiting):
            await self._send(letter)

    async def _send(self, letter: Letter) -> None:
        if letter.kind is LetterKind.LABEL_OFF:
            for label in letter.labels:
                await self._letters.remove_label(letter.repository, letter.number, label)
            await self._done(letter)
            return
        assert letter.notice is not None
        if letter.kind is LetterKind.COMMENT:
            await self._comment(letter, letter.notice)
        else:
            with working(Priority.NOW if completes(letter.notice) else Priority.BACKGROUND):
                await self._check_run(letter, letter.notice)

    async def _comment(self, letter: Letter, notice: Notice) -> None:
        async with self._store.reading() as tx:
            answer = await tx.answers.find(letter.repository.id, letter.number)
            notice = await renewed(tx, letter.repository, notice, self._clock.now())
        urgent = must_act(notice) or _unseen(answer, letter)
        with working(Priority.NOW if urgent else Priority.BACKGROUND):
            await self._write_comment(letter, notice, answer)

    async def _write_comment(self, letter: Letter, notice: Notice, answer: CommandAnswer | None) -> None:
        body = render_comment(notice, events=await self._story(letter, notice), answer=answer)
        standing = await self._standing(letter, notice)
        known = standing.comment_id
        if known is not None and standing.landed and notice.kind is not NoticeKind.LANDED:
            # This database is older than what stands there, or was empty: what has landed stays landed.
            await self._stays_landed(letter, known)
            return
        if known is not None and (standing.announced or not must_act(notice)):
            try:
                await self._letters.update_comment(letter.repository, known, body)
            except NotFound:
                if self._looked.get(letter.id) != known:
                    # This database may be older than what stands there: another may have replaced it.
                    self._looked[letter.id] = known
                    await self._write_comment(replace(letter, unsure=True), notice, answer)
                    return
                # Somebody deleted it and wants to hear no more of IMQ's progress. The id is kept, so that later
                # notices end here as well; only what somebody must act on, and what somebody has asked for since,
                # are worth a new comment.
                if not must_act(notice) and not _unseen(answer, letter):
                    await self._done(letter)
                    return
                known = None
            else:
                await self._delete(letter, standing.older)
                await self._stands(letter, known)
                return
        await self._delete(letter, standing.older)
        created = await self._create_comment(letter, body)
        if known is not None:
            async with self._store.transaction() as tx:
                await tx.outbox.created(letter, created, superseded_id=known)
            if not await self._delete_one(letter, known):
                bodies = await self._letters.find_comments(letter.repository, letter.number, MARKER)
                await self._delete(letter, tuple(set(bodies) - {created}))
        await self._stands(letter, created)

    async def _create_comment(self, letter: Letter, body: str) -> int:
        """Create a comment. What GitHub refused, or was never asked, was not created, and need not be looked for."""
        await self._mark_unsure(letter)
        try:
            return await self._letters.create_comment(letter.repository, letter.number, body)
        except Unavailable:
            raise
        except GitHubError:
            async with self._store.transaction() as tx:
                await tx.outbox.not_created(letter)
            raise

    async def _delete(self, letter: Letter, superseded: tuple[int, ...]) -> None:
        for comment_id in superseded:
            await self._delete_one(letter, comment_id)

    async def _delete_one(self, letter: Letter, comment_id: int) -> bool:
        """Delete a superseded comment; False when it was gone.

        Where GitHub forbids it the old comment stays: that must keep nobody from reading the new one.
        """
        try:
            return await self._letters.delete_comment(letter.repository, comment_id)
        except Forbidden as error:
            log.warning("comment_not_deleted", comment_id=comment_id, message=error.message)
            return True

    async def _standing(self, letter: Letter, notice: Notice) -> "_Standing":
        """What stands on GitHub, as far as the row knows.

        It is looked for where a creation may have been lost or the known one is gone, and where somebody else is said
        to have merged: that may have been IMQ itself, before its database was restored.
        """
        older = () if letter.superseded_id is None else (letter.superseded_id,)
        announced = letter.notice is not None and letter.announced_at == letter.notice.at
        if not letter.unsure and notice.reason is not Reason.MERGED_ELSEWHERE:
            return _Standing(letter.remote_id, older, announced)
        # One may stand in the place of the known one, too, if that was deleted.
        bodies = await self._letters.find_comments(letter.repository, letter.number, MARKER)
        found = sorted(bodies)
        if not found:
            return _Standing(letter.remote_id, older, announced=False)
        landed = kind_of(bodies[found[-1]]) == NoticeKind.LANDED
        # A newer one than the known one is what the lost creation made, for the notice at `announced_at`.
        newer = letter.remote_id is None or found[-1] > letter.remote_id
        return _Standing(found[-1], tuple(dict.fromkeys((*older, *found[:-1]))), announced and newer, landed)

    async def _check_run(self, letter: Letter, notice: Notice) -> None:
        identity = external_id(letter.repository, notice)
        run = render_check_run(notice, external_id=identity, events=await self._story(letter, notice))
        known = letter.remote_id if letter.remote_head == notice.head_sha else None
        if known is None and letter.remote_id is not None:
            await self._supersede(letter, letter.remote_id)
        if notice.reason in _OF_LOST_ENTRIES or (letter.unsure and notice.reason is Reason.CLOSED):
            known = await self._unfinished(letter, notice, identity, known)
            if known is None:
                await self._over(letter)
                return
        elif known is None and letter.unsure:
            known = await self._letters.find_check_run(letter.repository, notice.head_sha, OWN_CHECK, identity)
        if known is not None:
            try:
                changes = {name: value for name, value in run.items() if name != "head_sha"}
                await self._letters.update_check_run(letter.repository, known, changes)
            except NotFound:
                known = None
        if known is None:
            await self._mark_unsure(letter)
            known = await self._letters.create_check_run(letter.repository, run)
        # A completed run is not touched again: GitHub does not take its conclusion back when it is asked to run
        # once more, so the next stay in the queue gets a run of its own.
        await self._stands(letter, known, head=notice.head_sha, over=completes(notice))

    async def _unfinished(self, letter: Letter, notice: Notice, identity: str, known: int | None) -> int | None:
        """The run to complete, if there is one. This database may be older than what stands there, or was empty: what
        has ended stays as it ended. A list that lags may lack the known one."""
        of_head = (letter.repository, notice.head_sha, OWN_CHECK, identity)
        found = await self._letters.find_check_run(*of_head, unfinished=True)
        if found is not None or known is None:
            return found
        return None if await self._letters.find_check_run(*of_head) is not None else known

    async def _over(self, letter: Letter) -> None:
        """There is nothing to write: the run is over, or there never was one."""
        async with self._store.transaction() as tx:
            await tx.outbox.lost(letter)
            await tx.outbox.done(letter, self._clock.now())

    async def _story(self, letter: Letter, notice: Notice) -> Events:
        """What happened by now: more than the notice knows if something happened since it was wanted."""
        async with self._store.reading() as tx:
            return await tx.timeline.story(
                letter.repository.id, notice.base_branch, letter.number, limit=2 * MOST_LINES
            )

    async def _supersede(self, letter: Letter, run_id: int) -> None:
        """Complete the run on a head that is no longer the one tested: it would show as running for weeks.

        That is tidiness: a run that GitHub will not change must not cost the new one.
        """
        with suppress(NotFound, Invalid):
            await self._letters.update_check_run(
                letter.repository,
                run_id,
                {
                    "name": OWN_CHECK,
                    "status": "completed",
                    "conclusion": "neutral",
                    "completed_at": f"{self._clock.now().astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
                    "output": {"title": texts.SUPERSEDED_TITLE, "summary": texts.SUPERSEDED_SUMMARY},
                },
            )

    async def _mark_unsure(self, letter: Letter) -> None:
        async with self._store.transaction() as tx:
            await tx.outbox.mark_unsure(letter)

    async def _stands(self, letter: Letter, remote_id: int, *, head: str | None = None, over: bool = False) -> None:
        """Note in one transaction under which id it stands on GitHub, or that it is `over`, and that it is done."""
        async with self._store.transaction() as tx:
            if over:
                await tx.outbox.lost(letter)
            elif letter.unsure or (letter.remote_id, letter.remote_head) != (remote_id, head) or letter.superseded_id:
                await tx.outbox.created(letter, remote_id, head)
            await tx.outbox.done(letter, self._clock.now())

    async def _stays_landed(self, letter: Letter, remote_id: int) -> None:
        """Note which comment says "Landed", and that each later notice has to look at it again."""
        async with self._store.transaction() as tx:
            await tx.outbox.created(letter, remote_id)
            await tx.outbox.mark_unsure(letter)
            await tx.outbox.done(letter, self._clock.now())

    async def _done(self, letter: Letter) -> None:
        async with self._store.transaction() as tx:
            await tx.outbox.done(letter, self._clock.now())


def _unseen(answer: CommandAnswer | None, letter: Letter) -> bool:
    """Whether nobody can have read this answer: it is not older than what was done last."""
    return answer is not None and answer.at >= letter.settled_at


@dataclass(frozen=True, slots=True)
class _Standing:
    """The comment that stands, those that it replaces, and whether it was created for the notice that is wanted."""

    comment_id: int | None
    older: tuple[int, ...]
    announced: bool
    landed: bool = False
