"""The gates: what the tests of the landing gate may not do, and when the processes gate lets a change pass."""

import ast
import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gates import (
    EMULATOR_TESTS,
    GUARD,
    PROCESSES,
    PROMISES,
    ROOT,
    TESTS,
    Gate,
    gate_of,
    may_have,
    put_variants_off,
    sample,
)
from tests.support.processes_gate import MOST_RERUNS, Failures, verdict
from tests.support.real_time import LIMIT

CLOCKS = {
    *("time.time", "time.monotonic", "time.perf_counter", "time.process_time", "time.time_ns", "time.monotonic_ns"),
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "loop.time"),
}


def landing_modules() -> Iterator[tuple[str, str]]:
    """The names and texts of the modules that only tests of the landing gate use."""
    for path in sorted([*TESTS.rglob("*.py"), *EMULATOR_TESTS.rglob("*.py")]):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        elsewhere = "pytestmark = pytest.mark.process" in text or "pytestmark = [pytest.mark.process" in text
        if may_have(path, Gate.LANDING) and not elsewhere and "/support/" not in name and "/fuzz/" not in name:
            yield name, text


def test_no_test_of_the_landing_gate_reads_the_wall_clock() -> None:
    """What a test judges by the wall clock depends on the machine; `a_clock` and the worlds have time of their own."""
    read = [
        f"{name}:{node.lineno} {ast.unparse(node.func)}"
        for name, text in landing_modules()
        if any(clock in text for clock in CLOCKS)
        for test in ast.parse(text).body
        if "pytest.mark.process" not in ast.unparse(test)
        for node in ast.walk(test)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in CLOCKS
    ]
    assert read == []


@pytest.mark.parametrize("folder", PROCESSES)
def test_folders_of_the_other_gates_exist(folder: str) -> None:
    """A gate whose folder was renamed would lose its tests."""
    assert (TESTS / folder).is_dir()


async def test_wait_in_real_time_is_noted() -> None:
    """Both ways to sleep; to let others run is no wait."""
    await asyncio.sleep(0)
    time.sleep(0)  # noqa: ASYNC251 - it is what the guard has to see
    assert GUARD.taken() == ""
    await asyncio.sleep(0.0001)
    assert "it waits 0.0001 s in real time (asyncio.sleep)" in GUARD.taken()
    time.sleep(0.0001)  # noqa: ASYNC251 - the same
    assert "it waits 0.0001 s in real time (time.sleep)" in GUARD.taken()


async def test_time_limit_that_ends_is_noted_and_one_that_does_not_is_none() -> None:
    """A generous limit guards against a hang, and times nothing: one of seconds is made generous."""
    soon = asyncio.get_running_loop().time() + 1
    async with asyncio.timeout(LIMIT) as generous, asyncio.timeout(1) as short, asyncio.timeout_at(soon) as connecting:
        await asyncio.sleep(0)
    assert min(short.when() or 0, connecting.when() or 0) >= (generous.when() or LIMIT) - 1
    assert GUARD.taken() == ""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.0001):
            await asyncio.Event().wait()
    assert "a time limit ends in real time" in GUARD.taken()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.0001)
    assert "a time limit ends in real time" in GUARD.taken()


def test_port_bound_by_its_number_is_noted_and_port_0_is_not() -> None:
    """Whatever looked for a free port, another process may have it now."""
    with socket.socket() as first:
        first.bind(("127.0.0.1", 0))
        assert GUARD.taken() == ""
        port = first.getsockname()[1]
    with socket.socket() as second:
        second.bind(("127.0.0.1", port))
    assert f"it binds port {port}" in GUARD.taken()


def test_start_of_a_process_is_noted() -> None:
    """However it is started."""
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert "it starts a process" in GUARD.taken()
    os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", ""], os.environ), 0)
    assert "it starts a process" in GUARD.taken()


def test_gate_of_a_test_is_that_of_its_mark_or_its_folder(request: pytest.FixtureRequest) -> None:
    """Other gates may do all that: their tests live in real time."""
    assert gate_of(request.node) is Gate.LANDING
    assert may_have(Path(__file__), Gate.LANDING)
    assert may_have(TESTS / "process" / "test_kill.py", Gate.PROCESSES)
    assert not may_have(TESTS / "process" / "test_kill.py", Gate.LANDING)
    request.applymarker("process")
    assert gate_of(request.node) is Gate.PROCESSES
    request.applymarker("long")
    assert gate_of(request.node) is Gate.LONG


def test_all_but_the_first_variants_of_a_test_run_in_the_long_gate(request: pytest.FixtureRequest) -> None:
    """Another answer stays as well. Thorough ones go, and none that a mark names as one with a cause of its own."""
    repeated = [variant(request, "acceptance/test_a.py", f"test_a[{n}]") for n in range(4)]
    marked = [variant(request, "acceptance/test_b.py", f"test_b[{n}]", "every_variant") for n in range(4)]
    kept = pytest.mark.every_variant("3-lag")
    named = [variant(request, "acceptance/test_g.py", f"test_g[{n}-lag]", kept) for n in range(4)]
    others = [variant(request, "store/test_c.py", f"test_c[{n}]") for n in range(4)]
    thorough = [variant(request, "acceptance/test_d.py", f"test_d[{n}]", *["thorough"] * (n < 3)) for n in range(5)]
    answers = [variant(request, "acceptance/test_e.py", f"test_e[{n}-{n > 1}]") for n in range(4)]
    promises = [variant(request, f"acceptance/{PROMISES}", f"test_f[{n}]") for n in range(2)]
    put_variants_off([*repeated, *marked, *named, *others, *thorough, *answers, *promises])
    assert [gate_of(item) for item in thorough] == [Gate.LONG] * 3 + [Gate.LANDING] + [Gate.LONG]
    assert [gate_of(item) for item in repeated] == [Gate.LANDING] + [Gate.LONG] * 3
    assert [gate_of(item) for item in named] == [Gate.LANDING, Gate.LONG, Gate.LONG, Gate.LANDING]
    assert [gate_of(item) for item in answers] == [Gate.LANDING, Gate.LONG] * 2
    assert {gate_of(item) for item in marked + others + promises} == {Gate.LANDING}
    assert may_have(TESTS / "acceptance" / "test_who_did_it.py", Gate.LONG)


def test_make_test_runs_an_acceptance_test_of_each_subject_and_every_promise(request: pytest.FixtureRequest) -> None:
    """A subject is the first word of a module's name."""
    subjects = [variant(request, f"acceptance/test_{name}.py", "test_a") for name in ("label_early", "label", "held")]
    others = [variant(request, path, name) for path in (f"acceptance/{PROMISES}", "store/test_c.py") for name in "ab"]
    assert sample([*subjects, *others]) == [subjects[0], subjects[2], *others]


def variant(request: pytest.FixtureRequest, path: str, name: str, *marks: str | pytest.MarkDecorator) -> pytest.Item:
    """A test as pytest would collect it."""
    module = pytest.Module.from_parent(request.session, path=TESTS / path)
    item = pytest.Function.from_parent(module, name=name, callobj=failed)
    for mark in marks:
        item.add_marker(mark)
    return item


def failed(*names: str) -> Failures:
    """What a run of the gate reported."""
    failures = Failures()
    failures.names |= dict.fromkeys(names)
    failures.passed = 9
    return failures


def test_processes_gate_passes_and_names_what_passed_only_when_it_reran() -> None:
    """A rerun is told in the last lines, so that somebody mends its cause."""
    assert verdict(failed(), 0, []) == (0, ["The processes gate passed: 9 tests, none ran again."])
    code, lines = verdict(failed("a", "b"), 1, [0, 0])
    assert code == 0
    assert lines[1:] == ["  a: failed, then passed alone", "  b: failed, then passed alone"]


def test_processes_gate_fails_by_a_second_failure_by_many_reruns_or_by_pytest_itself() -> None:
    """Nothing but one failure of a few tests is forgiven."""
    code, lines = verdict(failed("a", "b"), 1, [0, 1])
    assert (code, lines[-1]) == (1, "  b: failed, then failed again alone")
    assert verdict(failed(*map(str, range(MOST_RERUNS + 1))), 1, [])[0] == 1
    for code in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        assert verdict(failed(), code, [])[0] == code
    unread = failed()
    unread.uncollected = True
    assert verdict(unread, 1, [])[0] == 1
