"""How one letter reaches GitHub so that it may be sent twice and is seen once.

The race: a process may die after GitHub created a comment or a check run and before its id is stored. Therefore
`unsure` is committed on its own before every creation, and whoever finds it set looks for IMQ's marker (or external
id) on GitHub before creating anything. Updates need no such care: sent twice, they say the same.
"""

from contextlib import suppress
from datetime import UTC

from notifications import texts
from notifications.body import WAITING
from notifications.check_run import completes, external_id, render_check_run
from notifications.comment import MARKER, render_comment
from notifications.story import MOST_LINES, Events
from queue_engine.checks import OWN_CHECK
from queue_engine.core.clock import Clock
from queue_engine.errors import Invalid, NotFound
from queue_engine.notice import CommandAnswer, Notice
from queue_engine.port import Letters
from queue_engine.reasons import REASONS, Move
from queue_engine.store import Store
from queue_engine.store.outbox import Letter, LetterKind


class Delivery:
    """Brings what stands on GitHub to what a claimed letter wants, and notes that it does."""

    def __init__(self, store: Store, letters: Letters, clock: Clock) -> None:
        self._store = store
        self._letters = letters
        self._clock = clock

    async def send(self, letter: Letter) -> None:
        """Send it and mark it done. Raises the errors of the port, with everything that did happen noted."""
        if letter.kind is LetterKind.LABEL_OFF:
            for label in letter.labels:
                await self._letters.remove_label(letter.repository, letter.number, label)
            await self._done(letter)
            return
        assert letter.notice is not None
        if letter.kind is LetterKind.COMMENT:
            await self._comment(letter, letter.notice)
        else:
            await self._check_run(letter, letter.notice)

    async def _comment(self, letter: Letter, notice: Notice) -> None:
        async with self._store.reading() as tx:
            answer = await tx.answers.find(letter.repository.id, letter.number)
        body = render_comment(notice, events=await self._story(letter, notice), answer=answer)
        known = letter.remote_id
        if letter.unsure:
            # One may stand in the place of the known one, too, if that was deleted.
            known = await self._letters.find_comment(letter.repository, letter.number, MARKER) or known
        if known is not None:
            try:
                await self._letters.update_comment(letter.repository, known, body)
            except NotFound:
                # Somebody deleted it and wants to hear no more of IMQ's progress. The id is kept, so that later
                # notices end here as well; only what the author must act on, and what somebody has asked for since,
                # are worth a new comment.
                if not _must_act(notice) and not _unseen(answer, letter):
                    await self._done(letter)
                    return
            else:
                await self._stands(letter, known)
                return
        await self._mark_unsure(letter)
        created = await self._letters.create_comment(letter.repository, letter.number, body)
        await self._stands(letter, created)

    async def _check_run(self, letter: Letter, notice: Notice) -> None:
        identity = external_id(letter.repository, notice)
        run = render_check_run(notice, external_id=identity, events=await self._story(letter, notice))
        known = letter.remote_id if letter.remote_head == notice.head_sha else None
        if known is None and letter.remote_id is not None:
            await self._supersede(letter, letter.remote_id)
        if known is None and letter.unsure:
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
            elif letter.unsure or (letter.remote_id, letter.remote_head) != (remote_id, head):
                await tx.outbox.created(letter, remote_id, head)
            await tx.outbox.done(letter, self._clock.now())

    async def _done(self, letter: Letter) -> None:
        async with self._store.transaction() as tx:
            await tx.outbox.done(letter, self._clock.now())


def _unseen(answer: CommandAnswer | None, letter: Letter) -> bool:
    """Whether nobody can have read this answer: it is not older than what was done last."""
    return answer is not None and answer.at >= letter.settled_at


def _must_act(notice: Notice) -> bool:
    """Whether the author has to read this for the pull request ever to land."""
    if notice.reason is None or notice.kind in WAITING:
        return False
    return REASONS[notice.reason].move is Move.AUTHOR
