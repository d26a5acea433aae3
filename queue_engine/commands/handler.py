"""Execute the commands of a comment in order, and reply in the one comment.

A command is followed as the job of its comment. What a command does to the queue is stored in the transaction of its
answer, and what it does on GitHub may be done twice. So a worker that takes over from a dead process continues after
the last stored answer, and nothing is done twice or left half done.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from typing import Any

import structlog

from queue_engine.admission import enqueue
from queue_engine.admission.case import Case, InOrder
from queue_engine.admission.enqueue import (
    CONTROL_ROLES,
    DequeuePermission,
    NotQueued,
    authorize_dequeue,
    dequeue_by_user,
)
from queue_engine.admission.head_consent import consents
from queue_engine.admission.rejection import RejectionError
from queue_engine.admission.request_order import RequestOrder
from queue_engine.admission.reverts import request_revert
from queue_engine.admission.throttle import count_without_right, is_outsider, is_throttled, requested_by
from queue_engine.commands.commands import (
    MAX_COMMANDS,
    Command,
    CommandName,
    CommandPermission,
    CommandRequest,
    ParseError,
    parse_priority,
    read,
    until,
)
from queue_engine.config.model import Policy
from queue_engine.control import pauses
from queue_engine.core.read_model import adapter
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.errors import Forbidden, Invalid, NotFound, Refused
from queue_engine.domain.facts import Permission, PullRequest, Snapshot, as_data
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.notice import CommandReply, Reply, ReplyKind
from queue_engine.domain.reasons import Reason
from queue_engine.domain.webhooks import TRUSTED, CommandEvent, ReviewCommand
from queue_engine.effects import notices
from queue_engine.effects.context import Change, Engine
from queue_engine.executor.run_request import request_run
from queue_engine.queries.control_effect import load_dequeue_effect, load_pause_effect, load_priority_effect
from queue_engine.queries.queue_status import queue_blockers
from queue_engine.rules.depth import depth_within, held_behind, waits_for_room
from queue_engine.rules.eligibility import may_queue, unread_teams
from queue_engine.store import Transaction
from queue_engine.store.outbox.outbox import KEPT

_ON_OPEN_ALONE = frozenset(
    {
        CommandName.QUEUE,
        CommandName.ALONE,
        CommandName.DELEGATE,
        CommandName.UNDELEGATE,
        CommandName.REQUEUE,
        CommandName.UNQUEUE,
        CommandName.PRIORITY,
        CommandName.TRY,
    }
)


@dataclass(slots=True)
class CommandContext:
    """One comment with commands: on what, by whom, when. Everything is as it was read after the comment came."""

    engine: Engine
    case: Case
    taken: Snapshot
    by: str
    at: datetime | None
    """When the pull request changed last, by the comment's delivery; None if it does not say."""
    reviewed: tuple[str, str] | None = None
    """The head and the base branch of the review that has the commands; None for a comment."""
    dequeue: DequeuePermission | None = None
    """The grant to dequeue the pull request, once admission gave it."""
    comment: int | None = None
    """The number of the comment; less than zero for a review."""
    granted_by: str | None = None
    """Who let the author queue the pull request once, if the author relies on that."""

    @property
    def repository(self) -> Repository:
        return self.case.repository

    @property
    def policy(self) -> Policy:
        """The policy of its base branch."""
        return self.case.policy

    @property
    def delivery(self) -> str | None:
        """The delivery of the comment."""
        return self.case.delivery

    async def load_entry(self) -> Entry | None:
        """Load the entry for one command: the command before it may have changed it."""
        self.case = await self.case.reload(self.engine)
        return self.case.entry

    @property
    def pull(self) -> PullRequest:
        return self.taken.pull

    async def permission(self) -> Permission:
        """Read the person's permission from GitHub, once for all commands of a comment. Raises GitHubError."""
        if self.taken.permission is None:
            permission = await self.engine.github.permission(self.repository, self.by)
            self.taken = replace(self.taken, permission=permission)
            return permission
        return self.taken.permission

    def ended(self, request: CommandRequest) -> Reply | None:
        """Return why this command cannot act on a closed pull request; None if it is open, or if its queue is meant.

        Maintainers pause a queue where they see the fault: on the pull request that has just landed.
        """
        if self.pull.open or request.command.name not in _ON_OPEN_ALONE:
            return None
        return self.reply(request, ReplyKind.CLOSED, accepted=False, merged=self.pull.merged)

    async def refusal(self, request: CommandRequest) -> Reply | None:
        """Return why this person may not give this command; None if they may, or if admission decides."""
        match request.command.right:
            case CommandPermission.ANYONE:
                return None
            case CommandPermission.CONTROL:
                has = await self.permission()
                return None if has in CONTROL_ROLES else _not_allowed(request, Permission.MAINTAIN, has)
            case CommandPermission.DEQUEUE if self._by_author():
                return None
            case CommandPermission.QUEUE | CommandPermission.DEQUEUE:
                has = await self.permission()
                allowed = may_queue(self.policy, self.by, has) is None
                if not allowed and request.command.name is CommandName.QUEUE:
                    self.granted_by = await self.engine.store.read(self.delegated) if self._by_author() else None
                    allowed = self.granted_by is not None
                unread = unread_teams(self.policy)
                return None if allowed else _not_allowed(request, self.policy.who_may_queue.permission, has, unread)

    def _by_author(self) -> bool:
        return self.by.casefold() == self.pull.author.casefold()

    async def delegated(self, tx: Transaction) -> str | None:
        """Return who let the author queue the pull request once; None without one, or if it was used or is old."""
        last = await tx.timeline.delegation(self.repository.id, self.pull.number)
        if last is None or last.base_branch != self.pull.base_branch:
            # Authors may change the base branch without any right.
            return None
        return last.data["by"] if last.at >= self.engine.clock.now() - self.policy.timeouts.ready else None

    def reply(self, request: CommandRequest, code: ReplyKind, *, accepted: bool = True, **facts: Any) -> Reply:
        """Return a reply to a command; the base branch is one of its facts."""
        return Reply(
            command=request.line,
            accepted=accepted,
            code=code,
            facts={"base_branch": self.pull.base_branch, **facts},
        )


def parse_failure(line: str, command: Command, argument: str) -> Reply:
    """Return the reply to a command with an invalid argument."""
    facts = {"name": command.name.value, "argument": argument, "usage": command.usage}
    return Reply(command=line, accepted=False, code=ReplyKind.NOT_UNDERSTOOD, facts=facts)


def _not_allowed(request: CommandRequest, needs: Permission, has: Permission, detail: str | None = None) -> Reply:
    facts = {"needs": needs.value, "has": has.value} | ({"detail": detail} if detail else {})
    return Reply(command=request.line, accepted=False, code=ReplyKind.NOT_ALLOWED, facts=facts)


async def queue(context: CommandContext, request: CommandRequest) -> Reply:
    """Queue the head at the time of the comment, as the label does. Raises GitHubError."""
    entry = await context.load_entry()
    if entry is not None:
        return await _queued_reply(context, request, entry, _joined(context, entry))
    return await _enqueue(context, request, await _consented(context))


async def requeue(context: CommandContext, request: CommandRequest, source: ConsentKind = ConsentKind.COMMAND) -> Reply:
    """Dequeue and queue again at the end, with the current head and new consent. Raises GitHubError, StaleRecord."""
    entry = await context.load_entry()
    if entry is not None and entry.delivery == context.delivery:
        return await _queued_reply(context, request, entry, ReplyKind.REQUEUED)
    if entry is not None and entry.run.merge_requested_at is not None:
        return context.reply(request, ReplyKind.LANDING, accepted=False)
    # The head that it was queued with, or IMQ's own update of it: nobody has pushed since.
    bound = entry is not None and entry.head_proved and context.pull.head_sha == entry.head_sha
    return await _enqueue(context, request, context.pull.head_sha if bound else await _consented(context), source)


async def _enqueue(
    context: CommandContext, request: CommandRequest, head_sha: str | None, source: ConsentKind = ConsentKind.COMMAND
) -> Reply:
    """Queue this head, at the end if it is queued; None: no one has consented to the current one."""
    if head_sha is None:
        return context.reply(request, ReplyKind.CHANGED_SINCE, accepted=False)
    again = context.case.entry is not None
    call = enqueue.requeue if again else partial(enqueue.enqueue, may_wait=True)
    try:
        await context.permission()
        by, taken = context.by, context.taken
        if context.granted_by is not None:
            # The maintainer's consent counts, with the right that the maintainer has now.
            by, source, taken = (
                context.granted_by,
                ConsentKind.DELEGATED,
                replace(taken, permission=None, person_id=None),
            )
        queued = await call(context.engine, context.case, by=by, head_sha=head_sha, taken=taken, source=source)
    except RejectionError as refused:
        return _refused(context, request, refused.reason, refused.detail)
    code = ReplyKind.REQUEUED if again else _joined(context, queued.entry)
    return await _queued_reply(context, request, queued.entry, code)


async def revert(context: CommandContext, request: CommandRequest) -> Reply:
    """Open and queue a revert as a hotfix, or a reverted one again. Raises GitHubError and RequestOrderError."""
    again, number = request.command.name is CommandName.RELAND, context.pull.number
    call = partial(request_revert, context.engine, context.repository, number, by=context.by, reland=again)
    try:
        done = await call(context.case.in_order, taken=context.taken)
    except RejectionError as rejected:
        return _refused(context, request, rejected.reason, rejected.detail)
    if not done.landed:
        code = ReplyKind.NOT_REVERTED if again else ReplyKind.NOT_LANDED
        return context.reply(request, code, accepted=False)
    if done.number is None:
        if done.may_pass and context.case.attempt.arrived_at is None:
            raise Refused(done.detail, status=422)
        return context.reply(request, ReplyKind.FAILED, accepted=False, detail=done.detail)
    if again:
        return context.reply(request, ReplyKind.RELANDS, reland=done.number)
    if done.refused is None:
        return context.reply(request, ReplyKind.REVERTED, revert=done.number)
    refused: dict[str, Any] = {"reason": done.refused.reason.value, "detail": done.refused.detail or ""}
    return context.reply(request, ReplyKind.REVERT_OPENED, revert=done.number, **refused)


async def prepare_dequeue(context: CommandContext, request: CommandRequest) -> Reply | None:
    """Ask whether the person may dequeue it; reply if there is nothing to dequeue. Raises GitHubError."""
    try:
        await context.load_entry()
        context.dequeue = await authorize_dequeue(context.engine, context.case, by=context.by, taken=context.taken)
    except NotQueued:
        return context.reply(request, ReplyKind.NOT_QUEUED, accepted=False)
    return None


async def unqueue(change: Change, context: CommandContext, request: CommandRequest) -> Reply:
    """Dequeue the pull request. Raises StaleRecord when it changes at the same time."""
    assert context.dequeue is not None
    entry = await change.tx.entries.find(context.repository.id, context.pull.number)
    effect = entry and (await load_dequeue_effect(change.tx, entry, context.policy, change.now)).facts()
    try:
        left = await dequeue_by_user(change, context.dequeue)
    except NotQueued:
        return context.reply(request, ReplyKind.NOT_QUEUED, accepted=False)
    if not left:
        return context.reply(request, ReplyKind.LANDING, accepted=False)
    return context.reply(request, ReplyKind.LEFT, effect=effect)


async def _consented(context: CommandContext) -> str | None:
    """Return the head that the commenter saw; None if it may have changed since (P4).

    GitHub does not tell which head a comment was made on. It does tell when a pull request changed last, and a push
    changes it: what has not changed since the comment has the head that stood there then. A review names its head.
    """
    if context.reviewed is not None:
        return context.pull.head_sha if context.reviewed == (context.pull.head_sha, context.pull.base_branch) else None
    changed, head = context.pull.updated_at, context.pull.head_sha
    if context.at is None:
        return head if changed is None else None
    if changed is not None and changed > context.at:
        return None
    known = await consents(context.engine, context.repository, context.taken, context.at)
    return head if known else None


def _refused(context: CommandContext, request: CommandRequest, reason: Reason, detail: str | None) -> Reply:
    label = context.policy.trigger_label
    return context.reply(
        request, ReplyKind.REFUSED, accepted=False, reason=reason.value, label=label, detail=detail or ""
    )


def _joined(context: CommandContext, entry: Entry) -> ReplyKind:
    """Return the reply for a queued pull request: whether this comment queued it."""
    return ReplyKind.QUEUED if entry.delivery == context.delivery else ReplyKind.ALREADY_QUEUED


async def _queued_reply(context: CommandContext, request: CommandRequest, entry: Entry, code: ReplyKind) -> Reply:
    if not entry.is_ready:
        return not_ready_reply(context, request, entry)
    async with context.engine.store.reading() as tx:
        depth = depth_within(await tx.entries.count(entry.queue_id), context.policy)
    if waits_for_room(entry.position, context.policy):
        return context.reply(request, ReplyKind.HELD, ahead=held_behind(entry.position, context.policy))
    return context.reply(request, code, position=entry.position, depth=max(depth, entry.position + 1))


def not_ready_reply(context: CommandContext, request: CommandRequest, entry: Entry, **facts: Any) -> Reply:
    """Reply what the pull request lacks, so that it waits outside the queue."""
    first = entry.unmet[0]
    if first.failing:
        facts["failing"] = as_data(first.failing)
    return context.reply(request, ReplyKind.NOT_READY, reason=first.reason.value, detail=first.detail or "", **facts)


async def delegate(change: Change, context: CommandContext, request: CommandRequest) -> Reply:
    """Let the author queue the pull request once, on behalf of the person who asks."""
    queue = await change.tx.queues.find_or_create(context.repository, context.pull.base_branch, change.now)
    number, data = context.pull.number, {"by": context.by}
    await change.record("delegated", queue, number=number, delivery=context.delivery, data=data)
    until = (change.now + context.policy.timeouts.ready).isoformat()
    return context.reply(request, ReplyKind.DELEGATED, author=context.pull.author, until=until)


async def undelegate(change: Change, context: CommandContext, request: CommandRequest) -> Reply:
    """Revoke what `delegate` allowed, unless the author has used it."""
    author = context.pull.author
    if await context.delegated(change.tx) is None:
        return context.reply(request, ReplyKind.NOT_DELEGATED, accepted=False, author=author)
    queue = await change.tx.queues.find_or_create(context.repository, context.pull.base_branch, change.now)
    number, data = context.pull.number, {"by": context.by}
    await change.record("undelegated", queue, number=number, delivery=context.delivery, data=data)
    return context.reply(request, ReplyKind.UNDELEGATED, author=author)


async def try_alone(change: Change, context: CommandContext, request: CommandRequest) -> Reply:
    """Enqueue a test of the present head, which queues nothing."""
    assert context.comment is not None
    begun = await request_run(
        change,
        context.repository,
        context.pull,
        context.policy,
        by=context.by,
        comment=context.comment,
        on_queue=request.argument == "queue",
    )
    if isinstance(begun, str):
        return context.reply(request, ReplyKind.TRY_REFUSED, accepted=False, detail=begun)
    return context.reply(request, ReplyKind.TRYING, **begun)


async def pause(change: Change, context: CommandContext, request: CommandRequest) -> Reply:
    """Pause the queue of the base branch until somebody resumes it."""
    branch = context.pull.base_branch
    done = await pauses.pause(change, context.repository, branch, by=context.by, reason=request.argument)
    facts: dict[str, Any] = {"depth": len(done.concerned), "detail": request.argument}
    facts["effect"] = (await load_pause_effect(change.tx, done.queue, change.now)).facts()
    freeze = done.queue.pause(Reason.FROZEN)
    if freeze is not None and freeze.until is not None and not freeze.has_ended(change.now):
        facts["then"] = freeze.until.isoformat()
    return context.reply(request, ReplyKind.PAUSED, **facts)


async def freeze(change: Change, context: CommandContext, request: CommandRequest) -> Reply:
    """Freeze the queue until an instant."""
    try:
        end, reason = until(request.argument, context.policy, change.now)
    except ValueError as fault:
        answer = parse_failure(request.line, request.command, request.argument)
        return answer.model_copy(update={"facts": {**answer.facts, "fault": str(fault)}})
    branch = context.pull.base_branch
    done = await pauses.freeze(change, context.repository, branch, by=context.by, until=end, reason=reason)
    facts: dict[str, Any] = {"depth": len(done.concerned), "until": end.isoformat(), "detail": reason}
    facts["effect"] = (await load_pause_effect(change.tx, done.queue, change.now)).facts()
    if any(pause.reason is not Reason.FROZEN for pause in done.queue.pauses):
        facts["paused"] = True
    return context.reply(request, ReplyKind.FROZEN, **facts)


async def resume(change: Change, context: CommandContext, request: CommandRequest) -> Reply:
    """Resume the queue; the reply names its other blockers."""
    done = await pauses.resume(change, context.repository, context.pull.base_branch, by=context.by)
    facts: dict[str, Any] = {"depth": len(done.concerned)}
    if blockers := queue_blockers(done.queue, context.policy, change.now):
        facts["blockers"] = adapter(tuple[Blocker, ...]).dump_python(blockers, mode="json")
    if not done.changed:
        return context.reply(request, ReplyKind.NOT_PAUSED, accepted=False, **facts)
    facts["reason"] = done.lifted[0][0].value
    return context.reply(request, ReplyKind.RESUMED, **facts)


async def prioritise(change: Change, context: CommandContext, request: CommandRequest) -> Reply:
    """Set the priority of an entry, and reply which pull requests that delays. Raises StaleRecord."""
    tx, repository, number = change.tx, context.repository, context.pull.number
    priority = parse_priority(request.argument) or 0
    entry = await tx.entries.find(repository.id, number)
    if entry is None:
        return context.reply(request, ReplyKind.NOT_QUEUED, accepted=False)
    effect = await load_priority_effect(tx, entry, priority, context.policy, change.now)
    done = await enqueue.prioritise(change, entry, priority, context.policy, by=context.by, delivery=context.delivery)
    if not done.entry.is_ready:
        return not_ready_reply(context, request, done.entry, priority=priority)
    if waits_for_room(done.entry.position, context.policy):
        ahead = held_behind(done.entry.position, context.policy)
        return context.reply(request, ReplyKind.HELD, ahead=ahead, priority=priority)
    seconds = _seconds(done.delay.by)
    overtakes = [[number, seconds] for number in done.delay.numbers]
    return context.reply(
        request,
        ReplyKind.PRIORITY,
        priority=priority,
        position=done.entry.position,
        depth=depth_within(done.depth, context.policy),
        overtakes=overtakes,
        preempts=done.delay.preempts,
        lost=_seconds(done.delay.lost),
        effect=effect.facts(),
    )


def _seconds(length: timedelta | None) -> int | None:
    return None if length is None else round(length.total_seconds())


_log = structlog.get_logger("imq.commands")

_CHANGES = {
    CommandName.PAUSE: pause,
    CommandName.RESUME: resume,
    CommandName.FREEZE: freeze,
    CommandName.PRIORITY: prioritise,
    CommandName.UNQUEUE: unqueue,
    CommandName.DELEGATE: delegate,
    CommandName.UNDELEGATE: undelegate,
    CommandName.TRY: try_alone,
}
_QUESTIONS = {CommandName.WHY: ReplyKind.WHY, CommandName.STATUS: ReplyKind.STATUS}


class Commands:
    """Executes the commands of comments."""

    def __init__(self, engine: Engine, order: RequestOrder) -> None:
        self._engine = engine
        self._order = order

    async def execute(self, webhook: CommandEvent) -> None:
        """Execute a comment's commands, and reply. Raises GitHubError, StaleRecord and RequestOrderError."""
        if not webhook.joins:
            await self._execute(webhook, None)
            return
        with self._order.enter(webhook.repository, webhook.attempt) as in_order:
            await self._execute(webhook, in_order)

    async def _execute(self, webhook: CommandEvent, in_order: InOrder | None) -> None:
        repository, number, comment = webhook.repository, webhook.number, _number_of(webhook)
        if webhook.updated_at is not None and webhook.updated_at < self._engine.clock.now() - KEPT:
            # Whether it was answered is not known any more.
            return
        answer = await self._engine.store.read(lambda tx: tx.answers.find(repository.id, number, comment_id=comment))
        replies = _given(answer)
        if not replies and not await self._is_answered(webhook):
            return
        wanted = min(len(webhook.commands), MAX_COMMANDS + 1)
        if not replies and not await self._react(repository, comment, "eyes"):
            return
        if len(replies) < wanted:
            context = await self._context_of(webhook, in_order)
            for line in webhook.commands[len(replies) : wanted]:
                replies = await self._answer(context, comment, line, replies)
        await self._count(webhook, replies)
        accepted = all(reply.accepted for reply in replies)
        await self._react(repository, comment, "+1" if accepted else "confused")

    async def give_up(self, webhook: CommandEvent) -> None:
        """Reply to the commands of a comment whose job failed for good. Raises GitHubError.

        Somebody may retry the failed job: then their replies replace these. A stranger gets none, and neither does a
        person whom IMQ ignores for a while.
        """
        repository, number, comment = webhook.repository, webhook.number, _number_of(webhook)
        answer = await self._engine.store.read(lambda tx: tx.answers.find(repository.id, number, comment_id=comment))
        replies, by = () if answer is None else answer.replies, webhook.sender
        if len(replies) >= min(len(webhook.commands), MAX_COMMANDS):
            return
        if not replies and await is_throttled(self._engine, repository, by):
            return
        is_member = webhook.by_author or webhook.association in TRUSTED
        if not (replies or is_member) and await is_outsider(self._engine, repository, by):
            return
        taken = Snapshot(await self._engine.github.pull_request(repository, number))
        case = await Case(repository, number).with_policy(self._engine, taken.pull.base_branch)
        context = CommandContext(self._engine, case, taken, by, webhook.updated_at)
        for line in webhook.commands[len(replies) : MAX_COMMANDS]:
            given_up = Reply(command=line, accepted=True, code=ReplyKind.GAVE_UP)
            replies = await self._keep(context, comment, given_up, replies)
        await self._react(repository, comment, "confused")

    async def _is_answered(self, webhook: CommandEvent) -> bool:
        """Whether this comment is answered. Raises GitHubError.

        A stranger has answers to what everybody may ask, and the author of the pull request to everything; both are
        counted as if they had no right to it. What everybody may ask is counted by itself.
        """
        repository, by = webhook.repository, webhook.sender
        rights = [command.right for command in _commands(webhook)]
        who = requested_by(by) if rights and set(rights) == {CommandPermission.ANYONE} else by
        if await is_throttled(self._engine, repository, who):
            return False
        if webhook.association in TRUSTED and not _is_misspelt(webhook):
            return True
        if webhook.by_author or CommandPermission.ANYONE in rights:
            if webhook.attempt.arrived_at is None:
                # A comment counts once, however often GitHub fails.
                await self._engine.write(lambda change: count_without_right(change, repository, who))
            return True
        return not await is_outsider(self._engine, repository, by)

    async def _count(self, webhook: CommandEvent, replies: tuple[Reply, ...]) -> None:
        """Count a comment whose author had the right to none of its commands; else reset the count.

        What everybody may ask proves no right.
        """
        codes = [reply.code for line, reply in zip(webhook.commands, replies, strict=False) if _needs_permission(line)]
        if not codes:
            return
        repository, by = webhook.repository, webhook.sender
        async with self._engine.change() as change:
            if all(code is ReplyKind.NOT_ALLOWED for code in codes):
                await count_without_right(change, repository, by)
            else:
                await change.tx.throttles.clear(repository.id, by)

    async def _context_of(self, webhook: CommandEvent, in_order: InOrder | None) -> CommandContext:
        """Read one snapshot for all commands, with the person's permission if one of them needs it."""
        repository, by = webhook.repository, webhook.sender
        rights = {command.right for command in _commands(webhook)}
        login = by if rights & {CommandPermission.QUEUE, CommandPermission.CONTROL} else None
        taken = await self._engine.github.snapshot(repository, webhook.number, login=login)
        number, delivery = taken.pull.number, webhook.delivery
        case = Case(repository, number, delivery=delivery, attempt=webhook.attempt, in_order=in_order)
        case = await case.with_policy(self._engine, taken.pull.base_branch)
        await self._engine.write(lambda change: change.tx.repositories.refresh(repository))
        reviewed = (webhook.head_sha, webhook.branch) if isinstance(webhook, ReviewCommand) else None
        return CommandContext(self._engine, case, taken, by, webhook.updated_at, reviewed, comment=_number_of(webhook))

    async def _react(self, repository: Repository, comment: int, content: str) -> bool:
        """React to the comment, to show that a command was received or executed; return False if it was deleted.

        GitHub's REST API has no reactions to reviews.
        """
        if comment < 0:
            return True
        try:
            await self._engine.github.react(repository, comment, content)
        except NotFound:
            return False
        except (Forbidden, Invalid) as refused:
            _log.warning("reaction_refused", repository=repository.full_name, error=refused.message)
        return True

    async def _answer(
        self, context: CommandContext, comment: int, line: str, before: tuple[Reply, ...]
    ) -> tuple[Reply, ...]:
        """Execute one command, and store its reply after those `before`."""
        if len(before) >= MAX_COMMANDS:
            facts = {"limit": MAX_COMMANDS}
            return await self._keep(
                context, comment, Reply(command=line, accepted=False, code=ReplyKind.TOO_MANY, facts=facts), before
            )
        request = read(line)
        if isinstance(request, ParseError):
            return await self._keep(
                context, comment, parse_failure(request.line, request.command, request.argument), before
            )
        refusal = context.ended(request) or await context.refusal(request) or await self._prepare(context, request)
        if refusal is not None:
            return await self._keep(context, comment, refusal, before)
        async with self._engine.change() as change:
            reply = await self._execute_in(change, context, request)
            return await self._put(change, context, comment, reply, before)

    async def _prepare(self, context: CommandContext, request: CommandRequest) -> Reply | None:
        """Do the part that calls GitHub; return the reply, unless the rest is done in a transaction."""
        try:
            match request.command.name:
                case CommandName.QUEUE:
                    return await queue(context, request)
                case CommandName.REQUEUE:
                    return await requeue(context, request)
                case CommandName.ALONE:
                    return await requeue(context, request, ConsentKind.COMMAND_ALONE)
                case CommandName.UNQUEUE:
                    return await prepare_dequeue(context, request)
                case CommandName.REVERT | CommandName.RELAND:
                    return await revert(context, request)
                case CommandName.PRIORITY:
                    joined = await queue(context, request)
                    return None if joined.accepted else joined
        except (Forbidden, Invalid, NotFound) as refused:
            return context.reply(request, ReplyKind.FAILED, accepted=False, detail=refused.message)
        return None

    async def _execute_in(self, change: Change, context: CommandContext, request: CommandRequest) -> Reply:
        """Do the part that is stored together with the reply."""
        name = request.command.name
        if name in _CHANGES:
            return await _CHANGES[name](change, context, request)
        return context.reply(request, _QUESTIONS.get(name, ReplyKind.HELP))

    async def _keep(
        self, context: CommandContext, comment: int, reply: Reply, before: tuple[Reply, ...]
    ) -> tuple[Reply, ...]:
        return await self._engine.write(lambda change: self._put(change, context, comment, reply, before))

    async def _put(
        self, change: Change, context: CommandContext, comment: int, reply: Reply, before: tuple[Reply, ...]
    ) -> tuple[Reply, ...]:
        """Store the reply after those `before`, and put the comment into the outbox."""
        repository, pull = context.repository, context.pull
        # The test of a `/try` may have changed its reply since.
        stored = await change.tx.answers.lock(repository.id, pull.number, comment)
        replies = (*(before if stored is None else stored.replies[: len(before)]), reply)
        answer = CommandReply(at=change.now, by=context.by, replies=replies)
        await change.tx.answers.put(repository.id, pull.number, comment, answer)
        await notices.announce_reply(
            change,
            repository,
            pull.number,
            base_branch=pull.base_branch,
            head_sha=pull.head_sha,
            policy=context.policy,
            asked_at=context.at,
        )
        last = replies[-1]
        _log.info(
            "command",
            repository=repository.full_name,
            number=pull.number,
            by=context.by,
            command=last.command,
            answer=last.code.value,
        )
        return replies


def _number_of(webhook: CommandEvent) -> int:
    """Return the number of the text with the commands: a comment's, or less than zero for a review."""
    return -webhook.review_id if isinstance(webhook, ReviewCommand) else webhook.comment_id


def _given(answer: CommandReply | None) -> tuple[Reply, ...]:
    """Return the replies to the commands that IMQ has executed."""
    replies = () if answer is None else answer.replies
    return tuple(takewhile(lambda each: each.code is not ReplyKind.GAVE_UP, replies))


def _needs_permission(line: str) -> bool:
    request = read(line)
    return isinstance(request, CommandRequest) and request.command.right is not CommandPermission.ANYONE


def _is_misspelt(webhook: CommandEvent) -> bool:
    """Whether a comment only has words that are like commands: then only people with rights get an answer."""
    return all(isinstance(request, ParseError) and request.misspelt for request in map(read, webhook.commands))


def _commands(webhook: CommandEvent) -> list[Command]:
    """Parse the commands of a comment."""
    return [request.command for request in map(read, webhook.commands) if isinstance(request, CommandRequest)]
