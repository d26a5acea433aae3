"""All threads share one heap, which returns large blocks, where the C library lets them; what is imported stays."""

import ctypes
import gc
import mimetypes
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest

from bot.process.process_memory import imported_for_good, keep_small


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    """Restore how often this process looks for garbage."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_every_python_collects_garbage_at_the_same_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the C library has no options. Python 3.13 waits for 2,000 objects."""
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace())
    gc.set_threshold(2000)
    assert not keep_small()
    assert gc.get_threshold()[0] == 700


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
    """What is frozen is never examined again."""
    frozen = gc.get_freeze_count()
    with imported_for_good():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen


def test_class_that_a_dataclass_with_slots_replaced_is_let_go() -> None:
    """Python keeps it, because the methods of the second class refer to it, and before 3.11.3 a descriptor, too."""

    class First:
        number: int

    first = ref(First)
    with imported_for_good():
        second: Any = dataclass(frozen=True, slots=True)(First)
        second.__weakref__ = vars(First)["__weakref__"]
        del First
    assert first() is None
    with pytest.raises(FrozenInstanceError):
        second(1).number = 2
    with pytest.raises(FrozenInstanceError):
        second(1).unknown = 2


def test_types_of_files_are_pythons_own_and_not_the_machines() -> None:
    """The lists of a machine have thousands of lines, and no two machines have the same."""
    with imported_for_good():
        mimetypes.init()
    assert mimetypes.guess_type("queue.svg") == ("image/svg+xml", None)
    assert set(mimetypes.types_map) == set(mimetypes.MimeTypes().types_map[True])
