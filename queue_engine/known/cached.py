"""Record which cached answers a read used, so that its caller can discard outdated ones."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Forget = Callable[[], object]

_used: ContextVar[list[Forget] | None] = ContextVar("remembered_answers", default=None)


@contextmanager
def remembered_answers() -> Iterator[list[Forget]]:
    """Collect the cached answers that the reads inside use; calling one of them discards that answer."""
    used: list[Forget] = []
    token = _used.set(used)
    try:
        yield used
    finally:
        _used.reset(token)


def remembered(forget: Forget) -> None:
    """Report a cached answer that was just used or stored; `forget` discards it."""
    if (used := _used.get()) is not None:
        used.append(forget)
