"""The rate limits that all processes share: how much each reserved of an installation's limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import BindParameter, and_, bindparam, delete, func, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import DatabaseInstant, Upsert
from queue_engine.store.tables import pace_pauses, pace_reservations

POINTS, GRAPHQL_POINTS = "points", "graphql_points"
"""Kinds of reservations that expire after `VALID`; every other kind is used as soon as it is reserved."""

VALID = timedelta(seconds=2)
"""How long reserved points may be used: they count until a minute after that."""

_POINTS = (POINTS, GRAPHQL_POINTS)

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)

_LOCK = 0x50414345
"""Distinguishes the locks of installations from other advisory locks on the same PostgreSQL."""

_ITS_INSTALLATION = pace_reservations.c.installation_id == bindparam("its_installation")
_AN_HOUR_AGO: BindParameter[datetime] = bindparam("an_hour_ago", type_=DatabaseInstant)
_A_MINUTE_AGO: BindParameter[datetime] = bindparam("a_minute_ago", type_=DatabaseInstant)
_TAKEN = (
    select(pace_reservations)
    .where(
        _ITS_INSTALLATION,
        pace_reservations.c.at > _AN_HOUR_AGO,
        or_(pace_reservations.c.kind.not_in(_POINTS), pace_reservations.c.at > _A_MINUTE_AGO),
    )
    .order_by(pace_reservations.c.at, pace_reservations.c.id)
)
_FORGET = delete(pace_reservations).where(
    _ITS_INSTALLATION,
    or_(
        pace_reservations.c.at <= _AN_HOUR_AGO,
        and_(pace_reservations.c.kind.in_(_POINTS), pace_reservations.c.at <= _A_MINUTE_AGO),
    ),
)
_RESERVE = insert(pace_reservations)
_PAUSED_UNTIL = select(pace_pauses.c.until).where(pace_pauses.c.installation_id == bindparam("its_installation"))
_PAUSE = Upsert(
    pace_pauses,
    lambda statement: statement.on_conflict_do_update(
        index_elements=["installation_id"],
        set_={"until": statement.excluded.until},
        where=pace_pauses.c.until < statement.excluded.until,
    ),
)


@dataclass(frozen=True, slots=True)
class RateLimitRequest:
    """A reserved amount of one kind, which was, or may be, used at `at` at the latest."""

    kind: str
    at: datetime
    amount: int
    owner: str


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """The reservations of all processes within GitHub's windows, oldest first, and until when all processes pause."""

    reservations: tuple[RateLimitRequest, ...]
    paused_until: datetime | None


class RateLimits:
    """The shared rate limits, on one connection. The App itself is installation 0."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def lock(self, installation_id: int, now: datetime) -> SharedLimits:
        """Lock an installation's limits until the transaction ends, and return the reservations."""
        if self._connection.dialect.name == "postgresql":
            lock = func.pg_advisory_xact_lock(_LOCK, func.hashint8(bindparam("its_installation")))
            await self._connection.execute(select(lock), {"its_installation": installation_id})
        rows = (await self._connection.execute(_TAKEN, _bounds(installation_id, now))).all()
        paused = await self._connection.execute(_PAUSED_UNTIL, {"its_installation": installation_id})
        reservations = tuple(
            RateLimitRequest(
                row.kind, min(now, row.at + VALID) if row.kind in _POINTS else row.at, row.amount, row.owner
            )
            for row in rows
        )
        return SharedLimits(reservations, paused.scalar_one_or_none())

    async def reserve(
        self, installation_id: int, owner: str, amounts: Sequence[tuple[str, int]], now: datetime
    ) -> None:
        """Reserve these amounts by kind, and delete reservations that have left all windows."""
        rows = [
            {"installation_id": installation_id, "kind": kind, "at": now, "amount": amount, "owner": owner}
            for kind, amount in amounts
        ]
        await self._connection.execute(_RESERVE, rows)
        await self._connection.execute(_FORGET, _bounds(installation_id, now))

    async def pause(self, installation_id: int, until: datetime) -> None:
        """Pause all processes until then, as GitHub asked; a longer pause remains."""
        values = {"installation_id": installation_id, "until": until}
        await self._connection.execute(_PAUSE.on(self._connection), values)


def _bounds(installation_id: int, now: datetime) -> dict[str, object]:
    return {"its_installation": installation_id, "an_hour_ago": now - _HOUR, "a_minute_ago": now - _MINUTE - VALID}
