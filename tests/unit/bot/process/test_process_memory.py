"""All threads share one heap, which returns large blocks, where the C library lets them; what is imported stays."""

import ctypes
import gc
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from bot.process.process_memory import imported_for_good, keep_small
from tests.acceptance.template import ROOT


def test_glibc_uses_one_arena_and_returns_large_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are those of `M_ARENA_MAX`, `M_MMAP_THRESHOLD` and `M_TRIM_THRESHOLD` in glibc's `malloc.h`."""
    calls: list[tuple[int, int]] = []

    def mallopt(parameter: int, value: int) -> int:
        calls.append((parameter, value))
        return 1

    def library(_name: object) -> Any:
        return SimpleNamespace(mallopt=mallopt)

    monkeypatch.setattr(ctypes, "CDLL", library)
    assert keep_small()
    assert calls == [(-8, 1), (-3, 32768), (-1, 131072)]


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_another_c_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    """musl has no `mallopt`, and Windows no library without a name."""

    def fails(_name: object) -> Any:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", fails)
    assert not keep_small()


def test_imported_modules_are_never_collected_and_others_are() -> None:
    """What is frozen is never examined again; while modules are imported, only what is new is."""
    frozen, thresholds = gc.get_freeze_count(), gc.get_threshold()
    with imported_for_good():
        assert gc.get_threshold()[1] > 10_000
    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() > frozen


def make() -> tuple[Any, ...]:
    """Dataclasses of each kind that IMQ has, and instances to compare."""

    @dataclass(frozen=True, slots=True)
    class Pair:
        first: int
        others: list["Pair"] = field(default_factory=list, compare=False)
        hidden: str = field(default="x", repr=False)

    @dataclass(frozen=True)
    class One:
        value: float

    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    @dataclass(order=True)
    class Ordered:
        a: int
        b: str = "b"

    class Child(One):
        extra = 1

    return Pair, One, Empty, Ordered, Child


def test_dataclasses_that_share_code_behave_as_those_of_python() -> None:
    """The same text, equality, order and hash, and the same refusals."""
    own = make()
    with imported_for_good():
        shared = make()
    nan, results = float("nan"), list[list[Any]]()
    for pair, one, empty, ordered, child in (own, shared):
        recursive, plain = pair(1), child(2.0)
        recursive.others.append(recursive)
        plain.extra = 3
        del plain.extra
        found = [
            *map(repr, (pair(1, [pair(2)]), one(1.5), empty(), ordered(1), child(1.5), recursive)),
            *map(hash, (pair(1), one(1.5), empty(), child(1.5))),
            *(pair(1) == pair(1, [pair(2)]), pair(1) == pair(1, hidden="y"), one(nan) == one(nan), empty() == empty()),
            *(
                one(1) == child(1),
                one(1) == one(1),
                one(1) == 1,
                ordered(1) < ordered(1, "c"),
                ordered(1) == ordered(1),
            ),
            *(replace(pair(1), first=2).first, pair.__eq__.__name__, pair.__repr__.__name__, pair.__hash__.__name__),
            *(refused(setattr, each, "value", 1) for each in (one(1), child(1))),
            *(refused(setattr, pair(1), "first", 2), refused(delattr, pair(1), "first")),
            refused(setattr, one(1), "unknown", 2),
        ]
        results.append(found)
    assert results[0] == results[1]
    assert shared[0].__setattr__ is shared[1].__setattr__
    assert shared[0].__eq__.__code__ is shared[1].__eq__.__code__


def refused(act: Callable[..., object], *what: Any) -> str:
    """The refusal of a frozen dataclass."""
    with pytest.raises(FrozenInstanceError) as error:
        act(*what)
    return str(error.value)


_PROBE = """
from bot.process.process_memory import imported_for_good
with imported_for_good():
    import bot.cli.processes, sqlalchemy.sql.compiler, queue_engine.executor.scheduler
print(bot.cli.processes.run.help is not None)
print(sqlalchemy.sql.compiler.SQLCompiler.visit_select.__doc__, queue_engine.executor.scheduler.advance.__doc__)
print(queue_engine.executor.scheduler.__doc__ is not None)
"""


@pytest.mark.process
def test_functions_of_libraries_and_of_the_engine_have_no_docstring_in_a_process() -> None:
    """Only commands and calls of the API show theirs."""
    child = subprocess.run([sys.executable, "-c", _PROBE], cwd=ROOT, capture_output=True, text=True, check=True)
    assert child.stdout.split("\n")[:3] == ["True", "None None", "True"]
