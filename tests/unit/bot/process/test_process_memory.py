"""All threads of a process share one heap, where the C library lets them; what is imported stays uncollected."""

import ctypes
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from bot.process.process_memory import imported_for_good, share_memory


def test_glibc_uses_one_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    """`M_ARENA_MAX` is -8 in glibc's `malloc.h`."""
    calls: list[tuple[int, int]] = []

    def mallopt(parameter: int, value: int) -> int:
        calls.append((parameter, value))
        return 1

    def library(_name: object) -> Any:
        return SimpleNamespace(mallopt=mallopt)

    monkeypatch.setattr(ctypes, "CDLL", library)
    assert share_memory()
    assert calls == [(-8, 1)]


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_another_c_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    """musl has no `mallopt`, and Windows no library without a name."""

    def fails(_name: object) -> Any:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", fails)
    assert not share_memory()


def test_imported_modules_are_never_collected_and_others_are() -> None:
    """What is frozen is never examined again."""
    frozen = gc.get_freeze_count()
    with imported_for_good():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen
