"""Repositories as other tables refer to them, and their configuration files as a process last read them."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Row, String, bindparam, case, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import TableStore, Upsert, replacing
from queue_engine.domain.model import Repository
from queue_engine.store.tables import configuration_files, entries, repositories

REPOSITORY_FIELDS: tuple[ColumnElement[Any], ...] = (
    repositories.c.id.label("repository_id"),
    repositories.c.owner.label("repository_owner"),
    repositories.c.name.label("repository_name"),
    repositories.c.installation_id.label("installation_id"),
)
"""Columns that a statement selects for `repository_of`."""

_ID: BindParameter[int] = bindparam("its_id")
_REMEMBER = Upsert(repositories, lambda insert: insert.on_conflict_do_nothing())
_REFRESH = replacing(repositories, "owner", "name", "installation_id")
_NAMED = (
    select(*REPOSITORY_FIELDS)
    .where(
        func.lower(repositories.c.owner) == bindparam("its_owner", type_=String),
        func.lower(repositories.c.name) == bindparam("its_name", type_=String),
    )
    .order_by(repositories.c.id.desc())
    .limit(1)
)
_SETTINGS = select(
    select(repositories.c.generation).where(repositories.c.id == _ID).scalar_subquery().label("own"),
    *(_NAMED.with_only_columns(repositories.c[name]).scalar_subquery().label(name) for name in ("id", "generation")),
)
_BY_ID = select(*REPOSITORY_FIELDS).where(repositories.c.id == _ID)
_SOME = (
    select(*REPOSITORY_FIELDS)
    .order_by(
        case((func.lower(repositories.c.owner) == bindparam("its_owner", type_=String), 0), else_=1),
        repositories.c.id,
    )
    .limit(1)
)
_WITH_WORK = (
    select(*REPOSITORY_FIELDS)
    .where(select(entries.c.seq).where(entries.c.repository_id == repositories.c.id).exists())
    .order_by(repositories.c.id)
)
_GENERATION = select(repositories.c.generation).where(repositories.c.id == _ID)
_GENERATIONS = select(repositories.c.id, repositories.c.generation).where(
    repositories.c.id.in_(bindparam("its_ids", expanding=True))
)
_RENEW = update(repositories).where(repositories.c.id == _ID).values(generation=repositories.c.generation + 1)


async def remember(connection: AsyncConnection, repository: Repository) -> None:
    """Store the repository if it is new. A known one keeps its names: the caller's may be older."""
    await connection.execute(_REMEMBER.on(connection), asdict(repository))


class Repositories(TableStore):
    async def refresh(self, repository: Repository) -> None:
        """Store the present names and installation: queues, entries and outbox items follow."""
        await self._connection.execute(_REFRESH.on(self._connection), asdict(repository))

    async def named(self, owner: str, name: str) -> Repository | None:
        """Return the repository with this name, in any case; of two that have had the name the younger."""
        its_name = {"its_owner": owner.lower(), "its_name": name.lower()}
        row = (await self._connection.execute(_NAMED, its_name)).one_or_none()
        return None if row is None else repository_of(row)

    async def by_id(self, repository_id: int) -> Repository | None:
        """Return the repository with this id, if IMQ knows it."""
        row = (await self._connection.execute(_BY_ID, {"its_id": repository_id})).one_or_none()
        return None if row is None else repository_of(row)

    async def some(self, owner: str) -> Repository | None:
        """Return some repository, of this owner if one is known; None if no repository is known."""
        row = (await self._connection.execute(_SOME, {"its_owner": owner.lower()})).one_or_none()
        return None if row is None else repository_of(row)

    async def with_work(self) -> tuple[Repository, ...]:
        """Return the repositories with entries."""
        return tuple(map(repository_of, await self._connection.execute(_WITH_WORK)))

    async def generation(self, repository_id: int) -> int:
        """Count the known changes of this repository's configuration and rules; 0 for an unknown repository."""
        return (await self._connection.execute(_GENERATION, {"its_id": repository_id})).scalar_one_or_none() or 0

    async def settings(self, repository: Repository, shared: str) -> tuple[int, int | None, int]:
        """Return a repository's generation; id and generation of its owner's `shared` repository, or None."""
        names = {"its_id": repository.id, "its_owner": repository.owner.lower(), "its_name": shared.lower()}
        row = (await self._connection.execute(_SETTINGS, names)).one()
        return row.own or 0, row.id, row.generation or 0

    async def generations(self, repository_ids: Collection[int]) -> dict[int, int]:
        """Count the same of several repositories, by their ids."""
        found = await self._connection.execute(_GENERATIONS, {"its_ids": list(repository_ids)})
        return dict.fromkeys(repository_ids, 0) | {row.id: row.generation for row in found}

    async def renew_settings(self, repository_id: int) -> None:
        """Count a change of configuration or rules, which voids earlier reads."""
        await self._connection.execute(_RENEW, {"its_id": repository_id})


def repository_of(row: Row[Any]) -> Repository:
    """Read the repository from a row with `REPOSITORY_FIELDS`."""
    return Repository(
        id=row.repository_id,
        owner=row.repository_owner,
        name=row.repository_name,
        installation_id=row.installation_id,
    )


_FIND = select(configuration_files).where(
    configuration_files.c.file == bindparam("its_file"),
    configuration_files.c.generation == bindparam("its_generation"),
    configuration_files.c.at > bindparam("its_since"),
)
_SOME_FILES = select(configuration_files).where(
    configuration_files.c.file.in_(bindparam("their_files", expanding=True)),
    configuration_files.c.at > bindparam("its_since"),
)
_PURGE = delete(configuration_files).where(configuration_files.c.at < bindparam("before"))
_PUT = replacing(configuration_files)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The result of reading a file: its text, None if there is no file, or why it cannot be read."""

    text: str | None
    unreadable: str | None = None
    reviewed: bool = True
    """Whether the file changes only with a review, where that matters."""
    parsed: str | None = None
    """The values of the text as JSON, if it is valid and somebody parsed it."""


class ConfigFiles(TableStore):
    async def find(self, file: str, generation: int, *, since: datetime) -> ConfigFile | None:
        """Return the file as read since then, unless its repository has another generation of settings now."""
        values = {"its_file": file, "its_generation": generation, "its_since": since}
        row = (await self._connection.execute(_FIND, values)).one_or_none()
        return None if row is None else _file(row)

    async def some(self, generations: Mapping[str, int], *, since: datetime) -> Mapping[str, ConfigFile]:
        """Return what `find` would for each of these files with its generation, in one statement."""
        if not generations:
            return {}
        found = await self._connection.execute(_SOME_FILES, {"their_files": list(generations), "its_since": since})
        return {row.file: _file(row) for row in found if row.generation == generations[row.file]}

    async def put(self, file: str, generation: int, found: ConfigFile, at: datetime) -> None:
        """Store a read of this instant, in place of an older one."""
        row = {"file": file, "generation": generation, "at": at, "reviewed": found.reviewed, "parsed": found.parsed}
        await self._connection.execute(
            _PUT.on(self._connection), row | {"text": found.text, "unreadable": found.unreadable}
        )

    async def purge(self, before: datetime) -> int:
        """Delete the reads from before then. Returns how many."""
        return (await self._connection.execute(_PURGE, {"before": before})).rowcount


def _file(row: Row[Any]) -> ConfigFile:
    return ConfigFile(row.text, row.unreadable, row.reviewed, row.parsed)
