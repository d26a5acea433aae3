"""Run the real bot as an operator does: `imq run` in a process of its own, configured by its environment."""

import asyncio
import os
import random
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import aiohttp

_READY_SECONDS = 30.0
_DRAIN_SECONDS = 20.0
_INHERITED = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "PYTHONPATH", "SYSTEMROOT")
"""The variables that the bot inherits; the caller's own settings of IMQ are for another bot."""


class BotFailed(Exception):
    """The bot did not start, or ended by itself. Its log has the cause."""


_PORTS = range(20_000, 32_000)
"""Below the ports from which operating systems take those of outgoing connections, which could take a free one."""


def free_port() -> int:
    """Find a port of this machine that is free now. Raises OSError if a hundred of them are taken."""
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


class BotProcess:
    """A running bot. `url` is its address, `log` its log file, which is kept if `keeps_log` is set."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, log: Path) -> None:
        self._process = process
        self.url = url
        self.log = log
        self.keeps_log = False

    @classmethod
    async def start(cls, settings: Mapping[str, str], port: int, log: Path) -> "BotProcess":
        """Start the bot with these settings, without waiting until it is ready."""
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment |= {**settings, "PORT": str(port), "IMQ_BIND": "127.0.0.1", "IMQ_LOG_FORMAT": "json"}
        with log.open("ab") as sink:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "bot", "run", env=environment, stdout=sink, stderr=sink
            )
        return cls(process, f"http://127.0.0.1:{port}", log)

    async def ready(self) -> None:
        """Wait until the bot is ready. Raises BotFailed when it ends instead, or takes half a minute."""
        try:
            async with asyncio.timeout(_READY_SECONDS), aiohttp.ClientSession() as session:
                while not await _is_ok(session, f"{self.url}/readyz"):
                    self.check()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise BotFailed(f"the bot was not ready within {_READY_SECONDS:.0f} s") from None

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


async def _is_ok(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False
