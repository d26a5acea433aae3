"""Two handlers on two connections of one PostgreSQL: one is stopped at an await while the other runs.

That is done for every await of the first, at which it asks the database or GitHub. The outcome must equal that of one
handler after the other, in either order. A decision from two reads with a commit in between fails that. Each handler is
a process of its own, with its own engine; both use one GitHub.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

import psycopg
from psycopg import sql
from sqlalchemy import select

from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database, metadata
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.model import Entry
from queue_engine.domain.port import GitHub
from queue_engine.effects.context import Engine
from queue_engine.executor.scheduler import Scheduler
from queue_engine.store import Store
from queue_engine.store.tables import outbox, rejections, timeline
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.examples import NOW
from tests.unit.queue_engine.handlers.github_double import Hub
from tests.unit.queue_engine.handlers.stops import Stop, StoppedDatabase, _StoppedHub

_TRIES = 10

Outcome = dict[str, Any]
Act = Callable[["Side"], Awaitable[None]]


class Clock:
    """A clock that stays at one instant."""

    def now(self) -> datetime:
        return NOW

    async def sleep(self, duration: timedelta) -> None:
        await asyncio.Event().wait()


@dataclass
class Side:
    """One process: its engine, and GitHub as everybody sees it."""

    engine: Engine
    hub: Hub


@dataclass(frozen=True)
class Handler:
    """An event on GitHub, and the handler that runs when its webhook comes."""

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
        in_order = [await self._one_after_the_other(begin, *order) for order in ((first, second), (second, first))]
        at = 0
        while True:
            at += 1
            outcome = await self._stopped(begin, first, second, at)
            if outcome is None:
                return at - 1
            if outcome not in in_order:
                where = f"{first.name}, stopped at await {at} for {second.name}: {self._stop.where[:400]}"
                raise AssertionError(f"{where}\n{outcome}\nnot one of\n" + "\n".join(map(str, in_order)))

    async def _one_after_the_other(self, begin: Act, *handlers: Handler) -> Outcome:
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
        side_hub = _StoppedHub(hub, self._stop) if first else hub
        store = Store(self._first if first else self._second)
        engine = Engine(
            store,
            cast(GitHub, side_hub),
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
        """The state of the database and of GitHub when no work is left."""
        side = self._side(hub, False)
        scheduler = Scheduler(side.engine)
        for _ in range(_TRIES):
            if not await scheduler.run_due():
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
    "head_sha",
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
    (rejections.c.number, rejections.c.head_sha, rejections.c.reason),
    (outbox.c.kind, outbox.c.number, outbox.c.notice["kind"].as_string(), outbox.c.notice["reason"].as_string()),
    (timeline.c.number, timeline.c.event, timeline.c.reason),
)
