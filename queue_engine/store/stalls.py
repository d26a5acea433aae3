"""Stalls: queues in which no check starts for the front."""

from collections.abc import Awaitable, Callable, Collection
from datetime import datetime, timedelta

from sqlalchemy import bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.domain.model import NOWHERE, Stall
from queue_engine.store.tables import queues

_IN_REPOSITORIES = (
    select(queues.c.repository_id)
    .where(queues.c.repository_id.in_(bindparam("repositories", expanding=True)), queues.c.stalled_since.is_not(None))
    .distinct()
)
_STALLED = select(queues.c.id, queues.c.stalled_head, queues.c.stalled_checks, queues.c.ci_active_at).where(
    queues.c.repository_id == bindparam("its_repository"), queues.c.stalled_since.is_not(None)
)
_CHANGE = update(queues).where(queues.c.id == bindparam("its_id"))
_POLL_SOON = _CHANGE.where(queues.c.stalled_head == NOWHERE)


class Stalls:
    """The stalls, on one connection; each is stored in the row of its queue."""

    def __init__(self, connection: AsyncConnection, wake: Callable[[int, datetime], Awaitable[None]]) -> None:
        """`wake` makes a queue due."""
        self._connection = connection
        self._wake = wake

    async def note(self, queue_id: int, stall: Stall | None, *, expected: Stall | None = None) -> None:
        """Store that no check starts; None: a check started, or the queue has another front.

        With `expected` only if that is still stored: a report or a change of the rules came in between otherwise.
        """
        values = {
            queues.c.stalled_since: stall and stall.since,
            queues.c.stalled_head: stall and stall.head,
            queues.c.stalled_checks: stall and stall.checks,
            queues.c.ci_active_at: stall and stall.ci_active_at,
        }
        changed = _CHANGE.values(values)
        if expected is not None:
            changed = changed.where(
                queues.c.stalled_since == expected.since,
                queues.c.ci_active_at.is_not_distinct_from(expected.ci_active_at),
            )
        await self._connection.execute(changed, {"its_id": queue_id})

    async def poll_soon(self, queue_id: int, now: datetime) -> None:
        """Have a pass look at once for checks that no commit had: the rules or the configuration changed."""
        await self._connection.execute(_POLL_SOON.values(ci_active_at=now - timedelta(hours=1)), {"its_id": queue_id})

    async def repositories(self, repository_ids: Collection[int]) -> set[int]:
        """Return those of these repositories with a queue that waits for a check to start."""
        found = await self._connection.execute(_IN_REPOSITORIES, {"repositories": list(repository_ids)})
        return set(found.scalars())

    async def heads(self, repository_id: int) -> set[str]:
        """Return the heads in this repository for which no check starts."""
        found = await self._connection.execute(_STALLED, {"its_repository": repository_id})
        return {row.stalled_head for row in found}

    async def reported(self, repository_id: int, sha: str, now: datetime, name: str | None = None) -> None:
        """Store that CI runs in this repository, and wake its stalled queues: a check reported on a commit."""
        stalled = await self._connection.execute(_STALLED, {"its_repository": repository_id})
        for row in stalled.all():
            if row.stalled_head == NOWHERE:
                if name is None or name not in row.stalled_checks:
                    continue
                await self.poll_soon(row.id, now)
            elif row.stalled_head != sha and row.ci_active_at is None:
                await self._connection.execute(_CHANGE.values(ci_active_at=now), {"its_id": row.id})
            await self._wake(row.id, now)
