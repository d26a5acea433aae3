"""Runs: the attempts to land entries.

Runs are read and written with their members (`queue_engine.store.entries`): a member's row names its run. Each write of
a run is compare-and-set on its own version, too, because it may have several members.
"""

from dataclasses import replace
from typing import Any

from sqlalchemy import Integer, Row, and_, bindparam, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.read_model import adapter
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.run import NOT_BEGUN, CheckTiming, Run
from queue_engine.store.tables import candidate_runs, entries, runs

_STORED = tuple(name for name in Run.__dataclass_fields__ if name not in ("id", "version"))
_COLUMNS = {name: f"run_{name}" for name in ("version", *_STORED)}
RUN_FIELDS = tuple(runs.c[name].label(label) for name, label in _COLUMNS.items())
"""Columns that `run_of` reads beside a member's `run_id`."""

_ID = runs.c.id == bindparam("its_id", type_=Integer)
_HAS_MEMBERS = or_(
    select(entries.c.seq).where(entries.c.run_id == runs.c.id).exists(),
    select(candidate_runs.c.id).where(candidate_runs.c.run_id == runs.c.id).exists(),
)

_ADD = insert(runs).returning(runs.c.id)
_SAVE = update(runs).where(and_(_ID, runs.c.version == bindparam("its_version", type_=Integer)))
_END = delete(runs).where(and_(_ID, ~_HAS_MEMBERS))


class Runs:
    """The runs, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def add(self, run: Run) -> Run:
        """Store a new run; returns the run with its id."""
        added = await self._connection.execute(_ADD, {**_values(run), "version": 1})
        return replace(run, id=added.scalar_one(), version=1)

    async def save(self, run: Run) -> Run:
        """Store the changed run and return it with its new version.

        Raises StaleRecord when another transaction changed or ended the run since it was read.
        """
        version = run.version + 1
        its_own = {"its_id": run.id, "its_version": run.version}
        changed = await self._connection.execute(_SAVE, {**_values(run), "version": version, **its_own})
        if changed.rowcount != 1:
            raise StaleRecord(f"run {run.id} is no longer at version {run.version}")
        return replace(run, version=version)

    async def end(self, run: Run) -> None:
        """Delete a run that its last member has left; nothing for a run that was never stored."""
        if run.id is not None:
            await self._connection.execute(_END, {"its_id": run.id})


def run_of(row: Row[Any]) -> Run:
    """Read the run from a member's row with `RUN_FIELDS`."""
    if row.run_id is None:
        return NOT_BEGUN
    values = {name: row._mapping[label] for name, label in _COLUMNS.items()}
    values["timings"] = adapter(tuple[CheckTiming, ...]).validate_python(values["timings"])
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Run(row.run_id, **{**values, **lists})


def _values(run: Run) -> dict[str, Any]:
    values = {name: getattr(run, name) for name in _STORED}
    values["timings"] = adapter(tuple[CheckTiming, ...]).dump_python(run.timings, mode="json", exclude_none=True)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
