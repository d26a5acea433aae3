"""How far ahead a stored instant can lie, and what happens to one that lies further: the clock had been set wrong.

Whoever stores a wait while the clock is an hour, or years, ahead would wait for as long once it is set right. A column
says what its instants are (`Column(…, info=ahead(Ahead.WAIT))`), and `draw_in` brings those that cannot be right to
the latest that can. It only ever shortens a wait, so that it does no harm to look once too often.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import Column, Select, bindparam, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database import metadata

_INFO = "imq_ahead"


class Ahead(StrEnum):
    """What the instants of a column are, which decides how far ahead they may lie."""

    PAST = "past"
    """When something happened: never later than now."""
    LEASE = "lease"
    """Until when somebody holds something; whoever lives prolongs it."""
    WAIT = "wait"
    """When to look at something again."""
    KEPT = "kept"
    """Until when something is remembered."""


def ahead(what: Ahead) -> dict[str, Ahead]:
    """The `info` of a column whose instants are that."""
    return {_INFO: what}


async def draw_in(connection: AsyncConnection, now: datetime, bounds: Mapping[Ahead, timedelta]) -> int:
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


async def apart(connection: AsyncConnection, now: datetime) -> timedelta:
    """How far `now` lies from the database server's own clock; nothing on SQLite, which has none."""
    if connection.dialect.name == "sqlite":
        return timedelta(0)
    told: datetime = (await connection.execute(select(func.clock_timestamp()))).scalar_one()
    return abs(now - told)
