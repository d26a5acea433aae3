"""What a database's error means to whoever runs it: the one place that knows the drivers' codes.

Only faults of the surroundings have a name here: the disk, the network, another process. They pass, or are mended by a
person, and whoever meets one tries again later. Every other error of the database is a mistake in a program.
"""

import sqlite3
import sys
from collections.abc import Iterator
from enum import StrEnum

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionFree


class Fault(StrEnum):
    """What is wrong with the database's surroundings."""

    FULL = "disk_full"
    LOCKED = "locked"
    UNREACHABLE = "unreachable"
    READ_ONLY = "read_only"
    CORRUPT = "corrupt"
    REFUSED = "refused"
    CROWDED = "crowded"

    @property
    def sentence(self) -> str:
        """What is wrong and what to do about it, for the operator. It names no address and no secret."""
        return _SENTENCES[self]


_SENTENCES = {
    Fault.FULL: "The database's disk is full: free some space or enlarge it; IMQ goes on by itself once it can write.",
    Fault.LOCKED: "Another process keeps the database locked: end what holds it, such as a backup or an open shell; "
    "IMQ goes on by itself once it is free.",
    Fault.UNREACHABLE: "The database does not answer: see that it runs and can be reached; IMQ goes on by itself once "
    "it is back.",
    Fault.READ_ONLY: "The database cannot be written: let DATABASE_URL name the primary server, or make the file and "
    "its directory writable for IMQ's user.",
    Fault.CORRUPT: "The database is damaged: stop IMQ and restore the last backup; what is missing from it is found "
    "on GitHub by the sweep.",
    Fault.REFUSED: "The database refuses IMQ: its name, user or password in DATABASE_URL is wrong, or it was dropped.",
    Fault.CROWDED: "The database has no connection free: raise its limit of connections, or run fewer processes; IMQ "
    "tries again.",
}

_SQLITE = {
    sqlite3.SQLITE_FULL: Fault.FULL,
    sqlite3.SQLITE_BUSY: Fault.LOCKED,
    sqlite3.SQLITE_LOCKED: Fault.LOCKED,
    sqlite3.SQLITE_CANTOPEN: Fault.UNREACHABLE,
    sqlite3.SQLITE_IOERR: Fault.UNREACHABLE,
    sqlite3.SQLITE_READONLY: Fault.READ_ONLY,
    sqlite3.SQLITE_CORRUPT: Fault.CORRUPT,
    sqlite3.SQLITE_NOTADB: Fault.CORRUPT,
}
"""Primary result codes ("Result and Error Codes" in SQLite's documentation)."""

_NO_ROOM_FOR_INDEX = sqlite3.SQLITE_IOERR_SHMSIZE
"""The file beside the database that all its readers share could not be enlarged: in practice a full disk."""

_POSTGRES = {
    "53100": Fault.FULL,
    "53300": Fault.CROWDED,
    "53400": Fault.CROWDED,
    "55P03": Fault.LOCKED,
    "25006": Fault.READ_ONLY,
    "XX001": Fault.CORRUPT,
    "XX002": Fault.CORRUPT,
    "3D000": Fault.REFUSED,
    "28": Fault.REFUSED,
    "08": Fault.UNREACHABLE,
    "57P": Fault.UNREACHABLE,
    "58": Fault.UNREACHABLE,
}
"""SQLSTATE codes and the beginnings of them ("PostgreSQL Error Codes"); the longest that fits counts."""

_REFUSALS = ("password authentication failed", "no password supplied", "does not exist", "no pg_hba.conf entry")
_CROWDS = ("too many connections", "too many clients", "remaining connection slots")
"""Words of libpq: a connection that is refused has no SQLSTATE in psycopg."""


class ReadOnly(Exception):
    """The database answers, but nothing can be written to it."""


class Busy(TimeoutError):
    """SQLite's one writer was not free in time: its turn was kept by a transaction that does not end."""


def fault_of(error: BaseException | None) -> Fault | None:
    """The fault of the surroundings that this error tells of, or an error that it was raised from; else None."""
    return next((fault for each in _chain(error) if (fault := _classified(each)) is not None), None)


def lost_race(error: BaseException) -> bool:
    """Whether PostgreSQL ended a transaction because of another one, so that running it again may succeed.

    Its class 40: a deadlock, or a serialization failure ("Serialization Failure Handling" in its documentation).
    """
    sqlstate = getattr(error.orig if isinstance(error, DBAPIError) else error, "sqlstate", None)
    return isinstance(sqlstate, str) and sqlstate.startswith("40")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Only what it was raised from on purpose: a mistake that was met while handling a fault is still a mistake."""
    while error is not None:
        yield error
        error = error.__cause__


def _classified(error: BaseException) -> Fault | None:
    if isinstance(error, DBAPIError) and isinstance(error.orig, Exception):
        error = error.orig
    match error:
        case sqlite3.Error():
            return _of_sqlite(error)
        case ReadOnly():
            return Fault.READ_ONLY
        case Busy():
            return Fault.LOCKED
        case NoConnectionFree():
            return Fault.CROWDED
    # Whoever lives on SQLite never loads the other driver, whose errors nobody can meet before it is loaded.
    if "psycopg" in sys.modules:
        return _of_postgres(error)
    return None


def _of_sqlite(error: sqlite3.Error) -> Fault | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    return Fault.FULL if code == _NO_ROOM_FOR_INDEX else _SQLITE.get(code & 0xFF)


def _of_postgres(error: BaseException) -> Fault | None:
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
        return Fault.CROWDED
    return Fault.REFUSED if any(each in words for each in _REFUSALS) else Fault.UNREACHABLE
