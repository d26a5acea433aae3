"""Examples of the store's nouns, with only what a test cares about named."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, inspect, text

from queue_engine.core.database.database import Database
from queue_engine.domain.model import Entry, EntryStatus, Queue, Repository
from queue_engine.domain.run import Run, RunState
from queue_engine.store import Transaction

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(seconds=30)
SOON = timedelta(seconds=10)
TICK = timedelta(microseconds=1)
REPOSITORY = Repository(id=7, owner="acme", name="rocket", installation_id=70)
OTHER = Repository(id=8, owner="acme", name="sled", installation_id=70)


async def queue(t: Transaction, base_branch: str = "main", repository: Repository = REPOSITORY) -> Queue:
    """A stored queue."""
    return await t.queues.find_or_create(repository, base_branch, NOW)


async def claim(t: Transaction, *, owner: str = "w", now: object = NOW, limit: int = 9) -> tuple[Queue, ...]:
    """The queues that this worker claims."""
    return await t.queues.claim_due(owner=owner, now=now, lease=LEASE, limit=limit)  # type: ignore[arg-type]


async def stand(
    t: Transaction, queue: Queue, number: int, *, head_sha: str = "", at: datetime = NOW, **standing: Any
) -> Entry:
    """A stored entry at the end of its priority."""
    return await t.entries.add(
        queue_id=queue.id,
        number=number,
        title=f"Change {number}",
        author="ada",
        queued_by="max",
        queued_head=head_sha or f"head-{number}",
        enqueued_at=at,
        **standing,
    )


def entry(number: int = 1) -> Entry:
    """An entry that is stored nowhere."""
    return Entry(
        id=f"{number:032x}",
        queue_id=1,
        repository=REPOSITORY,
        base_branch="main",
        number=number,
        title=f"Change {number}",
        author="ada",
        queued_by="max",
        seq=number,
        queued_head=f"head-{number}",
        head_sha=f"head-{number}",
        enqueued_at=NOW,
        status_since=NOW,
    )


STATES = {
    EntryStatus.PENDING: None,
    EntryStatus.UPDATING: RunState.BUILDING,
    EntryStatus.CHECKING: RunState.TESTING,
    EntryStatus.READY: RunState.PASSED,
}
"""The state of a run without a branch, by the status of its entry."""

_OF_RUN = frozenset(Run.__dataclass_fields__) - {"id", "version"}


def changed(entry: Entry, **changes: Any) -> Entry:
    """The entry with these fields, of its own and of its run; a head is the candidate once its checks begin.

    With a `status`, its run has the state that this follows from.
    """
    of_run = {name: changes.pop(name) for name in _OF_RUN & set(changes)}
    if "status" in changes:
        of_run["state"] = STATES[changes.pop("status")]
    entry = replace(entry, **changes)
    if of_run.get("state", entry.run.state) in {RunState.TESTING, RunState.PASSED}:
        of_run.setdefault("candidate", entry.head_sha)
        if entry.run.checks_since is None or "status_since" in changes:
            of_run.setdefault("checks_since", entry.status_since)
    return replace(entry, run=replace(entry.run, **of_run))


async def tables_of(database: Database) -> dict[str, Any]:
    """The database's own description of its tables: constraints, defaults, indexes, and PostgreSQL's settings."""
    async with database.reading() as connection:
        return await connection.run_sync(_described)


def _described(connection: Connection) -> dict[str, Any]:
    tables = inspect(connection)
    found: dict[str, Any] = {}
    for kind in ("columns", "pk_constraint", "unique_constraints", "check_constraints", "foreign_keys", "indexes"):
        for (_, table), described in getattr(tables, f"get_multi_{kind}")().items():
            parts = described if isinstance(described, list) else [described]
            found[f"{kind} of {table}"] = sorted(str(_as_text(part)) for part in parts)
    if connection.dialect.name == "postgresql":
        settings = text("SELECT relname, reloptions FROM pg_class WHERE reloptions IS NOT NULL AND relkind = 'r'")
        found |= {f"settings of {table}": each for table, each in connection.execute(settings)}
    return found


def _as_text(value: Any) -> Any:
    """With types and conditions as text, which can be compared."""
    return {key: _as_text(each) for key, each in value.items()} if isinstance(value, dict) else str(value)
