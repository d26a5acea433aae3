"""Doubles for the dispatcher: a GitHub with only comments, check runs and labels, and a fuse that kills."""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from queue_engine.core.concurrency.request_context import RequestPriority, WaitCount, current_work
from queue_engine.domain.errors import NotFound
from queue_engine.domain.model import Repository
from queue_engine.domain.notice import MARKER
from queue_engine.store import Store, Transaction
from tests.unit.notifications.notices import NOW


class Killed(BaseException):
    """The process is gone: nothing after this instant happens."""


class Fuse:
    """Burns one step at each instant that a process can die at, and kills at the given one."""

    def __init__(self, steps: int | None = None) -> None:
        self._steps = steps

    @property
    def blown(self) -> bool:
        """Whether the process died."""
        return self._steps is not None and self._steps <= 0

    def burn(self) -> None:
        """An instant passes."""
        if self._steps is not None:
            self._steps -= 1
            if self._steps <= 0:
                raise Killed


class FusedStore(Store):
    """A store whose process may die before a commit and right after it."""

    def __init__(self, store: Store, fuse: Fuse) -> None:
        super().__init__(store.database)
        self._fuse = fuse

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """As a store's, with two instants to die at: the one before it is that after whatever happened before."""
        async with super().transaction() as tx:
            yield tx
            self._fuse.burn()
        self._fuse.burn()


class MovedClock:
    """Time that only the test moves."""

    def __init__(self) -> None:
        self._now = NOW

    def now(self) -> datetime:
        """The instant that the test is at."""
        return self._now

    def move(self, by: timedelta) -> None:
        """Let time pass."""
        self._now += by

    async def sleep(self, duration: timedelta) -> None:
        """A dispatcher must not sleep."""
        raise AssertionError(f"a dispatcher slept for {duration}")


@dataclass
class Comment:
    """A comment on a pull request, with every body that it has had."""

    number: int
    bodies: list[str]


@dataclass
class Run:
    """A check run: the fields of its creation and of every update."""

    fields: dict[str, Any]


Before = Callable[[str, int], Awaitable[None]]


@dataclass
class Post:
    """What stands on GitHub. `fail` holds errors raised instead of a call, `fail_after` ones raised once it is done.

    Both are taken from the left, by method name. `before` is awaited with the method and the pull request's number.
    """

    fuse: Fuse = field(default_factory=Fuse)
    comments: dict[int, Comment] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    labels_off: list[tuple[int, str]] = field(default_factory=list)
    labels_on: list[tuple[int, str]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    fail: dict[str, list[Exception]] = field(default_factory=dict)
    fail_after: dict[str, list[Exception]] = field(default_factory=dict)
    before: Before | None = None
    hidden: set[int] = field(default_factory=set)
    """Ids of comments and check runs that searches do not show yet."""
    asked_with: list[tuple[RequestPriority, WaitCount]] = field(default_factory=list)
    """Of each creation of a comment: its priority, and how many merges wait."""
    shown_with: list[RequestPriority] = field(default_factory=list)
    """Of each write of a check run its priority."""
    _ids: Iterator[int] = field(default_factory=lambda: count(1001))

    @asynccontextmanager
    async def _call(self, method: str, number: int) -> AsyncGenerator[None]:
        self.calls[method] += 1
        if self.fuse.blown:
            raise Killed
        if self.before is not None:
            await self.before(method, number)
        if self.fail.get(method):
            raise self.fail[method].pop(0)
        yield
        self.fuse.burn()
        if self.fail_after.get(method):
            raise self.fail_after[method].pop(0)

    async def create_comment(self, repository: Repository, number: int, body: str) -> int:
        """A new comment."""
        self.asked_with.append((current_work().priority, current_work().yields_to))
        async with self._call("create_comment", number):
            comment_id = next(self._ids)
            self.comments[comment_id] = Comment(number, [body])
        return comment_id

    async def update_comment(self, repository: Repository, comment_id: int, body: str) -> None:
        """A new body."""
        number = self.comments[comment_id].number if comment_id in self.comments else 0
        async with self._call("update_comment", number):
            if comment_id not in self.comments:
                raise NotFound("Not Found", status=404)
            self.comments[comment_id].bodies.append(body)

    async def delete_comment(self, repository: Repository, comment_id: int) -> bool:
        """Delete the comment; a second deletion is no error."""
        number = self.comments[comment_id].number if comment_id in self.comments else 0
        async with self._call("delete_comment", number):
            return self.comments.pop(comment_id, None) is not None

    async def find_comments(self, repository: Repository, number: int) -> Mapping[int, str]:
        """By marker, oldest first."""
        async with self._call("find_comments", number):
            own = {i: c.bodies[-1] for i, c in self.comments.items() if c.number == number and i not in self.hidden}
            return {i: body for i, body in own.items() if MARKER in body}

    async def create_check_run(self, repository: Repository, check_run: Mapping[str, Any]) -> int:
        """A new run."""
        self.shown_with.append(current_work().priority)
        async with self._call("create_check_run", int(check_run["external_id"].split(":")[2])):
            run_id = next(self._ids)
            self.runs[run_id] = Run(dict(check_run))
        return run_id

    async def update_check_run(self, repository: Repository, check_run_id: int, check_run: Mapping[str, Any]) -> None:
        """New fields; GitHub knows no change of head, and takes no conclusion back."""
        self.shown_with.append(current_work().priority)
        async with self._call("update_check_run", 0):
            if check_run_id not in self.runs:
                raise NotFound("Not Found", status=404)
            assert "head_sha" not in check_run
            run = self.runs[check_run_id]
            assert run.fields["status"] != "completed" or check_run["status"] == "completed"
            run.fields |= check_run

    async def find_check_run(
        self, repository: Repository, head_sha: str, name: str, external_id: str, *, unfinished: bool = False
    ) -> int | None:
        """By head, name and external id."""
        async with self._call("find_check_run", 0):
            wanted = {"head_sha": head_sha, "name": name, "external_id": external_id}
            found = [i for i, run in self.runs.items() if wanted.items() <= run.fields.items() and i not in self.hidden]
            found = [i for i in found if not unfinished or self.runs[i].fields["status"] != "completed"]
        return found[0] if found else None

    async def add_label(self, repository: Repository, number: int, label: str) -> None:
        """Set the label; to set it again is no error."""
        async with self._call("add_label", number):
            self.labels_on.append((number, label))

    async def remove_label(self, repository: Repository, number: int, label: str) -> None:
        """Remove the label; to remove it again is no error."""
        async with self._call("remove_label", number):
            self.labels_off.append((number, label))

    def comments_on(self, number: int) -> list[Comment]:
        """The comments that people see on a pull request."""
        return [comment for comment in self.comments.values() if comment.number == number]

    def runs_of(self, number: int) -> list[dict[str, Any]]:
        """The check runs of a pull request, oldest first."""
        return [r.fields for r in self.runs.values() if r.fields["external_id"].startswith(f"imq:7:{number}:")]
