"""The life of a process: its loops, its web server, and an orderly end within the time that platforms give."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

import structlog

from bot.settings import Settings
from bot.web import serve
from bot.wiring import Bot
from queue_engine.core.bell import Ear
from queue_engine.core.clock import Clock, SystemClock
from queue_engine.migrations import HEAD, current
from queue_engine.store import Due

_log = structlog.get_logger("imq.process")

_DRAIN_SECONDS = 15.0
"""How long running work may finish after SIGTERM; with the web server's end it stays below 20 seconds."""

_POLL = timedelta(seconds=1)
"""How often work is looked for that another process may have stored; one process alone hears its own bell."""


class NotMigrated(Exception):
    """The database's tables are not those of this version."""


async def run(settings: Settings, *, web: bool, worker: bool) -> None:
    """Run until SIGTERM or SIGINT, then drain. Raises NotMigrated on a PostgreSQL that `imq migrate` must see first."""
    bot = Bot(settings, clock=SystemClock(), random=random.random)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await bot.start(worker=worker)
        if await current(bot.database) != HEAD:
            raise NotMigrated("The database is empty or older than this version: run `imq migrate` first.")
        await _live(bot, stop, web=web, worker=worker)
    finally:
        await bot.close()


async def _live(bot: Bot, stop: asyncio.Event, *, web: bool, worker: bool) -> None:
    runner = await serve(bot.application(), bot.settings.port) if web else None
    if runner is not None:
        _log.info("listening", port=runner.addresses[0][1])
    loops = [asyncio.create_task(work) for work in _loops(bot, stop)] if worker else []
    await stop.wait()
    _log.info("draining")
    bot.engine.bell.ring()
    closing = [runner.cleanup()] if runner is not None else []
    await asyncio.gather(*closing, _drain(bot, loops))


async def _drain(bot: Bot, loops: list[asyncio.Task[None]]) -> None:
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            await asyncio.gather(*loops)
            await bot.worker.drain()
            await bot.processor.drain()
    except TimeoutError:
        _log.warning("not_drained", seconds=_DRAIN_SECONDS)
        await bot.worker.cancel()
        await bot.processor.cancel()


def _loops(bot: Bot, stop: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
    longest = bot.settings.interval if bot.database.dialect == "sqlite" else min(_POLL, bot.settings.interval)
    parts = (
        (bot.sweeper.run_due, bot.sweeper.next_due, ()),
        (bot.worker.start_due, bot.worker.next_due, (Due.JOBS,)),
        (bot.processor.start_due, bot.processor.next_due, (Due.QUEUES,)),
        (bot.courier.run_due, bot.courier.next_due, (Due.LETTERS,)),
    )
    bell = bot.engine.bell
    return [_keep_going(work, due, bell.ear(topics), bot.clock, longest, stop) for work, due, topics in parts]


async def _keep_going(
    work: Callable[[], Awaitable[bool]],
    next_due: Callable[[], Awaitable[datetime | None]],
    ear: Ear,
    clock: Clock,
    longest: timedelta,
    stop: asyncio.Event,
) -> None:
    """Do what is due; then wait for the bell, for what is due next, or for `longest`, whichever comes first."""
    while not stop.is_set():
        try:
            if await work():
                continue
            due = await next_due()
        except Exception:
            # The database may be away for a while; the loop must outlive that.
            _log.exception("loop_failed")
            due = clock.now() + _POLL
        pause = longest if due is None else min(longest, due - clock.now())
        # What is due and could not be started has no room now; the bell rings when there is some.
        await ear.wait(max(pause, timedelta(milliseconds=50)))
