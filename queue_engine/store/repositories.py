"""Repositories as other tables refer to them: stored with their first event, renamed in one place."""

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Row, String, bindparam, case, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Upsert
from queue_engine.domain.model import Repository
from queue_engine.store.tables import entries, repositories

REPOSITORY_FIELDS: tuple[ColumnElement[Any], ...] = (
    repositories.c.id.label("repository_id"),
    repositories.c.owner.label("repository_owner"),
    repositories.c.name.label("repository_name"),
    repositories.c.installation_id.label("installation_id"),
)
"""Columns that a statement selects for `repository_of`."""

_ID: BindParameter[int] = bindparam("its_id")
_REMEMBER = Upsert(repositories, lambda insert: insert.on_conflict_do_nothing())
_REFRESH = Upsert(
    repositories,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["id"], set_={name: insert.excluded[name] for name in ("owner", "name", "installation_id")}
    ),
)
_NAMED = (
    select(*REPOSITORY_FIELDS)
    .where(
        func.lower(repositories.c.owner) == bindparam("its_owner", type_=String),
        func.lower(repositories.c.name) == bindparam("its_name", type_=String),
    )
    .order_by(repositories.c.id.desc())
    .limit(1)
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


async def refresh(connection: AsyncConnection, repository: Repository) -> None:
    """Store the present names and installation, after a rename, a transfer or a new installation."""
    await connection.execute(_REFRESH.on(connection), asdict(repository))


async def named(connection: AsyncConnection, owner: str, name: str) -> Repository | None:
    """Return the repository with this name, in any case; of two that have had the name the younger."""
    its_name = {"its_owner": owner.lower(), "its_name": name.lower()}
    row = (await connection.execute(_NAMED, its_name)).one_or_none()
    return None if row is None else repository_of(row)


async def by_id(connection: AsyncConnection, repository_id: int) -> Repository | None:
    """Return the repository with this id, if IMQ knows it."""
    row = (await connection.execute(_BY_ID, {"its_id": repository_id})).one_or_none()
    return None if row is None else repository_of(row)


async def some(connection: AsyncConnection, owner: str) -> Repository | None:
    """Return some repository, of this owner if one is known; None if no repository is known."""
    row = (await connection.execute(_SOME, {"its_owner": owner.lower()})).one_or_none()
    return None if row is None else repository_of(row)


async def with_work(connection: AsyncConnection) -> tuple[Repository, ...]:
    """Return the repositories with entries."""
    return tuple(map(repository_of, await connection.execute(_WITH_WORK)))


async def generation(connection: AsyncConnection, repository_id: int) -> int:
    """Count the known changes of this repository's configuration and rules; 0 for an unknown repository."""
    return (await connection.execute(_GENERATION, {"its_id": repository_id})).scalar_one_or_none() or 0


async def generations(connection: AsyncConnection, repository_ids: Collection[int]) -> dict[int, int]:
    """Count the same of several repositories, by their ids."""
    found = await connection.execute(_GENERATIONS, {"its_ids": list(repository_ids)})
    return dict.fromkeys(repository_ids, 0) | {row.id: row.generation for row in found}


async def renew(connection: AsyncConnection, repository_id: int) -> None:
    """Count a change of configuration or rules, which voids earlier reads."""
    await connection.execute(_RENEW, {"its_id": repository_id})


def repository_of(row: Row[Any]) -> Repository:
    """Read the repository from a row with `REPOSITORY_FIELDS`."""
    return Repository(
        id=row.repository_id,
        owner=row.repository_owner,
        name=row.repository_name,
        installation_id=row.installation_id,
    )
