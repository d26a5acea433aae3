"""The progress of the reconciler: the instant up to which each part has found everything."""

from datetime import datetime, timedelta

from sqlalchemy import bindparam, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Upsert
from queue_engine.store.operation_tables import sweeps

_LAST = select(sweeps.c.at).where(sweeps.c.part == bindparam("its_part"))
_DONE = Upsert(
    sweeps,
    lambda insert: insert.on_conflict_do_update(index_elements=["part"], set_={"at": insert.excluded.at}),
)


def changed_teams(installation_id: int) -> str:
    """Return the part whose instant is the last change of this installation's teams."""
    return f"teams:{installation_id}"


def stale_comments(repository_id: int) -> str:
    """Return the part that finds stale comments of a repository; its job's process has the same name."""
    return f"sweep_comments:{repository_id}"


class ReconcilerState:
    """The reconciler's progress, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def last(self, part: str) -> datetime | None:
        """Return the instant up to which this part has found everything; None if it never completed."""
        return (await self._connection.execute(_LAST, {"its_part": part})).scalar_one_or_none()

    async def soonest(self, part: str, now: datetime, *, apart: timedelta) -> datetime:
        """Return when this part may begin next: `apart` after its last time, and no later than `apart` from now."""
        last = await self.last(part)
        return now if last is None else min(max(now, last + apart), now + apart)

    async def forget(self, prefix: str) -> None:
        """Forget the parts whose names begin so: they count as never completed."""
        await self._connection.execute(delete(sweeps).where(sweeps.c.part.startswith(prefix, autoescape=True)))

    async def done(self, part: str, at: datetime) -> None:
        """Store that this part has found everything up to this instant."""
        await self._connection.execute(_DONE.on(self._connection), {"part": part, "at": at})
