"""Configuration files as a process last read them, so that a starting process need not read them again."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, bindparam, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Upsert
from queue_engine.store.operation_tables import configuration_files

_FIND = select(configuration_files).where(
    configuration_files.c.file == bindparam("its_file"),
    configuration_files.c.generation == bindparam("its_generation"),
    configuration_files.c.at > bindparam("its_since"),
)
_SOME = select(configuration_files).where(
    configuration_files.c.file.in_(bindparam("their_files", expanding=True)),
    configuration_files.c.at > bindparam("its_since"),
)
_PURGE = delete(configuration_files).where(configuration_files.c.at < bindparam("before"))
_PUT = Upsert(
    configuration_files,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["file"],
        set_={name: insert.excluded[name] for name in ("generation", "text", "unreadable", "reviewed", "at")},
    ),
)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The result of reading a file: its text, None if there is no file, or why it cannot be read."""

    text: str | None
    unreadable: str | None = None
    reviewed: bool = True
    """Whether the file changes only with a review, where that matters."""


class ConfigFiles:
    """The files, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def find(self, file: str, generation: int, *, since: datetime) -> ConfigFile | None:
        """Return the file as read since then, unless its repository has another generation of settings now."""
        values = {"its_file": file, "its_generation": generation, "its_since": since}
        row = (await self._connection.execute(_FIND, values)).one_or_none()
        return None if row is None else _file(row)

    async def some(self, generations: Mapping[str, int], *, since: datetime) -> Mapping[str, ConfigFile]:
        """Return what `find` would for each of these files with its generation, in one statement."""
        if not generations:
            return {}
        found = await self._connection.execute(_SOME, {"their_files": list(generations), "its_since": since})
        return {row.file: _file(row) for row in found if row.generation == generations[row.file]}

    async def put(self, file: str, generation: int, found: ConfigFile, at: datetime) -> None:
        """Store a read of this instant, in place of an older one."""
        row = {"file": file, "generation": generation, "at": at, "reviewed": found.reviewed}
        await self._connection.execute(
            _PUT.on(self._connection), row | {"text": found.text, "unreadable": found.unreadable}
        )

    async def purge(self, before: datetime) -> int:
        """Delete the reads from before then. Returns how many."""
        return (await self._connection.execute(_PURGE, {"before": before})).rowcount


def _file(row: Row[Any]) -> ConfigFile:
    return ConfigFile(row.text, row.unreadable, row.reviewed)
