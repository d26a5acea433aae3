"""Two handlers on two connections of one PostgreSQL: the first is stopped at one of its awaits while the second runs.

That is done for every await of the first, at which it asks the database or GitHub. Whatever comes of it must also come
of one handler after the other, in one order or the other: a decision that was made of two reads, between which somebody
else committed, is found by that. Each handler is a process of its own, with its own engine; both see one GitHub.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

import psycopg
from psycopg import sql
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Database, metadata
from queue_engine.domain.errors import HeadConflict, Invalid, StaleRecord
from queue_engine.domain.facts import (
    BranchRules,
    CheckReport,
    CheckState,
    Commit,
    Comparison,
    LabelEvent,
    Permission,
    Snapshot,
)
from queue_engine.domain.facts import PullRequest as Pull
from queue_engine.domain.model import Entry
from queue_engine.domain.policy import Policy
from queue_engine.domain.port import GitHub
from queue_engine.effects.context import Engine
from queue_engine.executor.processor import Processor
from queue_engine.store import Store
from queue_engine.store.tables import outbox, refusals, timeline
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.examples import NOW, pull, report, rules

OWN = "imq[bot]"
_TRIES = 10

Outcome = dict[str, Any]
Act = Callable[["Side"], Awaitable[None]]


class Clock:
    """A clock that stays at one instant."""

    def now(self) -> datetime:
        return NOW

    async def sleep(self, duration: timedelta) -> None:
        await asyncio.Event().wait()


class Stop:
    """Where the first handler is stopped: at its await number `at`, of all or of those in transactions that write."""

    def __init__(self, *, writing_only: bool) -> None:
        self.writing_only = writing_only
        self.arm(0)

    def arm(self, at: int) -> None:
        self._left = at
        self.where = ""
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, where: object, *, writing: bool = False) -> None:
        if self.writing_only and not writing:
            return
        self._left -= 1
        if self._left == 0:
            self.where = str(where)
            self.reached.set()
            await self.go_on.wait()


_DECIDING = frozenset({"entries", "queues"})
"""The tables whose rows are locked, or decided by; what is read or written of others follows from these."""

_known: dict[int, tuple[object, bool]] = {}


def _decides(statement: Any) -> bool:
    """Whether it makes a difference what comes before this statement. Told once for each: they are constants."""
    if id(statement) not in _known:
        words = set(re.findall(r"\w+", str(statement)))
        _known[id(statement)] = (statement, bool(words & _DECIDING) or "pg_advisory_xact_lock" in words)
    return _known[id(statement)][1]


class _StoppedConnection:
    """A connection of which every statement may be one to stop before."""

    def __init__(self, connection: AsyncConnection, stop: Stop) -> None:
        self._connection, self._stop = connection, stop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, statement: Any, *given: Any) -> Any:
        if _decides(statement):
            await self._stop(statement, writing=True)
        return await self._connection.execute(statement, *given)

    async def scalars(self, statement: Any, *given: Any) -> Any:
        if _decides(statement):
            await self._stop(statement, writing=True)
        return await self._connection.scalars(statement, *given)


class StoppedDatabase(Database):
    """A database whose user may be stopped before each statement, and before what it reads of one instant."""

    def __init__(self, url: str, stop: Stop) -> None:
        super().__init__(url)
        self._stop = stop

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection]:
        async with super().transaction() as connection:
            yield cast(AsyncConnection, _StoppedConnection(connection, self._stop))

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        await self._stop("reading")
        async with super().reading() as connection:
            yield connection


class Hub:
    """GitHub: one pull request, one base branch, and what is so at this instant."""

    def __init__(self) -> None:
        self.pull = pull(head_sha="head-1")
        self.tip = "base-1"
        self.parents: dict[str, tuple[str, ...]] = {"head-1": ("work-1",)}
        self.passed: set[str] = set()
        self.merges = 0
        self.approved = True

    def update(self) -> str:
        """The base is merged into the pull request's branch."""
        head = f"{self.pull.head_sha}+{self.tip}"
        self.parents[head] = (self.pull.head_sha, self.tip)
        self.pull = replace(self.pull, head_sha=head)
        return head

    def push(self, head: str) -> None:
        self.parents[head] = (self.pull.head_sha,)
        self.pull = replace(self.pull, head_sha=head)

    async def pull_request(self, _repository: object, number: int) -> Pull:
        return self.pull if number == 1 else pull(number=number, head_sha=f"head-{number}")

    async def snapshot(
        self, repository: object, number: int, *, login: str | None, head_sha: str | None = None
    ) -> Snapshot:
        read = await self.pull_request(repository, number)
        compared = await self.comparison(repository, "main", head_sha or read.head_sha)
        told = None if compared.behind else compared
        right = None if login is None else Permission.WRITE
        return Snapshot(read, right, told, base_tip=compared.base_tip, behind=compared.behind)

    async def latest_pull_requests(self, _repository: object) -> tuple[Pull, ...]:
        return (self.pull,)

    async def comparison(self, _repository: object, _base: str, head: str) -> Comparison:
        contained = head.endswith(f"+{self.tip}") or self.tip == head or f"+{self.tip}" in head
        commit = Commit(head, f"tree-of-{head}", self.parents.get(head, ("work",)))
        return Comparison(self.tip, self.tip if contained else "base-0", 0 if contained else 1, commit)

    async def commit(self, _repository: object, sha: str) -> Commit:
        return Commit(sha, f"tree-of-{sha.removeprefix('landed-')}", ())

    async def check_reports(self, _repository: object, sha: str, _required: object) -> tuple[CheckReport, ...]:
        return (report("ci", CheckState.PASSED if sha in self.passed else CheckState.PENDING),)

    async def is_guarded(self, *_: object) -> bool:
        return False

    async def branch_rules(self, *_: object) -> BranchRules:
        return rules("ci")

    async def permission(self, *_: object) -> Permission:
        return Permission.WRITE

    async def last_labeled_event(self, *_: object) -> LabelEvent | None:
        return None

    async def own_login(self) -> str:
        return OWN

    async def update_branch(self, _repository: object, _number: int, expected: str) -> None:
        if expected != self.pull.head_sha:
            raise Invalid("expected head sha didn't match current head ref.")
        self.update()

    async def merge(self, _repository: object, _number: int, head: str, *_: object, **__: object) -> str:
        if head != self.pull.head_sha:
            raise HeadConflict("Head branch was modified.")
        self.merges += 1
        self.tip = f"landed-{head}"
        self.pull = replace(self.pull, open=False, merged=True, merge_sha=self.tip)
        return self.tip

    async def prepare_writes(self, _repository: object) -> None:
        """Nothing is to be prepared."""

    def forget_token(self, _installation_id: int) -> None:
        """Nothing is remembered."""

    def forget_rules(self, _repository_id: int) -> None:
        """Nothing is remembered."""


class _StoppedHub:
    """GitHub as one who may be stopped before each request sees it."""

    def __init__(self, hub: Hub, stop: Stop) -> None:
        self._hub, self._stop = hub, stop

    def __getattr__(self, name: str) -> Any:
        ask = getattr(self._hub, name)
        if not asyncio.iscoroutinefunction(ask):
            return ask

        async def asked(*given: Any, **named: Any) -> Any:
            await self._stop(name)
            return await ask(*given, **named)

        return asked


@dataclass
class Side:
    """One process: its engine, and GitHub as everybody sees it."""

    engine: Engine
    hub: Hub


@dataclass(frozen=True)
class Handler:
    """Something that happens on GitHub, and what is done when its webhook, or its turn, comes."""

    name: str
    follow: Act
    process: str
    """Handlers of one process are jobs that the worker does one after the other: they never meet."""
    happens: Callable[[Hub], object] = lambda hub: None

    async def run(self, side: Side) -> None:
        """Let it happen and follow it as its job would: a lost race is run again."""
        self.happens(side.hub)
        for _ in range(_TRIES):
            try:
                return await self.follow(side)
            except StaleRecord as lost:
                # Run again it does what it should, but PostgreSQL takes a second to find a deadlock.
                if lost.__cause__ is not None:
                    raise AssertionError(f"{self.name} met a deadlock") from lost
        raise AssertionError(f"{self.name} loses every race")


class Interleaver:
    """Runs two handlers on one database in every order."""

    def __init__(self, url: str, policy: Policy, *, writing_only: bool = False) -> None:
        self._stop = Stop(writing_only=writing_only)
        self._policy = policy
        self._first, self._second = StoppedDatabase(url, self._stop), Database(url)
        self._watcher_url = url
        self._watcher: psycopg.AsyncConnection | None = None

    async def open(self) -> None:
        self._watcher = await psycopg.AsyncConnection.connect(self._watcher_url, autocommit=True)

    async def close(self) -> None:
        await self._first.close()
        await self._second.close()
        assert self._watcher is not None
        await self._watcher.close()

    async def check(self, begin: Act, first: Handler, second: Handler) -> int:
        """Stop `first` at each of its awaits; returns at how many. Fails for an outcome that no order explains."""
        in_order = [await self._in_turn(begin, *order) for order in ((first, second), (second, first))]
        at = 0
        while True:
            at += 1
            outcome = await self._stopped(begin, first, second, at)
            if outcome is None:
                return at - 1
            if outcome not in in_order:
                where = f"{first.name}, stopped at await {at} for {second.name}: {self._stop.where[:400]}"
                raise AssertionError(f"{where}\n{outcome}\nnot one of\n" + "\n".join(map(str, in_order)))

    async def _in_turn(self, begin: Act, *handlers: Handler) -> Outcome:
        self._stop.arm(0)
        hub = await self._begin(begin)
        for number, handler in enumerate(handlers):
            await handler.run(self._side(hub, number == 0))
        return await self._settled(hub)

    async def _stopped(self, begin: Act, first: Handler, second: Handler, at: int) -> Outcome | None:
        hub = await self._begin(begin)
        self._stop.arm(at)
        one = asyncio.create_task(first.run(self._side(hub, True)))
        reached = asyncio.create_task(self._stop.reached.wait())
        await asyncio.wait([one, reached], return_when=asyncio.FIRST_COMPLETED)
        if not reached.done():
            reached.cancel()
            await one
            return None
        other = asyncio.create_task(second.run(self._side(hub, False)))
        while not (await asyncio.wait([other], timeout=0.02))[0] and not await self._somebody_waits_for_a_lock():
            pass
        self._stop.go_on.set()
        await asyncio.gather(one, other)
        return await self._settled(hub)

    def _side(self, hub: Hub, first: bool) -> Side:
        seen = _StoppedHub(hub, self._stop) if first else hub
        store = Store(self._first if first else self._second)
        engine = Engine(
            store,
            cast(GitHub, seen),
            Clock(),
            StaticPolicies(self._policy),
            lambda: 0.5,
            "first" if first else "second",
        )
        return Side(engine, hub)

    async def _begin(self, begin: Act) -> Hub:
        assert self._watcher is not None
        emptied = [sql.SQL("DELETE FROM {};").format(sql.Identifier(t.name)) for t in reversed(metadata.sorted_tables)]
        await self._watcher.execute(sql.Composed(emptied))
        hub = Hub()
        await begin(self._side(hub, False))
        return hub

    async def _somebody_waits_for_a_lock(self) -> bool:
        assert self._watcher is not None
        asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        (waiting,) = await (await self._watcher.execute(asked)).fetchone() or (0,)
        return bool(waiting)

    async def _settled(self, hub: Hub) -> Outcome:
        """What has become of it all when nobody has anything to do any more."""
        side = self._side(hub, False)
        processor = Processor(side.engine)
        for _ in range(_TRIES):
            if not await processor.run_due():
                return await self._outcome(hub)
        raise AssertionError("it does not come to rest")

    async def _outcome(self, hub: Hub) -> Outcome:
        async with Store(self._second).reading() as tx:
            entries = [entry for queue in await tx.queues.all() for entry in await tx.entries.of_queue(queue.id)]
            due = [queue.due_at for queue in await tx.queues.all()]
            wanted = [await tx.connection.execute(select(*columns)) for columns in _SHOWN]
        return {
            "entries": [_shown(entry) for entry in entries],
            "due": due,
            "merges": hub.merges,
            "stored": [sorted(map(str, rows)) for rows in wanted],
        }


_FIELDS = (
    "number",
    "status",
    "queued_head",
    "head",
    "head_proved",
    "newer_tip",
    "needs_refetch",
    "trusted_labels",
    "held_since",
)
_OF_RUN = ("candidate", "new_head", "completed_checks", "next_poll_at", "merge_requested_at")


def _shown(entry: Entry) -> dict[str, Any]:
    own = {name: getattr(entry, name) for name in _FIELDS}
    return own | {name: getattr(entry.run, name) for name in _OF_RUN}


_SHOWN = (
    (refusals.c.number, refusals.c.head_sha, refusals.c.reason),
    (outbox.c.kind, outbox.c.number, outbox.c.notice["kind"].as_string(), outbox.c.notice["reason"].as_string()),
    (timeline.c.number, timeline.c.event, timeline.c.reason),
)
