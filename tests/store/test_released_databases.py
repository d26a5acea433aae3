"""The database of each release, from the first one on, becomes one of the present version with all that is in it."""

from datetime import timedelta

import pytest
from sqlalchemy import select, text

from queue_engine.core.database.database import Database, metadata
from queue_engine.domain.model import EntryOrder, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.migrations import HEAD, current, migrate
from queue_engine.store import Store
from queue_engine.store.tables import outbox
from tests.store.examples import NOW, REPOSITORY, queue, stand, tables_of
from tests.store.outbox.outbox_examples import COMMENT
from tests.support.release_databases import load, released


@pytest.mark.parametrize("version", sorted(released()))
async def test_database_of_a_release_becomes_one_of_this_version(empty_database: Database, version: str) -> None:
    """P2, P3, P4: order, consent, pauses, comments and waiting work of the release remain.

    Its tables become those that an empty database gets: a changed table without a revision fails.
    """
    await migrate(empty_database)
    tables = await tables_of(empty_database)
    async with empty_database.transaction() as connection:
        await connection.run_sync(metadata.drop_all)
        await connection.execute(text("DROP TABLE alembic_version"))
    await load(empty_database, version)
    assert await current(empty_database) == released()[version]
    await migrate(empty_database)
    assert await current(empty_database) == HEAD
    assert await tables_of(empty_database) == tables
    async with Store(empty_database).transaction() as tx:
        main = await queue(tx)
        entries = await tx.entries.of_queue(main.id)
        assert [(entry.number, entry.status.value) for entry in entries] == [
            (1, "checking"),
            (4, "pending"),
            (2, "pending"),
            (3, "pending"),
        ]
        assert [(entry.queued_head, entry.trusted_labels) for entry in entries[2:]] == [
            ("head-2", ("merge-queue",)),
            ("head-3", ("merge-queue",)),
        ]
        assert entries[0].run.candidate == "head-1"
        assert [pause.reason for pause in (await queue(tx, "next")).pauses] == [Reason.PAUSED_BY_HAND]
        assert await tx.timeline.dequeued_at(REPOSITORY.id, 9) == NOW
        assert await tx.keys.known("webhook", "guid-8", NOW)
        assert len(await tx.jobs.unfinished("7:8")) == 1
        sent = await tx.connection.execute(select(outbox.c.number, outbox.c.kind).where(outbox.c.remote_id == 70))
        assert [tuple(row) for row in sent] == [(1, "comment")]
        assert await tx.outbox.exists(COMMENT, REPOSITORY.id, 2)
        # Ids continue behind those of the release.
        added = await stand(tx, main, 10)
        assert added.seq > max(entry.seq for entry in entries)
        placed = await tx.entries.reprioritise(added, EntryOrder(priority=0), timedelta(minutes=1))
        assert (placed.position, placed.status) == (4, EntryStatus.PENDING)
