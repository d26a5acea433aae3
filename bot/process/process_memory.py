"""Keep a process small and its start fast: one heap for all threads, and imported modules that stay as they are."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_M_ARENA_MAX = -8
"""The parameter's number in glibc's `malloc.h`."""


def share_memory() -> bool:
    """Have all threads share a heap; whether the C library can do so.

    glibc gives each thread a heap, up to eight for each core, and returns little of them. IMQ's threads run SQLite and
    parse files, one at a time: they gain nothing by it. To be called before any thread starts.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
    except (AttributeError, OSError, TypeError):  # Another C library, or another platform.
        return False


@contextmanager
def imported_for_good() -> Iterator[None]:
    """Import modules without a search for garbage among what they define: a sixth of the time of a start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
