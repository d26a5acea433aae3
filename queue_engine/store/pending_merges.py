"""Merges that IMQ requested, and that GitHub may finish although their entries have left their queues."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, bindparam, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Upsert
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.run import Run
from queue_engine.store.departure_tables import pending_merges
from queue_engine.store.repositories import REPOSITORY_FIELDS, repository_of
from queue_engine.store.tables import queues, repositories

_OF_ENTRY = ("number", "queue_id", "title", "author", "queued_by", "queued_head", "head", "enqueued_at")
_OF_RUN = ("base_tip", "tested_tree", "merge_uuid", "started_at")
_REPOSITORY = pending_merges.c.repository_id == bindparam("its_repository")
_ITS_OWN = and_(_REPOSITORY, pending_merges.c.number == bindparam("its_number"))
_FIND: Select[Any] = (
    select(
        *(column for column in pending_merges.c if not column.primary_key),
        pending_merges.c.number,
        queues.c.base_branch,
        *REPOSITORY_FIELDS,
    )
    .join(queues, queues.c.id == pending_merges.c.queue_id)
    .join(repositories, repositories.c.id == queues.c.repository_id)
    .where(_ITS_OWN)
)
_NUMBERS = select(pending_merges.c.number).where(_REPOSITORY).order_by(pending_merges.c.number)
_REMOVE = delete(pending_merges).where(_ITS_OWN)
_PURGE = delete(pending_merges).where(pending_merges.c.left_at < bindparam("before"))
_PUT = Upsert(
    pending_merges,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["repository_id", "number"],
        set_={column.name: insert.excluded[column.name] for column in pending_merges.c if not column.primary_key},
    ),
)


class PendingMerges:
    """The pending merges of entries that have left, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def put(self, entry: Entry, now: datetime) -> None:
        """Store what an entry that leaves had tested, in place of an earlier merge of its pull request."""
        values = {name: getattr(entry, name) for name in (*_OF_ENTRY, "own_check_required")}
        values |= {name: getattr(entry.run, name) for name in _OF_RUN}
        its_own = {"repository_id": entry.repository.id, "entry_id": entry.id, "left_at": now}
        await self._connection.execute(_PUT.on(self._connection), {**values, **its_own})

    async def find(self, repository_id: int, number: int) -> Entry | None:
        """Return the entry as it was when it left, ready to merge; None if its merge is settled."""
        row = (await self._connection.execute(_FIND, _of(repository_id, number))).one_or_none()
        if row is None:
            return None
        found = Entry(
            id=row.entry_id,
            repository=repository_of(row),
            base_branch=row.base_branch,
            priority=0,
            seq=0,
            position=0,
            status=EntryStatus.READY,
            head_proved=True,
            updated_from=None,
            newer_tip=None,
            needs_refetch=False,
            status_since=row.left_at,
            version=0,
            run=Run(**{name: getattr(row, name) for name in _OF_RUN}),
            **{name: getattr(row, name) for name in _OF_ENTRY},
        )
        return replace(found, own_check_required=row.own_check_required)

    async def numbers(self, repository_id: int) -> tuple[int, ...]:
        """Return the pull requests of a repository with such merges."""
        return tuple((await self._connection.execute(_NUMBERS, {"its_repository": repository_id})).scalars())

    async def remove(self, repository_id: int, number: int) -> bool:
        """Delete the merge of a pull request, since it is settled; whether there was one."""
        return bool((await self._connection.execute(_REMOVE, _of(repository_id, number))).rowcount)

    async def purge(self, before: datetime) -> None:
        """Delete the merges of entries that left before this instant."""
        await self._connection.execute(_PURGE, {"before": before})


def _of(repository_id: int, number: int) -> dict[str, int]:
    return {"its_repository": repository_id, "its_number": number}
