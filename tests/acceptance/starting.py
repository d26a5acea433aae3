"""What a bot in a world is started with: a clock moved by hand, plain logs, and a file that is migrated already."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import structlog
from aiohttp import web

from bot.process.wiring import Bot
from bot.settings.environment import load_settings
from bot.web.application import serve
from github_emulator import ManualClock
from queue_engine.core.database.database import Database
from queue_engine.migrations import migrate

_MIGRATED: list[bytes] = []
"""An empty, migrated SQLite file, made by the first world: migrating takes as long as all else that a world needs."""


class SharedClock(ManualClock):
    """One time for both sides; who sleeps wakes when the clock is moved past the end of the sleep."""

    def __init__(self) -> None:
        super().__init__()
        self._moved = asyncio.Event()
        self.sleeping = Counter[timedelta]()
        """How many sleep now, by how long."""

    def set(self, when: Any) -> None:
        super().set(when)
        self._moved.set()
        self._moved = asyncio.Event()

    async def sleep(self, duration: timedelta) -> None:
        end = self.now() + duration
        self.sleeping[duration] += 1
        try:
            while self.now() < end:
                await self._moved.wait()
        finally:
            self.sleeping[duration] -= 1


@contextmanager
def plain_logs() -> Iterator[None]:
    """Logs without the pictures of every frame, which take a second for each logged error."""
    before = structlog.get_config()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            _written,
        ]
    )
    try:
        yield
    finally:
        structlog.configure(**before)


def _written(_: object, __: str, event: structlog.typing.EventDict) -> str:
    """An event as one line, its traceback below; structlog's own renderers took every sixtieth second of all tests."""
    level, traceback = event.pop("level"), event.pop("exception", None)
    words = " ".join(f"{key}={value!r}" for key, value in event.items() if key != "event")
    line = f"[{level}] {event['event']} {words}"
    return line if traceback is None else f"{line}\n{traceback}"


async def start_bot(environment: dict[str, str], clock: SharedClock) -> tuple[Bot, web.AppRunner]:
    """A bot on its own web server, ready to be driven step by step."""
    bot = Bot(load_settings(environment), clock=clock, random=Random(7).random)
    await bot.start()
    return bot, await serve(bot.application(), bot.settings.port, "127.0.0.1")


async def lay_out(path: Path) -> None:
    """Make an empty, migrated SQLite file."""
    if _MIGRATED:
        await asyncio.to_thread(path.write_bytes, _MIGRATED[0])
        return
    database = Database(f"sqlite:///{path}")
    await migrate(database)
    await database.close()
    _MIGRATED.append(await asyncio.to_thread(path.read_bytes))
