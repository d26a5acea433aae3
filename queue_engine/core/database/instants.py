"""Clamp stored instants that lie further ahead than they can: the clock had been wrong.

A wait stored while the clock is an hour, or years, ahead would last as long once the clock is right. A column
says what its instants are (`Column(…, info=instant(InstantKind.WAIT))`), and `clamp_instants` brings those that cannot
be right to the latest that can. It only ever shortens a wait, so that it does no harm to look once too often.

docs/operating.md ("When the clock is wrong") promises operators that a clock that is set right needs nothing else.

`clamp_instants` runs at a worker's start and when the clock was set back, but not by a clock that differs from
PostgreSQL's own.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import Column, Select, bindparam, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import metadata

_INFO = "imq_ahead"


class InstantKind(StrEnum):
    """The kind of a column's instants, which decides how far ahead they may lie."""

    PAST = "past"
    """When something happened: never later than now."""
    LEASE = "lease"
    """The end of a lease; a living holder prolongs it."""
    WAIT = "wait"
    """When work is due again."""
    KEPT = "kept"
    """Until when something is remembered."""


def instant(what: InstantKind) -> dict[str, InstantKind]:
    """The `info` of a column whose instants are that."""
    return {_INFO: what}


async def clamp_instants(connection: AsyncConnection, now: datetime, bounds: Mapping[InstantKind, timedelta]) -> int:
    """Bring every instant that lies further ahead of `now` than its bound to that bound. Returns how many."""
    columns = tuple(column for table in metadata.tables.values() for column in table.columns if _INFO in column.info)
    latest: dict[str, datetime] = {what: now + bound for what, bound in bounds.items()}
    # Nearly always there is none: one look at all of them, and not a statement for each.
    if not (await connection.execute(_any_ahead(columns), latest)).scalar_one():
        return 0
    drawn = 0
    for column in columns:
        change = update(column.table).where(column > latest[column.info[_INFO]])
        drawn += (await connection.execute(change.values({column: latest[column.info[_INFO]]}))).rowcount
    return drawn


@cache
def _any_ahead(columns: tuple[Column[Any], ...]) -> Select[bool]:
    """Whether an instant lies further ahead than its kind can; the parameters are named by the kinds."""
    return select(or_(*(select(column).where(column > bindparam(column.info[_INFO])).exists() for column in columns)))


async def clock_offset(connection: AsyncConnection, now: datetime) -> timedelta:
    """How far `now` lies from the database server's own clock; nothing on SQLite, which has none."""
    if connection.dialect.name == "sqlite":
        return timedelta(0)
    adjusted: datetime = (await connection.execute(select(func.clock_timestamp()))).scalar_one()
    return abs(now - adjusted)
