"""A process that has imported the bot and waits: what it forks starts in a tenth of the time, and is `imq run` else.

What is forked is a process of its own, with its own memory, connections, standard streams and end, and `kill -9` takes
it as any other; only the imports, the compiled statements and the models' validators are its template's, in which a bot
has landed a pull request. Tests that start processes use it; that IMQ starts from nothing is shown by those that judge
its start, its memory, or what platforms start. All tests of a session share one template.
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
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from tests.support.gates import Gate

ROOT = Path(__file__).parents[2]

_IMPORTED = (
    *("bot.cli.main", "bot.process.lifecycle", "psycopg", "alembic.command", "tests.campaign.worker"),
    *("bot.cli.author.land", "bot.cli.author.login", "bot.cli.author.status_commands", "bot.cli.setup"),
    *("bot.cli.landings", "bot.cli.clone.verify", "bot.process.setup_mode"),
)
"""What processes that are forked import at their start."""

_ADDRESS = "IMQ_TEST_TEMPLATE"
"""The path of the socket of the session's template, for worker processes."""
_KEPT = pytest.StashKey[ExitStack]()
_MOST_BYTES = 2**17
"""Of an order, which fits into a socket's buffer."""


@dataclass
class Forked:
    """A process made by a template, as `asyncio.subprocess.Process` would tell of it."""

    pid: int
    _ended: asyncio.Future[int] = field(repr=False)
    stdout: asyncio.StreamReader | None = None
    stderr: asyncio.StreamReader | None = None

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._ended.result() if self._ended.done() else None

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send `SIGKILL`."""
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for its end; returns the exit code."""
        return await asyncio.shield(self._ended)

    async def communicate(self) -> tuple[bytes, bytes]:
        """Read both streams up to its end."""
        assert self.stdout is not None
        assert self.stderr is not None
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, err


class _Order(NamedTuple):
    module: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    folder: str


@contextmanager
def _template() -> Iterator[str]:
    """Start a template; yield the path of its socket. It ends with this process, at the latest."""
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(address := f"{directory}/socket")
        listening.listen()
        number = listening.fileno()
        arguments = (sys.executable, "-m", "tests.acceptance.template", str(number))
        process = subprocess.Popen(arguments, cwd=ROOT, stdin=subprocess.PIPE, pass_fds=(number,))
        listening.close()
        try:
            yield address
        finally:
            process.communicate()


def pytest_before_workers(config: pytest.Config) -> None:
    """Start one template for all worker processes of the processes gate."""
    if config.option.gate is Gate.PROCESSES:
        stack = config.stash[_KEPT] = ExitStack()
        os.environ[_ADDRESS] = stack.enter_context(_template())
        stack.callback(os.environ.pop, _ADDRESS)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End it after the last worker."""
    if _KEPT in config.stash:
        config.stash[_KEPT].close()


class _Connection:
    """The template as this process sees it, which the first order starts unless the session has one."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._awaited: deque[asyncio.Future[Forked | None]] = deque()
        self._running: dict[int, asyncio.Future[int]] = {}

    async def fork(self, order: _Order | None, files: Sequence[int] = ()) -> Forked | None:
        """Fork a process with these files as its output and its errors.

        Without an order there is none, and this only waits for those before it.
        """
        connected = self._listened()
        started: asyncio.Future[Forked | None] = asyncio.get_running_loop().create_future()
        self._awaited.append(started)
        socket.send_fds(connected, [json.dumps(order).encode()], files)
        return await started

    def rest(self) -> None:
        """No longer listen if nothing that was forked runs any more."""
        if self._loop is not None and self._socket is not None and not self._running and not self._awaited:
            self._loop.remove_reader(self._socket)
            self._loop = None

    def _listened(self) -> socket.socket:
        """Where orders are sent, with this event loop listening to their reports."""
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            if (address := os.environ.get(_ADDRESS)) is None:
                stack = ExitStack()
                address = stack.enter_context(_template())
                atexit.register(stack.close)
            self._socket.connect(address)
            atexit.register(self._socket.close)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._awaited.clear()
            self._running.clear()
            loop.add_reader(self._socket, self._read_report, self._socket)
        return self._socket

    def _read_report(self, connected: socket.socket) -> None:
        try:
            received = connected.recv(_MOST_BYTES)
        except ConnectionResetError:
            received = b""
        if not received:
            self._fail(connected)
            return
        pid, *code = map(int, received.split())
        if not pid:
            self._awaited.popleft().set_result(None)
        elif not code:
            self._running[pid] = asyncio.get_running_loop().create_future()
            self._awaited.popleft().set_result(Forked(pid, self._running[pid]))
        elif pid in self._running:
            self._running.pop(pid).set_result(*code)

    def _fail(self, connected: socket.socket) -> None:
        """Tell everyone who waits that the template ended. A reader that stayed would be called for ever."""
        asyncio.get_running_loop().remove_reader(connected)
        self._loop = None
        ended = RuntimeError("the template ended")
        while self._awaited:
            self._awaited.popleft().set_exception(ended)
        while self._running:
            self._running.popitem()[1].set_exception(ended)


_CONNECTION = _Connection()


class Template:
    """Makes processes."""

    def __init__(self) -> None:
        self._made: list[Forked] = []

    async def start(self) -> None:
        """Return once its own imports are done, which take a while."""
        await _CONNECTION.fork(None)

    async def fork(self, environment: Mapping[str, str], log: Path, command: str = "run") -> Forked:
        """Start `imq run`, or another command, with this environment; its output is added to `log`."""
        return await self.fork_module("bot", (command,), environment, log)

    async def fork_module(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> Forked:
        """Start `python -m module` with these arguments and this environment; its output is added to `log`."""
        with log.open("ab") as output:
            order = _Order(module, tuple(arguments), dict(environment), str(ROOT))
            return await self._started(order, output.fileno(), output.fileno())

    async def fork_piped(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path = ROOT, *, limit: int = 2**16
    ) -> Forked:
        """Start `imq` with these arguments in a folder; its output and its errors are streams to read."""
        order = _Order("bot", tuple(arguments), dict(environment), str(folder))
        with ExitStack() as stack:
            readers, files = [], []
            for _ in range(2):
                read, write = os.pipe()
                stack.callback(os.close, write)
                files.append(write)
                readers.append(await _reader(read, limit))
            forked = await self._started(order, *files)
        forked.stdout, forked.stderr = readers
        return forked

    async def _started(self, order: _Order, *files: int) -> Forked:
        made = await _CONNECTION.fork(order, files)
        assert made is not None
        self._made.append(made)
        return made

    async def close(self) -> None:
        """Return once all that it made has ended."""
        for forked in self._made:
            await forked.wait()
        _CONNECTION.rest()


async def _reader(descriptor: int, limit: int) -> asyncio.StreamReader:
    """What comes out of a pipe."""
    reader = asyncio.StreamReader(limit)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(descriptor, "rb", 0))
    return reader


def main() -> None:
    """For each order: fork a process, tell its pid, and, when it has ended, its exit code too.

    When tests have ended, whatever still runs for them is killed; when the session has ended, this ends.
    """
    gc.disable()
    for module in _IMPORTED:
        importlib.import_module(module)
    _land_one()
    gc.collect()
    gc.freeze()
    gc.enable()
    _Forks(socket.socket(fileno=int(sys.argv[1]))).serve()


class _Forks:
    """The processes that were forked, each with the connection that ordered it."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._woken, self._wakes = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._running: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Take orders until standard input ends."""
        self._wakes.setblocking(False)
        signal.set_wakeup_fd(self._wakes.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for each in (sys.stdin.buffer, self._woken, self._listening):
            self._selector.register(each, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    self._woken.recv(4096)
                    self._report_ends()
                elif key.fileobj is self._listening:
                    self._selector.register(self._listening.accept()[0], selectors.EVENT_READ)
                elif isinstance(key.fileobj, socket.socket):
                    self._take_order(key.fileobj)
                else:
                    self._kill(self._running)
                    return

    def _take_order(self, connection: socket.socket) -> None:
        content, files, *_ = socket.recv_fds(connection, _MOST_BYTES, 2)
        if not content:
            self._selector.unregister(connection)
            connection.close()
            self._kill(pid for pid, owner in self._running.items() if owner is connection)
            return
        order = json.loads(content)
        child = 0 if order is None else os.fork()
        if order is not None and not child:
            self._leave()
            _become(_Order(*order), files)
        for each in files:
            os.close(each)
        if child:
            self._running[child] = connection
        _report(connection, child)

    def _kill(self, children: Iterable[int]) -> None:
        for child in children:
            os.kill(child, signal.SIGKILL)

    def _report_ends(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                _report(self._running.pop(ended[0]), ended[0], os.waitstatus_to_exitcode(ended[1]))

    def _leave(self) -> None:
        """Have a forked process keep none of the template's descriptors and signals; Ctrl-C ends it, as in a shell."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._wakes.close()
        self._selector.close()


def _report(connection: socket.socket, *numbers: int) -> None:
    with suppress(OSError):  # The tests have ended.
        connection.send(" ".join(map(str, numbers)).encode())


def _become(order: _Order, files: Sequence[int]) -> NoReturn:
    """Run the module of an order, as this process."""
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    for standard, given in enumerate((os.open(os.devnull, os.O_RDONLY), *files)):
        os.dup2(given, standard)
        os.close(given)
    # The template's own objects were collected before: to look through them again took two thirds of a start.
    gc.unfreeze = lambda: None
    sys.argv = [order.module, *order.arguments]
    runpy.run_module(order.module, run_name="__main__", alter_sys=True)
    sys.exit()


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


if __name__ == "__main__":
    main()
