"""A process that has imported the bot and waits: what it forks starts in a tenth of the time, and is `imq run` else.

What is forked is a process of its own, with its own memory, connections and end, and `kill -9` takes it as any other;
only the imports, the compiled statements and the models' validators are its template's, in which a bot has landed a
pull request. Tests that start dozens of processes use it; that a bot starts from nothing is shown by those that start
few. All tests of one pytest process share one template.
"""

import asyncio
import atexit
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]

_IMPORTED = ("bot.cli.main", "bot.process.lifecycle", "psycopg", "alembic.command", "tests.campaign.worker")
"""What processes that are forked import at their start."""


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


class _Order(NamedTuple):
    module: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    log: str


class _Server:
    """The process that forks, as the test's process sees it; it ends when this process ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unread = b""
        self._awaited: deque[asyncio.Future[Forked | None]] = deque()
        self._running: dict[int, asyncio.Future[int]] = {}

    async def fork(self, order: _Order | None) -> Forked | None:
        """Fork a process; without an order there is none, and this only waits for those before it."""
        stdin = self._listened()
        started: asyncio.Future[Forked | None] = asyncio.get_running_loop().create_future()
        self._awaited.append(started)
        os.write(stdin, json.dumps(order).encode() + b"\n")
        return await started

    def rest(self) -> None:
        """No longer listen if nothing that was forked runs any more."""
        if self._loop is not None and not self._running and not self._awaited:
            self._loop.remove_reader(self._output)
            self._loop = None

    @property
    def _output(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _listened(self) -> int:
        """Where orders are written, with this event loop listening to their reports."""
        if self._process is None:
            arguments = (sys.executable, "-m", "tests.acceptance.template")
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(arguments, cwd=ROOT, stdin=pipe, stdout=pipe, bufsize=0)
            atexit.register(self._end)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._awaited.clear()
            self._running.clear()
            loop.add_reader(self._output, self._read_output)
        assert self._process.stdin is not None
        return self._process.stdin.fileno()

    def _end(self) -> None:
        assert self._process is not None
        self._process.communicate()

    def _read_output(self) -> None:
        received = os.read(self._output, 65536)
        assert received, "the template ended"
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            pid, *code = map(int, line.split())
            if not pid:
                self._awaited.popleft().set_result(None)
            elif not code:
                self._running[pid] = asyncio.get_running_loop().create_future()
                self._awaited.popleft().set_result(Forked(pid, self._running[pid]))
            elif pid in self._running:
                self._running.pop(pid).set_result(*code)


_SERVER = _Server()


class Template:
    """Makes processes."""

    def __init__(self) -> None:
        self._made: list[Forked] = []

    async def start(self) -> None:
        """Return once its own imports are done, which take a while."""
        await _SERVER.fork(None)

    async def fork(self, environment: Mapping[str, str], log: Path, command: str = "run") -> Forked:
        """Start `imq run`, or another command, with this environment; its output is added to `log`."""
        return await self.fork_module("bot", (command,), environment, log)

    async def fork_module(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> Forked:
        """Start `python -m module` with these arguments and this environment; its output is added to `log`."""
        forked = await _SERVER.fork(_Order(module, tuple(arguments), dict(environment), str(log)))
        assert forked is not None
        self._made.append(forked)
        return forked

    async def close(self) -> None:
        """Return once all that it made has ended."""
        for forked in self._made:
            await forked.wait()
        _SERVER.rest()


def main() -> None:
    """For each order on standard input: fork a process, tell its pid, and, when it has ended, its exit code too.

    When the tests have ended, whatever still runs is killed.
    """
    gc.disable()
    for module in _IMPORTED:
        importlib.import_module(module)
    _land_one()
    gc.collect()
    gc.freeze()
    gc.enable()
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    unread, running = b"", set[int]()
    while True:
        ready = {key.fd for key, _ in selector.select()}
        if woken in ready:
            os.read(woken, 4096)
            _report_ends(running)
        if 0 in ready:
            received = os.read(0, 65536)
            if not received:
                for child in running:
                    os.kill(child, signal.SIGKILL)
                return
            *orders, unread = (unread + received).split(b"\n")
            for order in orders:
                child = _forked(json.loads(order), (woken, wakes, selector.fileno()))
                running |= {child} - {0}
                print(child, flush=True)


def _land_one() -> None:
    """Compile what SQLAlchemy and pydantic compile when it is first used: it takes most of a forked process's start."""
    from tests.acceptance.world import CI_TIME, LABEL, a_world
    from tests.support.databases import compile_once

    async def land(directory: Path) -> None:
        async with a_world(directory) as world:
            pull = world.open("first")
            await world.pass_time(CI_TIME * 2)
            pull.label(LABEL, by="mona")
            await world.until(lambda: bool(pull.merged))

    compile_once(pytest.MonkeyPatch())
    with tempfile.TemporaryDirectory() as directory, redirect_stdout(io.StringIO()):
        asyncio.run(land(Path(directory)))
    assert threading.active_count() == 1, "a fork has no other thread"


def _report_ends(running: set[int]) -> None:
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            running.discard(ended[0])
            print(ended[0], os.waitstatus_to_exitcode(ended[1]), flush=True)
    except ChildProcessError:
        pass


def _forked(order: Any, ours: Sequence[int]) -> int:
    if order is None:
        return 0
    child = os.fork()
    if child:
        return child
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for descriptor in ours:
        os.close(descriptor)
    module, arguments, environment, log = _Order(*order)
    _become(environment, log)
    # The template's own objects were collected before: to look through them again took two thirds of a start.
    gc.unfreeze = lambda: None
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit()


def _become(environment: dict[str, str], log: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for ours, standard in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(ours, standard)


if __name__ == "__main__":
    main()
