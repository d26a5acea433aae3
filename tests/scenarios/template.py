"""A process that has imported the bot and waits: what it forks starts in a tenth of the time, and is `imq run` else.

What is forked is a process of its own, with its own memory, connections and end, and `kill -9` takes it as any other;
only the imports are its template's. Tests that start dozens of processes use it; that a bot starts from nothing is
shown by those that start few.
"""

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass
class Forked:
    """A process made by a template, as `asyncio.subprocess.Process` would tell of it."""

    pid: int
    _ended: asyncio.Future[int] = field(repr=False)

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._ended.result() if self._ended.done() else None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    async def wait(self) -> int:
        """Wait for its end; returns the exit code."""
        return await asyncio.shield(self._ended)


class Template:
    """Makes one bot after the other; the next one when the last has ended."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None

    async def fork(self, environment: Mapping[str, str], log: Path, command: str = "run") -> Forked:
        """Start `imq run`, or another command, with this environment; its output is added to `log`."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.scenarios.template"),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        if self._watching is not None:
            await self._watching
        assert self._process.stdin is not None
        order = {"environment": dict(environment), "log": str(log), "command": command}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        child = Forked(await self._told(), ended)
        self._watching = asyncio.create_task(self._watch(ended))
        return child

    async def close(self) -> None:
        """End the template, once what it made has ended."""
        if self._watching is not None:
            await self._watching
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            await self._process.wait()

    async def _watch(self, ended: asyncio.Future[int]) -> None:
        ended.set_result(await self._told())

    async def _told(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, "the template ended"
        return int(line)


def main() -> None:
    """For each order on standard input: fork a bot, tell its pid, wait for its end, tell its exit code."""
    import psycopg  # noqa: F401 - what a bot imports at its start

    from bot import cli, process  # noqa: F401

    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            _become(order["environment"], order["log"])
            cli.main([order["command"]], prog_name="imq")
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(environment: dict[str, str], log: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for ours, standard in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(ours, standard)


if __name__ == "__main__":
    main()
