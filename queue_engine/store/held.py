"""Held pull requests: they wait for a place in a full queue, in the order of arrival."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, bindparam, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Upsert
from queue_engine.store.tables import held


@dataclass(frozen=True, slots=True)
class HeldPullRequest:
    """A pull request waiting for a place, with the head and the person that it was consented to by.

    `trace` and `delivery` are those of the consent: the W3C traceparent, and the webhook's id if it came by one.
    `trusted_labels` count for its precedence when it joins: the labels that were there at the consent, and those
    that somebody who may queue has set since. `priority` is what it was given by command, if it was.
    Two are equal if the consent is the same.
    """

    queue_id: int
    repository_id: int
    number: int
    head_sha: str
    queued_by: str
    at: datetime
    trace: str | None = None
    delivery: str | None = None
    trusted_labels: tuple[str, ...] = field(default=(), compare=False)
    priority: int | None = field(default=None, compare=False)


_IN_QUEUE = held.c.queue_id == bindparam("its_queue")
_ITS_OWN = and_(held.c.repository_id == bindparam("its_repository"), held.c.number == bindparam("its_number"))
_FIRST = select(*(held.c[name] for name in HeldPullRequest.__dataclass_fields__)).order_by(held.c.seq).limit(1)
_NEXT = _FIRST.where(_IN_QUEUE)
_FIND = _FIRST.where(_ITS_OWN)
_STAND_BY = update(held).where(_ITS_OWN)
_REMOVE = delete(held).where(_ITS_OWN)
_COUNT = select(func.count()).select_from(held).where(_IN_QUEUE)
_OWN_PLACE = select(held.c.seq).where(_ITS_OWN).scalar_subquery()
_AHEAD = _COUNT.where(or_(_OWN_PLACE.is_(None), held.c.seq < _OWN_PLACE))
_CONSENT = ("queue_id", "head_sha", "queued_by", "trace", "delivery", "trusted_labels")
_ADD = Upsert(
    held,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["repository_id", "number"], set_={name: insert.excluded[name] for name in _CONSENT}
    ),
)


class Held:
    """The held pull requests, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def add(self, waiting: HeldPullRequest) -> None:
        """Let it wait. One that waits already keeps its place, its time and its priority; the rest is replaced."""
        await self._connection.execute(_ADD.on(self._connection), asdict(waiting))

    async def next(self, queue_id: int) -> HeldPullRequest | None:
        """Who waits longest for a place in this queue."""
        return await self._first(_NEXT, {"its_queue": queue_id})

    async def find(self, repository_id: int, number: int) -> HeldPullRequest | None:
        """This pull request, if it waits."""
        return await self._first(_FIND, _of(repository_id, number))

    async def stand_by(
        self, repository_id: int, number: int, *, trusted_labels: Iterable[str], priority: int | None
    ) -> None:
        """Change what it stands by when it joins: the labels that count, and the priority given by command."""
        values = {"trusted_labels": sorted(trusted_labels), "priority": priority}
        await self._connection.execute(_STAND_BY, {**values, **_of(repository_id, number)})

    async def remove(self, repository_id: int, number: int) -> None:
        """It got its place, or wants it no more."""
        await self._connection.execute(_REMOVE, _of(repository_id, number))

    async def step_back(self, repository_id: int, number: int) -> None:
        """Send it to the end of its line: nothing can be learnt of it now, and others must not wait for that."""
        waiting = await self.find(repository_id, number)
        if waiting is not None:
            await self.remove(repository_id, number)
            await self._connection.execute(held.insert(), [asdict(waiting)])

    async def ahead(self, queue_id: int, repository_id: int, number: int) -> int:
        """How many get a place in this queue before this pull request: all who wait if it does not wait yet."""
        its_own = {"its_queue": queue_id, **_of(repository_id, number)}
        return (await self._connection.execute(_AHEAD, its_own)).scalar_one()

    async def count(self, queue_id: int) -> int:
        """How many wait for a place in this queue."""
        return (await self._connection.execute(_COUNT, {"its_queue": queue_id})).scalar_one()

    async def _first(self, statement: Select[Any], its_own: Mapping[str, Any]) -> HeldPullRequest | None:
        row = (await self._connection.execute(statement, its_own)).one_or_none()
        return None if row is None else HeldPullRequest(**{**row._mapping, "trusted_labels": tuple(row.trusted_labels)})


def _of(repository_id: int, number: int) -> dict[str, Any]:
    return {"its_repository": repository_id, "its_number": number}
