"""Classify database errors for the operator: the one place that knows the drivers' codes.

Only faults of the surroundings have a name here: the disk, the network, another process. They pass, or are fixed by a
person, and work that meets one is tried again later. Every other error of the database is a mistake in a program.

One sentence for the operator serves logs, `/readyz`, the receiver and every command:

- A full disk: deliveries are answered 503, nothing is half-written, and work continues when there is room.
- A locked file: waited for, 10 seconds each time, then as above.
- A server that is away, restarted, or has no free connection: work under way is rolled back and comes again when its
  lease ends. Dead connections are replaced, and the listener reconnects and reads everything at once. A worker that saw
  the server away begins a sweep when it is back, and reads the checks of each front. A web process that could not store
  a delivery has lost deliveries redelivered.
- A transaction that PostgreSQL ended for another one, such as a migration: as with a server that is away.
- Read-only, damaged, refused: the same, but a person must act; a process does not start.
- A lease that seems to have ended under running work: its worker takes its own claim over and continues.
"""

import sqlite3
import sys
from collections.abc import Iterator
from enum import StrEnum

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionFree


class OutageKind(StrEnum):
    """A fault of the database or its connection."""

    FULL = "disk_full"
    LOCKED = "locked"
    UNREACHABLE = "unreachable"
    READ_ONLY = "read_only"
    CORRUPT = "corrupt"
    REFUSED = "refused"
    CROWDED = "crowded"
    LOST_RACE = "lost_race"

    @property
    def sentence(self) -> str:
        """Say the fault and its solution, for the operator, without addresses or secrets."""
        return _SENTENCES[self]

    @property
    def passes(self) -> bool:
        """Whether the fault may end without any change of settings or data, so that a start waits for its end."""
        return self not in (OutageKind.READ_ONLY, OutageKind.CORRUPT, OutageKind.REFUSED)


_SENTENCES = {
    OutageKind.FULL: "The database's disk is full. Free some space or enlarge the disk; IMQ resumes by itself once it "
    "can write.",
    OutageKind.LOCKED: "Another process keeps the database locked. End that process, such as a backup or an open "
    "shell; IMQ then resumes by itself.",
    OutageKind.UNREACHABLE: "The database does not answer. Check that it runs and can be reached; IMQ resumes by "
    "itself once it is back.",
    OutageKind.READ_ONLY: "IMQ cannot write to the database. Let DATABASE_URL name the primary server, or make the "
    "file and its directory writable for IMQ's user.",
    OutageKind.CORRUPT: "The database is damaged. Stop IMQ and restore the last backup; the sweep finds on GitHub what "
    "the backup lacks.",
    OutageKind.REFUSED: "The database refuses IMQ. Its name, user or password in DATABASE_URL is wrong, or it was "
    "dropped.",
    OutageKind.CROWDED: "The database has no connection free. Raise its limit of connections, or run fewer "
    "processes; IMQ tries again.",
    OutageKind.LOST_RACE: "The database ended a transaction because another one, such as a migration, wanted the same "
    "tables or rows; IMQ tries again.",
}

_SQLITE = {
    sqlite3.SQLITE_FULL: OutageKind.FULL,
    sqlite3.SQLITE_BUSY: OutageKind.LOCKED,
    sqlite3.SQLITE_LOCKED: OutageKind.LOCKED,
    sqlite3.SQLITE_CANTOPEN: OutageKind.UNREACHABLE,
    sqlite3.SQLITE_IOERR: OutageKind.UNREACHABLE,
    sqlite3.SQLITE_READONLY: OutageKind.READ_ONLY,
    sqlite3.SQLITE_CORRUPT: OutageKind.CORRUPT,
    sqlite3.SQLITE_NOTADB: OutageKind.CORRUPT,
}
"""Primary result codes ("Result and Error Codes" in SQLite's documentation)."""

_NO_ROOM_FOR_INDEX = sqlite3.SQLITE_IOERR_SHMSIZE
"""The file beside the database that all its readers share could not be enlarged: in practice a full disk."""

_POSTGRES = {
    "53100": OutageKind.FULL,
    "53300": OutageKind.CROWDED,
    "53400": OutageKind.CROWDED,
    "55P03": OutageKind.LOCKED,
    "25006": OutageKind.READ_ONLY,
    "XX001": OutageKind.CORRUPT,
    "XX002": OutageKind.CORRUPT,
    "3D000": OutageKind.REFUSED,
    "28": OutageKind.REFUSED,
    "40": OutageKind.LOST_RACE,
    "08": OutageKind.UNREACHABLE,
    "57P": OutageKind.UNREACHABLE,
    "58": OutageKind.UNREACHABLE,
}
"""SQLSTATE codes and the beginnings of them ("PostgreSQL Error Codes"); the longest that fits counts."""

_REFUSALS = ("password authentication failed", "no password supplied", "does not exist", "no pg_hba.conf entry")
_CROWDS = ("too many connections", "too many clients", "remaining connection slots")
"""Words of libpq: a connection that is refused has no SQLSTATE in psycopg."""


class ReadOnly(Exception):
    """The database answers, but nothing can be written to it."""


class Busy(TimeoutError):
    """SQLite's one writer was not free in time: another transaction does not end."""


def fault_of(error: BaseException | None) -> OutageKind | None:
    """Return the fault of the database that this error, or its cause, reports; else None."""
    return next((fault for each in _chain(error) if (fault := _classified(each)) is not None), None)


def lost_race(error: BaseException) -> bool:
    """Whether PostgreSQL ended a transaction because of another one (its class 40): it may succeed if run again."""
    return _classified(error) is OutageKind.LOST_RACE


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Follow explicit causes only: an exception raised while handling a fault is an error of its own."""
    while error is not None:
        yield error
        error = error.__cause__


def _classified(error: BaseException) -> OutageKind | None:
    if isinstance(error, DBAPIError) and isinstance(error.orig, Exception):
        error = error.orig
    match error:
        case sqlite3.Error():
            return _of_sqlite(error)
        case ReadOnly():
            return OutageKind.READ_ONLY
        case Busy():
            return OutageKind.LOCKED
        case NoConnectionFree():
            return OutageKind.CROWDED
    # On SQLite the other driver is never loaded, and its errors cannot occur before that.
    if "psycopg" in sys.modules:
        return _of_postgres(error)
    return None


def _of_sqlite(error: sqlite3.Error) -> OutageKind | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    return OutageKind.FULL if code == _NO_ROOM_FOR_INDEX else _SQLITE.get(code & 0xFF)


def _of_postgres(error: BaseException) -> OutageKind | None:
    import psycopg

    if not isinstance(error, psycopg.Error):
        return None
    if error.sqlstate is not None:
        known = (error.sqlstate[:length] for length in (5, 3, 2))
        return next((_POSTGRES[code] for code in known if code in _POSTGRES), None)
    # Without a code: no connection was made, or the one there was broke off.
    if not isinstance(error, psycopg.OperationalError):
        return None
    words = str(error)
    if any(each in words for each in _CROWDS):
        return OutageKind.CROWDED
    return OutageKind.REFUSED if any(each in words for each in _REFUSALS) else OutageKind.UNREACHABLE
