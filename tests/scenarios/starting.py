"""What a bot in a world is started with: a clock moved by hand, plain logs, and a file that is migrated already."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import structlog
from aiohttp import web

from bot.settings import load_settings
from bot.web import serve
from bot.wiring import Bot
from queue_engine.core.database import Database
from queue_engine.migrations import migrate
from sandbox.clock import ManualClock

_MIGRATED: list[bytes] = []
"""An empty, migrated SQLite file, made by the first world: migrating takes as long as all else that a world needs."""


class SharedClock(ManualClock):
    """One time for both sides; who sleeps wakes when the clock is moved past the end of the sleep."""

    def __init__(self) -> None:
        super().__init__()
        self._moved = asyncio.Event()

    def set(self, when: Any) -> None:
        super().set(when)
        self._moved.set()
        self._moved = asyncio.Event()

    async def sleep(self, duration: timedelta) -> None:
        end = self.now() + duration
        while self.now() < end:
            await self._moved.wait()


@contextmanager
def plain_logs() -> Iterator[None]:
    """Logs without the pictures of every frame, which take a second for each logged error."""
    before = structlog.get_config()
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, renderer]
    )
    try:
        yield
    finally:
        structlog.configure(**before)


async def start_bot(environment: dict[str, str], clock: SharedClock) -> tuple[Bot, web.AppRunner]:
    """A bot on its own web server, ready to be driven step by step."""
    bot = Bot(load_settings(environment), clock=clock, random=Random(7).random)
    # Nobody waits for a world's first webhook, and to rehearse it takes as long as some of them.
    with patch.object(bot.inbox, "rehearse", _nothing):
        await bot.start()
    return bot, await serve(bot.application(), 0, "127.0.0.1")


async def _nothing() -> None:
    pass


async def lay_out(path: Path) -> None:
    """Make an empty, migrated SQLite file."""
    if _MIGRATED:
        await asyncio.to_thread(path.write_bytes, _MIGRATED[0])
        return
    database = Database(f"sqlite:///{path}")
    await migrate(database)
    await database.close()
    _MIGRATED.append(await asyncio.to_thread(path.read_bytes))
