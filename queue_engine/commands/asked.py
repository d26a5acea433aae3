"""Who asked for what, where: what every command is carried out with."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from queue_engine.commands.catalogue import Command, Right
from queue_engine.commands.codes import ReplyCode
from queue_engine.commands.reading import Typed
from queue_engine.desk import MAY_STEER
from queue_engine.door import may_queue
from queue_engine.engine import Engine
from queue_engine.facts import Permission, PullRequest, Snapshot
from queue_engine.model import Repository
from queue_engine.notice import Reply
from queue_engine.policy import Policy


@dataclass(slots=True)
class Asked:
    """One comment with commands: on what, by whom, when. Everything is as it was read after the comment came."""

    engine: Engine
    repository: Repository
    taken: Snapshot
    policy: Policy
    by: str
    at: datetime | None
    """When the pull request changed last, as the comment's delivery told it; None if it did not."""
    delivery: str

    @property
    def pull(self) -> PullRequest:
        """The pull request itself."""
        return self.taken.pull

    async def permission(self) -> Permission:
        """The person's right, asked of GitHub now; once for all the commands of a comment. Raises GitHubError."""
        if self.taken.permission is None:
            permission = await self.engine.github.permission(self.repository, self.by)
            self.taken = replace(self.taken, permission=permission)
            return permission
        return self.taken.permission

    async def refusal(self, typed: Typed) -> Reply | None:
        """Why this person may not give this command; None if they may, or if the door says."""
        match typed.command.right:
            case Right.ANYBODY:
                return None
            case Right.STEERING:
                has = await self.permission()
                return None if has in MAY_STEER else _not_allowed(typed, Permission.MAINTAIN, has)
            case Right.LEAVING if self.by.casefold() == self.pull.author.casefold():
                return None
            case Right.QUEUEING | Right.LEAVING:
                has = await self.permission()
                allowed = may_queue(self.policy, self.by, has) is None
                return None if allowed else _not_allowed(typed, self.policy.may_queue, has)

    def reply(self, typed: Typed, code: ReplyCode, *, accepted: bool = True, **facts: Any) -> Reply:
        """An answer to a command; the base branch is one of its facts."""
        return Reply(
            command=typed.line,
            accepted=accepted,
            code=code,
            facts={"base_branch": self.pull.base_branch, **facts},
        )


def misread(line: str, command: Command, argument: str) -> Reply:
    """The answer to a command with an argument that it does not take."""
    facts = {"name": command.name.value, "argument": argument, "usage": command.usage}
    return Reply(command=line, accepted=False, code=ReplyCode.NOT_UNDERSTOOD, facts=facts)


def _not_allowed(typed: Typed, needs: Permission, has: Permission) -> Reply:
    facts = {"needs": needs.value, "has": has.value}
    return Reply(command=typed.line, accepted=False, code=ReplyCode.NOT_ALLOWED, facts=facts)
