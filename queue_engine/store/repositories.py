"""Repositories as other tables refer to them: remembered at first sight, renamed in one place."""

from typing import Any

from sqlalchemy import ColumnElement, Row, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database import insert_into
from queue_engine.model import Repository
from queue_engine.store.tables import repositories

REPOSITORY_FIELDS: tuple[ColumnElement[Any], ...] = (
    repositories.c.id.label("repository_id"),
    repositories.c.owner.label("repository_owner"),
    repositories.c.name.label("repository_name"),
    repositories.c.installation_id.label("installation_id"),
)
"""What a statement selects, beside its own columns, for `repository_of`."""


async def remember(connection: AsyncConnection, repository: Repository) -> None:
    """Store the repository if it is new. Names of a known one are left alone: the caller's may be older."""
    await connection.execute(
        insert_into(connection, repositories)
        .values(
            id=repository.id,
            owner=repository.owner,
            name=repository.name,
            installation_id=repository.installation_id,
        )
        .on_conflict_do_nothing()
    )


async def refresh(connection: AsyncConnection, repository: Repository) -> None:
    """This is how it is called now: one renamed, transferred or installed anew is followed by all that refers to it."""
    names = {"owner": repository.owner, "name": repository.name, "installation_id": repository.installation_id}
    await connection.execute(
        insert_into(connection, repositories)
        .values(id=repository.id, **names)
        .on_conflict_do_update(index_elements=["id"], set_=names)
    )


async def named(connection: AsyncConnection, owner: str, name: str) -> Repository | None:
    """The repository of this name, in whatever letters; of two that have had it the younger."""
    its_name = (func.lower(repositories.c.owner) == owner.lower(), func.lower(repositories.c.name) == name.lower())
    found = select(*REPOSITORY_FIELDS).where(*its_name).order_by(repositories.c.id.desc()).limit(1)
    row = (await connection.execute(found)).one_or_none()
    return None if row is None else repository_of(row)


async def generation(connection: AsyncConnection, repository_id: int) -> int:
    """How often configuration or rules of this repository have changed, as far as is known; 0 if never seen."""
    found = await connection.execute(select(repositories.c.generation).where(repositories.c.id == repository_id))
    return found.scalar_one_or_none() or 0


async def renew(connection: AsyncConnection, repository_id: int) -> None:
    """Configuration or rules changed: what was read before is void."""
    count = repositories.c.generation + 1
    await connection.execute(update(repositories).where(repositories.c.id == repository_id).values(generation=count))


def repository_of(row: Row[Any]) -> Repository:
    """The repository of a row that selected `REPOSITORY_FIELDS`."""
    return Repository(
        id=row.repository_id,
        owner=row.repository_owner,
        name=row.repository_name,
        installation_id=row.installation_id,
    )
