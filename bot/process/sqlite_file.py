"""Keep SQLite's file for one process.

The lock is the system's own (`flock`) on a file beside the database, so it ends with its process, `kill -9` included.
"""

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from queue_engine.core.database.database import Database, database_url
from queue_engine.core.timing.clock import SystemClock
from queue_engine.migrations import MigrationError, MigrationState, migrate, migration_state


class StartRefused(Exception):
    """A process cannot start. The message says why, and what the operator does about it."""


class NotMigrated(StartRefused):
    """The database has the tables of another version, older or newer."""

    def __init__(
        self, message: str = "The database is empty or older than this version: run `imq migrate` first."
    ) -> None:
        super().__init__(message)


class NotListening(StartRefused):
    """The web process cannot listen on its address and port."""


class FileRefused(StartRefused):
    """SQLite's file cannot be created or written, or another process runs on it."""


_log = structlog.get_logger("imq.process")

_SUFFIX = "-lock"
_MODE = 0o600
_LONGEST_DESCRIPTION = 200
_ELSEWHERE = "or set DATABASE_URL to a file elsewhere"


@contextmanager
def exclusive(url: str, role: str) -> Iterator[None]:
    """Hold the file of an SQLite URL while the block runs. Raises FileRefused if it is held, or cannot be written."""
    file = _file(url)
    if file is None:
        yield
        return
    check(url)
    descriptor = _open(file)
    try:
        _lock(descriptor, file)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, _describe(role).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _file(url: str) -> Path | None:
    """Return the file that an SQLite URL names; None for other databases."""
    parsed = database_url(url)
    return Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None


def check(url: str) -> None:
    """Check the file of an SQLite URL. Raises FileRefused where it cannot be created or written."""
    if (file := _file(url)) is None:
        return
    directory = file.parent
    if not directory.is_dir():
        raise FileRefused(
            f"The directory {directory.absolute()} of the database {file.name} does not exist: create it, {_ELSEWHERE}."
        )
    if file.is_dir():
        raise FileRefused(f"DATABASE_URL names the directory {file.absolute()}: name a file in it, such as imq.db.")
    for place in (directory, file):
        if place.exists() and not os.access(place, os.W_OK):
            raise _unwritable(place)


def _unwritable(place: Path) -> FileRefused:
    return FileRefused(
        f"The database cannot be written: {place.absolute()} is read-only for IMQ's user. Make the file and its "
        f"directory writable, {_ELSEWHERE}."
    )


def _open(file: Path) -> int:
    lock = file.with_name(file.name + _SUFFIX)
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
    except OSError:
        raise _unwritable(lock if lock.exists() else file.parent) from None


def _lock(descriptor: int, file: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        other = os.pread(descriptor, _LONGEST_DESCRIPTION, 0).decode(errors="replace").strip() or "another process"
        raise FileRefused(
            f"The database {file} is in use by {other}. SQLite serves one process of IMQ: end that one first, or use "
            "PostgreSQL for several."
        ) from None
    except OSError as error:
        # Some network file systems have no locks.
        _log.warning("database_not_locked", file=str(file), error=errno.errorcode.get(error.errno or 0, str(error)))


def _describe(role: str) -> str:
    return (
        f"`imq {role}`, process {os.getpid()} on {socket.gethostname()} since {SystemClock().now():%Y-%m-%d %H:%M} UTC"
    )


async def prepare(database: Database, *, migrates: bool) -> None:
    """Migrate an SQLite file, and PostgreSQL if `migrates` is set. Raises NotMigrated for tables of another version.

    Processes that migrate PostgreSQL at the same time do so one after the other. Newer tables are accepted if they
    tolerate this version: then old and new processes run side by side during an upgrade.
    """
    try:
        if migrates or database.dialect == "sqlite" or await migration_state(database) is MigrationState.TOO_NEW:
            await migrate(database)
    except MigrationError as error:
        raise NotMigrated(str(error)) from None
    if await migration_state(database) is not MigrationState.USABLE:
        raise NotMigrated
