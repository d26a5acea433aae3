"""Record which remembered answers a read used, so that its caller can discard outdated ones."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Forget = Callable[[], object]

_used: ContextVar[list[Forget] | None] = ContextVar("remembered_answers", default=None)


@contextmanager
def remembered_answers() -> Iterator[list[Forget]]:
    """The answers that caches keep of what is asked for inside: each is forgotten by calling it."""
    used: list[Forget] = []
    token = _used.set(used)
    try:
        yield used
    finally:
        _used.reset(token)


def remembered(forget: Forget) -> None:
    """A cache keeps the answer that it just gave or stored, until `forget` is called."""
    if (used := _used.get()) is not None:
        used.append(forget)
