"""Examples of the store's nouns, with only what a test cares about named."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from queue_engine.core.database.database import metadata
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


def differences(connection: Connection) -> list[Any]:
    """What distinguishes the tables of a database from those of the code."""
    return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata))
