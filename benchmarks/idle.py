"""What a tick and a burst of wake-ups cost when there is much in the queues and nothing to do."""

import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from sqlalchemy import update

from benchmarks.sizes import Size, database_urls
from benchmarks.stage import a_stage
from benchmarks.table import Row, seconds_text, timed
from bot.process.wiring import Bot
from bot.settings.environment import load_settings
from queue_engine.config.document import as_json
from queue_engine.core.database.database import Database
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.run import Run, RunState
from queue_engine.migrations import migrate
from queue_engine.store import Store
from queue_engine.store.repositories import ConfigFile
from queue_engine.store.tables import queues
from tests.acceptance.starting import SharedClock

_GOAL_SECONDS = 1.0
_WAKING_GOAL_SECONDS = 2.0
_NEXT_POLL = timedelta(hours=1)


async def idle_rows(size: Size, seed: int) -> list[Row]:
    """A tick over a thousand queues that wait, on each database."""
    count, depth, ticks = size.of((1_000, 20, 7), (50, 20, 3), (2, 2, 1))
    rows = []
    with tempfile.TemporaryDirectory() as name, database_urls(size, Path(name)) as urls:
        for url in urls:
            rows += await rows_on(url, Path(name), count, depth, ticks)
    return rows if any(url.startswith("postgresql") for url in urls) else [*rows, _unmeasured()]


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
    await _run_due(bot)
    for part in (bot.sweeper, bot.worker, bot.scheduler, bot.dispatcher):
        await part.next_due()
    return time.perf_counter() - start


async def _run_due(bot: Bot) -> None:
    parts = (bot.sweeper, bot.worker, bot.scheduler, bot.dispatcher, bot.feed, bot.watch)
    while any([await part.run_due() for part in parts]):
        pass


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

    The emulator has none of the repositories, so it would issue no token for them. A process that shares the database
    has read their configuration files already.
    """
    clock = SharedClock()
    async with a_stage(directory, clock, ci_time=timedelta(minutes=1)) as stage:
        bot = Bot(load_settings(stage.environment(url)), clock=clock, random=Random(1).random)
        try:
            await migrate(bot.database)
            await bot.start()
            await _run_due(bot)
            await _fill(bot.database, clock, count, depth, stage.installation.id)
            before = len(stage.server.requests)
            yield bot, lambda: len(stage.server.requests) - before
        finally:
            await bot.close()


async def _fill(database: Database, clock: SharedClock, count: int, depth: int, installation: int) -> None:
    """Queue so many pull requests in each queue by the store's own functions, and let each front wait for an hour."""
    now, later = clock.now(), clock.now() + _NEXT_POLL
    async with Store(database).transaction() as tx:
        for number in range(count):
            repository = Repository(10_000 + number, "acme", f"r{number}", installation)
            queue = await tx.queues.find_or_create(repository, "main", now)
            text = _text(number)
            file = ConfigFile(text, parsed=None if text is None else as_json(text))
            await tx.configuration_files.put(f"{repository.id}:main", 0, file, now)
            for place in range(depth):
                entry = await tx.entries.add(
                    queue_id=queue.id,
                    number=place + 1,
                    title=f"Change {place}",
                    author="mona",
                    queued_by="mona",
                    queued_head=f"{number * 1000 + place:040x}",
                    enqueued_at=now,
                )
                if not place:
                    await tx.entries.save(_tested(entry, f"{number:040x}", now, later))
        await tx.connection.execute(update(queues).values(due_at=later))


def _text(number: int) -> str | None:
    """The configuration of a repository: every second one has a file, and no two have the same."""
    return None if number % 2 else f"depth: 20\nchecks:\n  timeout: 2h\n  ignored: [codecov/{number}]\n"


def _tested(entry: Entry, tip: str, now: datetime, later: datetime) -> Entry:
    """The front with a candidate whose checks passed, and that waits for another try."""
    run = Run(
        state=RunState.PASSED,
        started_at=now,
        base_tip=tip,
        candidate=entry.head_sha,
        tested_tree=tip,
        polls=1,
        next_poll_at=later,
    )
    return replace(entry, head_proved=True, run=run)
