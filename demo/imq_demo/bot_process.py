"""Run the real bot as an operator does: `imq run` in a process of its own, configured by its environment."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import aiohttp

_READY_SECONDS = 300.0
_DRAIN_SECONDS = 120.0
"""Far more than a slow machine takes: they end a bot that hangs."""

HOME = "http://127.0.0.1:0"
"""The public address of a bot on this machine; the system chooses the port."""

_INHERITED = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "PYTHONPATH", "SYSTEMROOT")
"""The variables that the bot inherits; the caller's own settings of IMQ are for another bot."""


class BotFailed(Exception):
    """The bot did not start, or ended by itself. Its log has the cause."""


class BotProcess:
    """A bot. `url` is its address once it is ready, `log` its log file, which is kept if `keeps_log` is set."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self.url = HOME
        self.log = log
        self.keeps_log = False

    @classmethod
    async def start(cls, settings: Mapping[str, str], log: Path) -> "BotProcess":
        """Start the bot with these settings on a port that the system chooses, without waiting until it is ready."""
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment |= {**settings, "PORT": "0", "IMQ_BIND": "127.0.0.1", "IMQ_LOG_FORMAT": "json"}
        with log.open("ab") as sink:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "bot", "run", env=environment, stdout=sink, stderr=sink
            )
        return cls(process, log)

    async def ready(self) -> None:
        """Wait until the bot is ready. Raises BotFailed when it ends instead, or takes five minutes."""
        try:
            async with asyncio.timeout(_READY_SECONDS), aiohttp.ClientSession() as session:
                while (port := port_in(self.log)) is None:
                    await self._pause()
                self.url = f"http://127.0.0.1:{port}"
                while not await _is_ok(session, f"{self.url}/readyz"):
                    await self._pause()
        except TimeoutError:
            raise BotFailed(f"the bot was not ready within {_READY_SECONDS:.0f} s") from None

    async def _pause(self) -> None:
        self.check()
        await asyncio.sleep(0.05)

    def check(self) -> None:
        """Raise BotFailed when the bot has ended."""
        if self._process.returncode is not None:
            raise BotFailed(f"the bot ended with exit code {self._process.returncode}")

    def discard_log(self) -> None:
        """Remove the log, unless it is to be kept."""
        if not self.keeps_log:
            self.log.unlink(missing_ok=True)

    async def stop(self) -> int:
        """Send SIGTERM, and SIGKILL when the bot has not drained in time; return its exit code."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                return await self._process.wait()
        except TimeoutError:
            self._process.kill()
            return await self._process.wait()


def port_in(log: Path) -> int | None:
    """Return the port on which a bot listens, by the log that it writes as JSON; None if it does not listen yet."""
    for line in reversed(log.read_bytes().splitlines(keepends=True)):
        if line.startswith(b"{") and line.endswith(b"\n") and (event := json.loads(line))["event"] == "listening":
            return int(event["port"])
    return None


async def _is_ok(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False
