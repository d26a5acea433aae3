"""Repositories as other tables refer to them: remembered at first sight, renamed in one place."""

from typing import Any

from sqlalchemy import Row, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database import insert_into
from queue_engine.model import Repository
from queue_engine.store.tables import repositories

REPOSITORY_FIELDS = (
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
    """A repository was renamed, transferred, or installed anew: everything that refers to it follows."""
    await connection.execute(
        update(repositories)
        .where(repositories.c.id == repository.id)
        .values(owner=repository.owner, name=repository.name, installation_id=repository.installation_id)
    )


def repository_of(row: Row[Any]) -> Repository:
    """The repository of a row that selected `REPOSITORY_FIELDS`."""
    return Repository(
        id=row.repository_id,
        owner=row.repository_owner,
        name=row.repository_name,
        installation_id=row.installation_id,
    )
