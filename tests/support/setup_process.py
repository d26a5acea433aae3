"""IMQ as a process of its own that has no credentials yet, beside an emulated GitHub whose time runs."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from github_emulator import EmulatorServer, GitHub, SystemClock
from tests.acceptance.template import Forked, Template
from tests.support.ports import held_port
from tests.support.real_time import LIMIT

SECRET_KEY = "0c1d2e3f4a5b6c7d8e9f00112233"  # pragma: allowlist secret


@dataclass
class Imq:
    """A running command, with the log that it has written so far."""

    process: asyncio.subprocess.Process | Forked
    log: list[dict[str, Any]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    async def until(self, event: str) -> dict[str, Any]:
        """Read the log up to the next such event."""
        assert self.process.stderr is not None
        async with asyncio.timeout(LIMIT):
            async for line in self.process.stderr:
                self.text.append(line.decode())
                if line.startswith(b"{"):
                    self.log.append(json.loads(line))
                    if self.log[-1]["event"] == event:
                        return self.log[-1]
        raise AssertionError(f"no {event} in the log: {''.join(self.text)[-3000:]}")

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Signal the process, and return its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.finished()

    async def finished(self) -> int:
        """Wait for the end, with the rest of the log."""
        async with asyncio.timeout(LIMIT):
            _, rest = await self.process.communicate()
        self.text.append(rest.decode())
        assert self.process.returncode is not None
        return self.process.returncode


@asynccontextmanager
async def running(environment: dict[str, str], *command: str) -> AsyncIterator[Imq]:
    """Run a command of `imq`; it is killed if the test did not end it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("IMQ_")}
    template = Template()
    imq = Imq(await template.fork_piped(command, kept | environment, limit=2**22))
    try:
        yield imq
    finally:
        if imq.process.returncode is None:
            await imq.end(signal.SIGKILL)
        await template.close()


@dataclass
class World:
    """A GitHub with one repository, and the settings of an IMQ that knows no App."""

    github: GitHub
    server: EmulatorServer
    port: int
    environment: dict[str, str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def world(directory: Path, database_url: str) -> AsyncIterator[World]:
    """A GitHub whose planned work happens in real time."""
    github = GitHub(SystemClock(), directory=directory / "github")
    server = EmulatorServer(github, jwt_clock=SystemClock())
    await server.start()
    github.create_user("maintainer")
    github.create_repository("maintainer/widgets", files={"README.md": "Widgets\n"})
    stop = asyncio.Event()
    time = asyncio.create_task(github.schedule.run(stop))
    try:
        with held_port() as port:
            environment = {
                "IMQ_PUBLIC_URL": f"http://127.0.0.1:{port}",
                "IMQ_SECRET_KEY": SECRET_KEY,
                "IMQ_GITHUB_API_URL": server.url,
                "DATABASE_URL": database_url,
                "PORT": str(port),
                "IMQ_BIND": "127.0.0.1",
            }
            yield World(github, server, port, environment)
    finally:
        stop.set()
        await time
        await server.stop()
        await github.close()
