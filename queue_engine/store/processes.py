"""Reports of processes: the latest of each, so that any process can answer for all."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import insert_into
from queue_engine.store.operation_tables import processes

ALIVE = timedelta(minutes=2)
"""How long a process counts as running after its last report. Processes report every 30 seconds."""

_FORGOTTEN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """The report of one process: its figures as plain data, and its page for Prometheus."""

    owner: str
    status: Mapping[str, Any]
    metrics: str


class Processes:
    """The reports, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def report(self, owner: str, now: datetime, status: Mapping[str, Any], metrics: str) -> None:
        """Replace the report of this process. A process that was killed disappears after an hour."""
        values = {"seen_at": now, "status": dict(status), "metrics": metrics}
        await self._connection.execute(
            insert_into(self._connection, processes)
            .values(owner=owner, **values)
            .on_conflict_do_update(index_elements=["owner"], set_=values)
        )
        # A report under a clock far ahead would remain for ever.
        gone = ~processes.c.seen_at.between(now - _FORGOTTEN, now + _FORGOTTEN)
        await self._connection.execute(delete(processes).where(gone))

    async def all(self, now: datetime) -> tuple[ProcessReport, ...]:
        """Return every process that reported within ALIVE, in the order of their names."""
        alive = (
            select(processes).where(processes.c.seen_at.between(now - ALIVE, now + ALIVE)).order_by(processes.c.owner)
        )
        return tuple(ProcessReport(row.owner, row.status, row.metrics) for row in await self._connection.execute(alive))

    async def forget(self, owner: str) -> None:
        """This process ends."""
        await self._connection.execute(delete(processes).where(processes.c.owner == owner))
