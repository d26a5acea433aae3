"""The context of a command: its author, its pull request, its arguments."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from queue_engine.admission.case import Case
from queue_engine.admission.enqueue import CONTROL_ROLES, DequeuePermission
from queue_engine.commands.parse import CommandRequest
from queue_engine.commands.table import Command, CommandPermission
from queue_engine.config.model import Policy
from queue_engine.domain.facts import Permission, PullRequest, Snapshot
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.notice import Reply, ReplyKind
from queue_engine.effects.context import Engine
from queue_engine.rules.eligibility import may_queue, unread_teams


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

    @property
    def repository(self) -> Repository:
        """The repository of the pull request."""
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
        """Return the pull request."""
        return self.taken.pull

    async def permission(self) -> Permission:
        """Read the person's permission from GitHub, once for all commands of a comment. Raises GitHubError."""
        if self.taken.permission is None:
            permission = await self.engine.github.permission(self.repository, self.by)
            self.taken = replace(self.taken, permission=permission)
            return permission
        return self.taken.permission

    async def refusal(self, request: CommandRequest) -> Reply | None:
        """Return why this person may not give this command; None if they may, or if admission decides."""
        match request.command.right:
            case CommandPermission.ANYONE:
                return None
            case CommandPermission.CONTROL:
                has = await self.permission()
                return None if has in CONTROL_ROLES else _not_allowed(request, Permission.MAINTAIN, has)
            case CommandPermission.DEQUEUE if self.by.casefold() == self.pull.author.casefold():
                return None
            case CommandPermission.QUEUE | CommandPermission.DEQUEUE:
                has = await self.permission()
                allowed = may_queue(self.policy, self.by, has) is None
                unread = unread_teams(self.policy)
                return None if allowed else _not_allowed(request, self.policy.who_may_queue.permission, has, unread)

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
