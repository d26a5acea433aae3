"""Keep a process small and its start fast: a heap that returns what is free, and modules that stay as they are."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_OPTIONS = {"M_ARENA_MAX": (-8, 1), "M_MMAP_THRESHOLD": (-3, 32 * 1024), "M_TRIM_THRESHOLD": (-1, 128 * 1024)}
"""The numbers of parameters in glibc's `malloc.h`, and their values in bytes.

glibc gives each thread a heap, up to eight for each core, and returns little of them. IMQ's threads run SQLite and
parse files, one at a time: they gain nothing by it. Once a large block is freed, it also raises both thresholds, to 32
and 64 MiB: then large blocks come from the heap, whose gaps stay with the process. Thresholds that are set stay.
"""


def keep_small() -> bool:
    """Set these options of the C library; whether it has them. To be called before any thread starts."""
    try:
        library = ctypes.CDLL(None)
        return all(library.mallopt(parameter, value) for parameter, value in _OPTIONS.values())
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
