"""Restrict SQLite's file and its companions to their owner: they hold tokens' digests and people's words."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import structlog

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MODE = stat.S_IRUSR | stat.S_IWUSR
_COMPANIONS = ("-wal", "-shm", "-journal")

_log = structlog.get_logger("imq.database")


def keep_private(database: str) -> None:
    """Create the file with mode 0600 if it is missing, and remove others' permissions on it and its companions.

    SQLite gives new companions the mode of the file (sqlite3's `findCreateFileMode`). A file that cannot be created
    is left to SQLite, which says why.
    """
    # It may be there already; or SQLite cannot create it either.
    with suppress(OSError):
        os.close(os.open(database, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE))
    for path in (Path(database + ending) for ending in ("", *_COMPANIONS)):
        _restrict(path)


def _restrict(path: Path) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS)
    except FileNotFoundError:
        return
    except OSError as error:
        _log.warning("database_readable_by_others", file=str(path), error=error.strerror)
