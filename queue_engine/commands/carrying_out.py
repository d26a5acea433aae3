"""Commands are carried out: taken up, done one after another, answered in the one comment.

A command is followed as the job of its comment. What a command does to the queue is stored in the transaction of its
answer, and what it does on GitHub may be done twice; so whoever takes over from a process that died goes on behind the
last answer that is stored, and nothing is done twice or left half done.
"""

import structlog

from queue_engine import telling
from queue_engine.commands.asked import Asked, misread
from queue_engine.commands.catalogue import MOST_COMMANDS, Command, Name, Right
from queue_engine.commands.codes import ReplyCode
from queue_engine.commands.looking import status, why
from queue_engine.commands.queueing import call_off, queue, requeue, unqueue
from queue_engine.commands.reading import Misread, Typed, read
from queue_engine.commands.wheel import freeze, pause, prioritise, resume
from queue_engine.engine import Change, Engine
from queue_engine.errors import Forbidden, Invalid, NotFound
from queue_engine.hints import Hint
from queue_engine.model import Repository
from queue_engine.notice import CommandAnswer, Reply
from queue_engine.store.answers import KEPT
from queue_engine.throttle import TRUSTED, asking, count_without_right, is_outsider, is_throttled

_log = structlog.get_logger("imq.commands")

_STEERING = {
    Name.PAUSE: pause,
    Name.RESUME: resume,
    Name.FREEZE: freeze,
    Name.PRIORITY: prioritise,
    Name.UNQUEUE: unqueue,
}
_LOOKING = {Name.WHY: why, Name.STATUS: status}


class Commands:
    """Carries out what people ask for in comments."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def carry_out(self, repository: Repository, hint: Hint) -> None:
        """Do what a comment says, and answer it. Raises GitHubError and StaleVersion: to be done again then."""
        number, comment, by = hint.number, hint.comment_id, hint.sender
        if number is None or comment is None or by is None or hint.sender_is_bot or not hint.commands:
            return
        if hint.updated_at is not None and hint.updated_at < self._engine.clock.now() - KEPT:
            # Whether it was answered is not known any more.
            return
        async with self._engine.store.reading() as tx:
            answer = await tx.answers.find(repository.id, number, comment_id=comment)
        replies = () if answer is None else answer.replies
        if not replies and not await self._heard(repository, hint, by):
            return
        wanted = min(len(hint.commands), MOST_COMMANDS + 1)
        if not replies and not await self._react(repository, comment, "eyes"):
            return
        if len(replies) < wanted:
            asked = await self._asked(repository, hint, by)
            if not asked.pull.open:
                await self._react(repository, comment, "confused")
                return
            for line in hint.commands[len(replies) : wanted]:
                replies = await self._answer(asked, comment, line, replies)
        await self._count(repository, hint, by, replies)
        accepted = all(reply.accepted for reply in replies)
        await self._react(repository, comment, "+1" if accepted else "confused")

    async def _heard(self, repository: Repository, hint: Hint, by: str) -> bool:
        """Whether this comment is answered. Raises GitHubError.

        A stranger has answers to what everybody may ask, and the author of the pull request to everything; both are
        counted as if they had no right to it. What everybody may ask is counted by itself.
        """
        rights = [command.right for command in _commands(hint)]
        who = asking(by) if rights and set(rights) == {Right.ANYBODY} else by
        if await is_throttled(self._engine, repository, who):
            return False
        if hint.association in TRUSTED:
            return True
        is_author = hint.author is not None and by.casefold() == hint.author.casefold()
        if is_author or Right.ANYBODY in rights:
            async with self._engine.change() as change:
                await count_without_right(change, repository, who)
            return True
        return not await is_outsider(self._engine, repository, by)

    async def _count(self, repository: Repository, hint: Hint, by: str, replies: tuple[Reply, ...]) -> None:
        """Count a comment none of whose commands its author had the right to; else forget the count.

        What everybody may ask proves no right.
        """
        codes = [reply.code for line, reply in zip(hint.commands, replies, strict=False) if _takes_right(line)]
        if not codes:
            return
        async with self._engine.change() as change:
            if all(code is ReplyCode.NOT_ALLOWED for code in codes):
                await count_without_right(change, repository, by)
            else:
                await change.tx.throttles.clear(repository.id, by)

    async def _asked(self, repository: Repository, hint: Hint, by: str) -> Asked:
        """One snapshot tells all that a command is judged by, with the person's right where one of them takes it."""
        rights = {command.right for command in _commands(hint)}
        login = by if rights & {Right.QUEUEING, Right.STEERING} else None
        taken = await self._engine.github.snapshot(repository, hint.number or 0, login=login)
        policy = await self._engine.policies.of(repository, taken.pull.base_branch)
        async with self._engine.change() as change:
            await change.tx.queues.refresh_repository(repository)
        return Asked(self._engine, repository, taken, policy, by, hint.updated_at, hint.delivery)

    async def _react(self, repository: Repository, comment: int, content: str) -> bool:
        """Show that a command was taken up, or what became of it; False: who typed it has deleted it since."""
        try:
            await self._engine.github.react(repository, comment, content)
        except NotFound:
            return False
        except (Forbidden, Invalid) as refused:
            _log.warning("reaction_refused", repository=repository.full_name, error=refused.message)
        return True

    async def _answer(self, asked: Asked, comment: int, line: str, before: tuple[Reply, ...]) -> tuple[Reply, ...]:
        """Carry out one command, and store its answer behind those `before`."""
        if len(before) >= MOST_COMMANDS:
            facts = {"limit": MOST_COMMANDS}
            return await self._keep(
                asked, comment, Reply(command=line, accepted=False, code=ReplyCode.TOO_MANY, facts=facts), before
            )
        typed = read(line)
        if isinstance(typed, Misread):
            return await self._keep(asked, comment, misread(typed.line, typed.command, typed.argument), before)
        refusal = await asked.refusal(typed) or await self._prepared(asked, typed)
        if refusal is not None:
            return await self._keep(asked, comment, refusal, before)
        async with self._engine.change() as change:
            reply = await self._settled(change, asked, typed)
            return await self._put(change, asked, comment, (*before, reply))

    async def _prepared(self, asked: Asked, typed: Typed) -> Reply | None:
        """Do what takes GitHub's answers; the reply, unless there is more to do in one transaction."""
        try:
            match typed.command.name:
                case Name.QUEUE:
                    return await queue(asked, typed)
                case Name.REQUEUE:
                    return await requeue(asked, typed)
                case Name.UNQUEUE:
                    await call_off(asked)
                case Name.PRIORITY:
                    joined = await queue(asked, typed)
                    return None if joined.accepted else joined
        except (Forbidden, Invalid, NotFound) as refused:
            return asked.reply(typed, ReplyCode.FAILED, accepted=False, detail=refused.message)
        return None

    async def _settled(self, change: Change, asked: Asked, typed: Typed) -> Reply:
        """Do what is stored together with its answer."""
        name = typed.command.name
        if name in _STEERING:
            return await _STEERING[name](change, asked, typed)
        if name in _LOOKING:
            return await _LOOKING[name](change.tx, asked, typed, change.now)
        return asked.reply(typed, ReplyCode.HELP)

    async def _keep(self, asked: Asked, comment: int, reply: Reply, before: tuple[Reply, ...]) -> tuple[Reply, ...]:
        async with self._engine.change() as change:
            return await self._put(change, asked, comment, (*before, reply))

    async def _put(self, change: Change, asked: Asked, comment: int, replies: tuple[Reply, ...]) -> tuple[Reply, ...]:
        """Store the answer, and have it shown."""
        repository, pull = asked.repository, asked.pull
        answer = CommandAnswer(at=change.now, by=asked.by, replies=replies)
        await change.tx.answers.put(repository.id, pull.number, comment, answer)
        await telling.tell_answer(
            change.tx,
            repository,
            pull.number,
            base_branch=pull.base_branch,
            head=pull.head_sha,
            policy=asked.policy,
            asked_at=asked.at or change.now,
            now=change.now,
        )
        last = replies[-1]
        _log.info(
            "command",
            repository=repository.full_name,
            number=pull.number,
            by=asked.by,
            command=last.command,
            answer=last.code.value,
        )
        return replies


def _takes_right(line: str) -> bool:
    typed = read(line)
    return isinstance(typed, Typed) and typed.command.right is not Right.ANYBODY


def _commands(hint: Hint) -> list[Command]:
    """What a comment asks for, as far as it is understood."""
    return [typed.command for typed in map(read, hint.commands) if isinstance(typed, Typed)]
