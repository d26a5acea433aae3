"""What an operator reads at the level `info`: a few lines a merge, and one a minute while the database is away."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.process import lifecycle
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import CI_TIME, LABEL, a_world
from tests.support.captured import captured

STEPS = ["queued", "updating", "checking", "ready", "landed"]
MOST_LINES, MOST_BYTES = 10, 4096


@pytest.mark.thorough
async def test_merge_is_five_lines_each_with_the_pull_request_and_the_delivery(tmp_path: Path) -> None:
    """An operator follows a pull request from its label to the base; webhooks and comments are for debugging."""
    async with a_world(tmp_path) as world:
        pull = await world.behind("add")
        with captured("info") as log:
            pull.label(LABEL, by="mona")
            await world.until(lambda: pull.merged)
            await world.pass_time(CI_TIME)
    lines = log.lines()
    assert [line["event"] for line in lines] == STEPS
    assert {line["number"] for line in lines} == {pull.number}
    assert len({line["delivery"] for line in lines}) == 1
    assert len(log.text.encode()) <= MOST_BYTES


@pytest.mark.thorough
async def test_train_logs_at_most_ten_lines_a_merge(tmp_path: Path) -> None:
    """Those of its runs are shared by their members."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b", "c")
        with captured("info") as log:
            queue_all(pulls)
            await world.until(lambda: all(pull.merged for pull in pulls))
            await world.pass_time(CI_TIME)
    assert len(log.lines()) <= MOST_LINES * len(pulls), [line["event"] for line in log.lines()]
    assert len(log.text.encode()) <= MOST_BYTES * len(pulls)


@asynccontextmanager
async def away() -> AsyncGenerator[Any]:
    """A transaction of a database whose disk does not answer."""
    await fails()
    yield


async def fails() -> None:
    """Fail as SQLite does then."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    raise error


async def test_outage_of_ten_minutes_is_eleven_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One a minute for all loops, webhooks and probes, and one that says that it is over; then webhooks come again."""
    async with a_world(tmp_path) as world:
        pull = world.open("add")
        await world.bot.app_status.run_due()

        async def wait_for(event: asyncio.Event, at_most: timedelta) -> bool:
            await world.clock.sleep(at_most)
            return event.is_set()

        monkeypatch.setattr(lifecycle, "_wait_for", wait_for)
        monkeypatch.setattr(lifecycle, "_BURST_PAUSE_SECONDS", 0)
        database, ending = world.bot.database, asyncio.Event()
        loops = lifecycle._loops(world.bot, None, ending, web=True, worker=True)
        with captured("info", world.clock) as log:
            with monkeypatch.context() as broken:
                broken.setattr(database, "transaction", away)
                broken.setattr(database, "reading", away)
                broken.setattr(database, "ping", fails)
                tasks = [asyncio.create_task(loop) for loop in loops]
                async with aiohttp.ClientSession() as session:
                    for second in range(600):
                        world.clock.set(world.clock.now() + timedelta(seconds=1))
                        await asyncio.sleep(0)
                        if second % 20 == 0:
                            pull.label(f"label-{second}", by="mona")
                            await world.github.schedule.run_due()
                            for path in ("/readyz", "/metrics"):
                                async with session.get(world.app.webhook_url.replace("/webhook", path)):
                                    pass
            during = log.lines()
            world.clock.set(world.clock.now() + timedelta(seconds=1))
            for _ in range(20_000):
                if log.lines(event="lost_deliveries_sent_again"):
                    break
                await asyncio.sleep(0)
            ending.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        lines = log.lines()
        world.unsettled = "its loops were cancelled"
    assert {line.get("fault") for line in during} == {"unreachable"}, [line for line in during if "fault" not in line]
    assert all(line["advice"] for line in during)
    assert len(during) >= 5
    assert [line["event"] for line in lines[len(during) :]] == ["loop_recovered", "lost_deliveries_sent_again"]
    assert len(during) <= 10, during
    assert sum(line.get("repeats", 0) for line in lines) > 60
