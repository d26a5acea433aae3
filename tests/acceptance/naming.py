"""Name the case of a test that tries several cases in one world."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def naming(case: object) -> Iterator[None]:
    """Add the case to an error that is raised in the block."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the case {case}")
        raise
