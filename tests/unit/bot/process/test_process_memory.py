"""All threads share one heap, which returns large blocks, where the C library lets them; what is imported stays."""

import ctypes
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from bot.process.process_memory import imported_for_good, keep_small


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
