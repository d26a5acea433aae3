"""Dead letters of the outbox keep their ids when their kind gets another name."""

from datetime import timedelta

from sqlalchemy import insert, text

from queue_engine.core.database.database import Database
from queue_engine.migrations import migrate
from queue_engine.store import Store
from queue_engine.store.outbox.outbox import OUTBOX_JOB
from queue_engine.store.tables import repositories
from tests.store.examples import REPOSITORY
from tests.store.migration_examples import NOW, differences

LEASE = timedelta(seconds=30)


async def test_migrations_rename_the_kind_of_dead_outbox_items_and_of_their_jobs(empty_database: Database) -> None:
    """P2: IMQ resends an item that died before the upgrade, and its dead letter is gone then."""
    await migrate(empty_database, "0027")
    store = Store(empty_database)
    async with store.transaction() as tx:
        await tx.connection.execute(
            insert(repositories).values(id=REPOSITORY.id, owner="acme", name="rocket", installation_id=1)
        )
        for number in (1, 2):
            await tx.outbox.want_label(REPOSITORY, number, "merge-queue", on=False, due=NOW)
            item = await tx.outbox.claim(owner="w", now=NOW, lease=LEASE)
            assert item is not None
            await tx.outbox.dead(item, "locked", NOW, retryable=True)
        await tx.connection.execute(text("UPDATE failed_jobs SET job_type = 'letter'"))
        first, second = sorted(await tx.dead_letters.list(9), key=lambda letter: letter.process_id)
        assert await tx.dead_letters.reprocess(first.id, NOW)
    await migrate(empty_database)
    async with store.transaction() as tx:
        (kept,) = await tx.dead_letters.list(9, job_type=OUTBOX_JOB)
        assert kept.id == second.id
        assert (await tx.connection.execute(text("SELECT kind FROM jobs"))).scalars().all() == [OUTBOX_JOB]
        assert await tx.outbox.requeue(kept.payload, NOW)
        assert await tx.dead_letters.count() == 0
    async with empty_database.reading() as connection:
        assert await connection.run_sync(differences) == []
