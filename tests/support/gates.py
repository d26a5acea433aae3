"""The gates of the tests, and the guard of the landing gate: its tests live in virtual time.

The gate of a test is decided by its mark, or by its folder:

- *processes* (`process`, and the folders `PROCESSES`): tests that live in real time; `tests/support/processes_gate.py`
  runs them.
- *long* (`long`): tests that take minutes; `make long` runs them. So it does unit tests on their second database,
  PostgreSQL, but for the shared core's: every statement has its tests in tests/store, on both databases.
- *landing*: all others; of a test in tests/acceptance with many variants the first, and the first that answers its
  yes-or-no questions otherwise; the long gate runs the others. A test whose variants have a cause each is marked
  `every_variant`; one of which further variants have a cause names these in that mark. The long gate also runs those
  tests in tests/acceptance that are marked `thorough`: the others enter each branch of IMQ's code that they enter.

What a test of the landing gate may not do makes tests pass nearly always, on a quiet machine:

- wait: `asyncio.sleep` or `time.sleep` of more than 0 s, or a time limit that ends in real time. Limits of
  `asyncio.timeout` from a second on become ten minutes, so that a busy machine ends none;
- start a process; PostgreSQL is started once a session, by the harness;
- bind a port by its number: a free port that was looked for may be taken by now. Port 0 never is;
- read the wall clock, which `tests/test_gates.py` finds in their text.
"""

import asyncio
import gc
import os
import socket
import subprocess
import sys
import time
import traceback
from asyncio import events, tasks
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers

import github_emulator
from queue_engine.core.timing import clock as clocks
from tests.support.real_time import LIMIT

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
EMULATOR_TESTS = ROOT / "emulator" / "tests"
UNIT = TESTS / "unit"
CORE = UNIT / "queue_engine" / "core"
ACCEPTANCE = TESTS / "acceptance"

PROMISES = "test_promises.py"
"""The module of tests/acceptance that is never sampled: a test for each promise."""

PROCESSES = ("browser", "campaign", "hosting", "process")

NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
"""What the operating system's clock shows the tests of the landing gate, as far as IMQ and the emulator ask it."""

_STARTS = (
    *((os, name) for name in ("execv", "execve", "fork", "forkpty", "posix_spawn", "posix_spawnp", "system")),
    (subprocess.Popen, "__init__"),
)
"""Calls that start a process. An audit hook takes 2 % of all time, as Python reports each `id()` to it."""
_LIMITS = {"Timeout._on_timeout", "_release_waiter", "TimerContext.timeout"}
"""What timers call that end a wait: of `asyncio.timeout`, `asyncio.wait_for` and the limits of aiohttp."""
_HEARTBEATS = f"{os.sep}aiohttp_sse{os.sep}"
"""The library sends a heartbeat in each open stream every 15 s; no test waits for one."""


_LINES_OF_A_LOG = 200
_ANSWERS = ("True", "False")


class Gate(StrEnum):
    """Where a test runs."""

    LANDING = "landing"
    PROCESSES = "processes"
    LONG = "long"


def is_marked(item: pytest.Item, name: str) -> bool:
    """Whether a test has a mark: for all of its variants, or for the parameters or whole variants that it names."""
    named = {_variant(item), *_parameters(item)}
    return any(not mark.args or named & set(mark.args) for mark in item.iter_markers(name))


def _parameters(item: pytest.Item) -> list[str]:
    """The names of a variant's parameters."""
    return _variant(item).split("-")


def _variant(item: pytest.Item) -> str:
    """The name of a variant: `command-mona` of `test_a[command-mona]`."""
    return item.nodeid.partition("[")[2].removesuffix("]")


def gate_of(item: pytest.Item) -> Gate:
    """The gate of a test."""
    if is_marked(item, "long"):
        return Gate.LONG
    if is_in_processes(item.path) or is_marked(item, "process"):
        return Gate.PROCESSES
    of_the_core = is_below(item.path, CORE)
    return Gate.LONG if is_on_second_database(item) and not of_the_core else Gate.LANDING


@cache
def is_in_processes(path: Path) -> bool:
    """Whether all tests of a file live in real time, by its folder."""
    return any(is_below(path, TESTS / folder) for folder in PROCESSES)


@cache
def is_below(path: Path, folder: Path) -> bool:
    """Whether a file of tests lies in a folder. Each of ten thousand tests asks several times."""
    return path.is_relative_to(folder)


def is_on_second_database(item: pytest.Item) -> bool:
    """Whether it is a unit test's run on PostgreSQL after the one on SQLite."""
    return is_below(item.path, UNIT) and "postgres" in _parameters(item)


def may_have(path: Path, gate: Gate) -> bool:
    """Whether a file of tests may have any of a gate: it is not even imported else."""
    in_folder = is_in_processes(path)
    if gate is Gate.LANDING:
        return not in_folder
    text = path.read_text(encoding="utf-8")
    if gate is Gate.LONG:
        repeats = "mark.long" in text or "mark.lagging" in text or path.is_relative_to(ACCEPTANCE)
        return repeats or path.is_relative_to(UNIT)
    return in_folder or "mark.process" in text


class Guard:
    """Notes what the test that runs now does in real time."""

    def __init__(self) -> None:
        self.on = False
        self._noted: list[str] = []

    def note(self, fault: str) -> None:
        """Note a fault of the test that runs, with the last calls that led to it."""
        if self.on:
            calls = traceback.extract_stack()[:-2][-6:]
            self._noted.append(fault + "\n" + "".join(traceback.format_list(calls)))

    def taken(self) -> str:
        """All that was noted; it is noted no more."""
        noted, self._noted = self._noted, []
        return "\n".join(noted)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of tests."""
    parser.addoption("--thorough", action="store_true", help="run all tests of the gate, as CI does")
    parser.addoption("--only-import", action="store_true", help="import all tests, which compiles them, and make none")
    parser.addoption("--gate", type=Gate, choices=list(Gate), help="whose tests run; landing, if no test is named")


def _chosen(config: pytest.Config) -> set[Gate]:
    """The gates whose tests run: where tests are named, those of both gates of CI."""
    gate: Gate | None = config.option.gate
    if gate is not None:
        return {gate}
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    return {Gate.LANDING, Gate.PROCESSES} if named else {Gate.LANDING}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read only the files that may have tests of the gate."""
    if collection_path.suffix != ".py" or any(may_have(collection_path, gate) for gate in _chosen(config)):
        return None
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> list[pytest.Item] | None:
    """Make no test of what was only to be imported."""
    return [] if collector.config.option.only_import else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """To find no test is no failure where none was to be made.

    An example has Hypothesis store the constants of all imported modules, which each process would find for itself.
    """
    if session.config.option.only_import and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        settings(max_examples=100, database=None)(given(integers())(lambda number: None))()
        session.exitstatus = pytest.ExitCode.OK


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of other gates, and thorough ones unless they were asked for; put those that take long first.

    So none is left over at the end while other processes have nothing to do. What is loaded by now stays, so the
    garbage collector need not examine it again and again.
    """
    if config.args_source is not pytest.Config.ArgsSource.ARGS or config.option.gate is Gate.LONG:
        put_variants_off(items)
    gates = _chosen(config)
    chosen = [item for item in items if gate_of(item) in gates]
    if not config.option.thorough:
        chosen = [item for item in chosen if not is_thorough(item)]
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            chosen = sample(chosen)
    left_out = set(items) - set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = chosen
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    gc.collect()
    gc.freeze()


def put_variants_off(items: Sequence[pytest.Item]) -> None:
    """Move tests in tests/acceptance to the long gate: thorough ones, and most variants.

    The first variant stays, and the first with other answers; so do all tests of `PROMISES`.
    """
    answered: defaultdict[str, list[list[str]]] = defaultdict(list)
    for item in items:
        if not is_below(item.path, ACCEPTANCE) or item.path.name == PROMISES or gate_of(item) is not Gate.LANDING:
            continue
        answers = answered[item.nodeid.partition("[")[0]]
        its_answers = [name for name in _parameters(item) if name in _ANSWERS]
        if is_marked(item, "thorough"):
            item.add_marker("long")
        elif len(answers) < 2 and its_answers not in answers:
            answers.append(its_answers)
        elif not is_marked(item, "every_variant"):
            item.add_marker("long")


def is_thorough(item: pytest.Item) -> bool:
    """Whether a test is marked `thorough`, for all of its parameters or for those that the mark names.

    So is a unit test's run on its second database.
    """
    return is_on_second_database(item) or is_marked(item, "thorough")


def sample(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Choose a test for each subject in tests/acceptance, since each takes half a second.

    It is the first one of the modules whose names begin with the same word, as `test_label_early.py` and
    `test_label_consent.py` do.
    """
    first: dict[str, pytest.Item] = {}
    for item in items:
        first.setdefault(_subject(item), item)
    return [
        item
        for item in items
        if not is_below(item.path, ACCEPTANCE) or item.path.name == PROMISES or first[_subject(item)] is item
    ]


def _subject(item: pytest.Item) -> str:
    """What a module is about: the first word of its name, after `test_`."""
    return item.path.stem.split("_")[1] if is_below(item.path, ACCEPTANCE) else ""


GUARD = Guard()


@contextmanager
def unguarded() -> Iterator[None]:
    """Let the harness start what a whole session uses, or a test bind a port that it holds itself."""
    on, GUARD.on = GUARD.on, False
    try:
        yield
    finally:
        GUARD.on = on


def _watch() -> None:
    """Report each wait in real time, started process and bound port to the guard, from now on."""
    pause, block, run, limited_at = asyncio.sleep, time.sleep, events.Handle._run, asyncio.timeout_at

    def timeout(delay: float | None) -> asyncio.Timeout:
        return timeout_at(None if delay is None else asyncio.get_running_loop().time() + delay)

    def timeout_at(when: float | None) -> asyncio.Timeout:
        # IMQ gives GitHub 20 s for an answer, and 5 s for a connection. A process that gets a twentieth of a processor
        # took longer.
        now = asyncio.get_running_loop().time()
        return limited_at(now + max(when - now, LIMIT) if GUARD.on and when is not None and when - now > 0.5 else when)

    async def sleep(delay: float, result: Any = None) -> Any:
        if delay > 0 and _HEARTBEATS not in sys._getframe(1).f_code.co_filename:
            GUARD.note(f"it waits {delay} s in real time (asyncio.sleep)")
        return await pause(delay, result)

    def blocking_sleep(seconds: Any, /) -> None:
        if seconds > 0:
            GUARD.note(f"it waits {seconds} s in real time (time.sleep)")
        block(seconds)

    def run_timer(timer: Any) -> None:
        called = getattr(timer._callback, "__qualname__", "")
        if called in _LIMITS:
            GUARD.note(f"a time limit ends in real time ({called}, {timer._callback!r})")
        run(timer)

    def start(of: Any, name: str) -> Callable[..., Any]:
        begin = getattr(of, name)

        def started(*given: Any, **named: Any) -> Any:
            GUARD.note(f"it starts a process ({of.__name__}.{name})")
            return begin(*given, **named)

        return started

    def bind(bound: socket.socket, address: Any, /) -> None:
        if isinstance(address, tuple) and address[1] != 0:
            GUARD.note(f"it binds port {address[1]}: bind port 0, and read which one it is")
        super(socket.socket, bound).bind(address)

    patch = pytest.MonkeyPatch()
    for place, name, watched in (
        *((*each, start(*each)) for each in _STARTS),
        (socket.socket, "bind", bind),
        (asyncio, "sleep", sleep),
        (tasks, "sleep", sleep),
        (asyncio, "timeout", timeout),
        (asyncio, "timeout_at", timeout_at),
        (time, "sleep", blocking_sleep),
        (events.TimerHandle, "_run", run_timer),
    ):
        patch.setattr(place, name, watched)


_watch()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Watch the tests of the landing gate, for which no time passes unless they move it."""
    GUARD.on = gate_of(item) is Gate.LANDING
    try:
        with pytest.MonkeyPatch.context() as patch:
            if GUARD.on:
                for clock in (clocks.SystemClock, github_emulator.SystemClock):
                    patch.setattr(clock, "now", lambda _: NOW)
            return (yield)
    finally:
        GUARD.on = False
        GUARD.taken()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that did what its gate forbids, also if it passed; add the logs of a failed test's processes."""
    report = yield
    noted = GUARD.taken()
    if noted:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} is no test of the landing gate:\n{noted}\n{report.longrepr or ''}"
    directory = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and directory is not None and not noted:
        for log in sorted(Path(directory).rglob("*.log")):
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES_OF_A_LOG:]
            report.sections.append((f"the end of {log.relative_to(directory)}", "\n".join(lines)))
    return report
