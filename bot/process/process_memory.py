"""Keep a process small: one heap of the C library for all threads."""

import ctypes

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
