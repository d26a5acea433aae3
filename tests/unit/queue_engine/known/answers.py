"""A GitHub whose answers a test sets, and the port that compares them."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, cast

from queue_engine.core.database.database import Database
from queue_engine.domain.known_facts import Fact, Push, Statement
from queue_engine.domain.port import GitHubPorts
from queue_engine.domain.webhooks import CommentCommand
from queue_engine.known.github_reads import GitHubReads
from queue_engine.known.own_writes import remembered
from queue_engine.store import Store
from tests.unit.queue_engine.examples import NOW, REPOSITORY

SECOND = timedelta(seconds=1)
MOVED = Push(before="base-1", after="base-2", at=NOW)


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.instant = NOW

    def now(self) -> datetime:
        return self.instant

    async def sleep(self, duration: timedelta) -> None:
        raise AssertionError("a read does not sleep")


class GitHub:
    """Answers each call with what is set under its name, and raises what is an error; notes the arguments."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[Any, ...]] = []
        self.forgotten = 0

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **_: Any) -> Any:
            self.asked.append((name, *args[1:]))
            remembered(self._forget)
            answer = self.answers.get(name)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def forget_rules(self, repository_id: int) -> None:
        self.asked.append(("forget_rules", repository_id))

    def expire_rules(self, repository_id: int) -> None:
        self.asked.append(("expire_rules", repository_id))

    @property
    def last(self) -> str:
        return str(self.asked[-1][0])

    def _forget(self) -> None:
        self.forgotten += 1


class Setup:
    """A GitHub, what is known of it, and the port between."""

    def __init__(self, database: Database) -> None:
        self.clock, self.inner = Clock(), GitHub()
        self.store = Store(database)
        self.github = GitHubReads(cast(GitHubPorts, self.inner), self.store, self.clock)  # type: ignore[abstract]

    async def report(self, *facts: tuple[str, Statement], repository_id: int = REPOSITORY.id) -> None:
        """A webhook reports these facts now."""
        async with self.store.transaction() as tx:
            reported = [Fact(subject=subject, statement=each) for subject, each in facts]
            await tx.known.record(repository_id, reported, self.clock.now())


def unqueue(sender: str = "hubot", **changes: Any) -> CommentCommand:
    """The webhook of a member's comment `/unqueue` on pull request 1."""
    given: dict[str, Any] = {
        "delivery": f"by-{sender}-{changes}",
        "repository_id": REPOSITORY.id,
        "installation_id": REPOSITORY.installation_id,
        "owner": REPOSITORY.owner,
        "name": REPOSITORY.name,
        "at": NOW,
        "number": 1,
        "sender": sender,
        "commands": ("unqueue",),
        "withdraws": "pull_request",
        "association": "MEMBER",
        "comment_id": 1,
    }
    return CommentCommand(**given | changes)
