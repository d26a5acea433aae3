"""The table of jobs stays as small as the work, however much has gone through it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import CompoundSelect, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.dead_letters import DeadLetters
from queue_engine.core.jobs.job import FIRST_DUE, failed_jobs, jobs
from queue_engine.core.jobs.job_store import Jobs

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(seconds=30)
ROUND = 400
ROUNDS = 15


async def go_round(database: Database, number: int) -> None:
    """As many jobs come as go: most are done, some only after a failure, and some are dead and discarded."""
    async with database.transaction() as connection:
        requests = [(f"{number}:{n % 300}", {"delivery": f"{number}:{n}", "text": "x" * 200}) for n in range(ROUND)]
        await Jobs(connection).enqueue_all(kind="k", requests=requests, now=NOW)
    done = 0
    while done < ROUND:
        async with database.transaction() as connection:
            store = Jobs(connection)
            claimed = await store.claim_some(ROUND, owner="w", now=NOW, lease=LEASE)
            failed = [job for job in claimed if job.seq % 40 == 0 and job.attempt == 0]
            for job in failed:
                await store.retry(job, at=NOW, error="no luck", now=NOW)
            dead = [job for job in claimed if job.seq % 100 == 1]
            for job in dead:
                await DeadLetters(connection).add(job, "no", NOW, attempts=1, retryable=True)
                await DeadLetters(connection).discard(job.id)
            rest = [job for job in claimed if job not in failed and job not in dead]
            await store.finish(rest)
            done += len(rest) + len(dead)


async def pages(connection: AsyncConnection) -> tuple[int, int]:
    """The pages of the file, and how many of them are in use."""
    total, free = [
        int((await connection.execute(text(f"PRAGMA {name}"))).scalar_one())
        for name in ("page_count", "freelist_count")
    ]
    return total, total - free


async def plan(connection: AsyncConnection, statement: CompoundSelect[tuple[object, ...]]) -> Sequence[str]:
    """How the database goes about a statement."""
    compiled = statement.params(claimed_at=NOW, at_most=16).compile(
        connection.engine.sync_engine, compile_kwargs={"literal_binds": True}
    )
    explain = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
    rows = await connection.exec_driver_sql(f"{explain} {compiled}")
    return [str(row[-1]) for row in rows]


@pytest.mark.thorough
async def test_jobs_leave_nothing_behind_after_six_thousand(sqlite_database: Database) -> None:
    """No soft delete: the file stays as large as the most that it ever held at once, and is as empty as at first."""
    async with sqlite_database.reading() as connection:
        _, at_first = await pages(connection)
    await go_round(sqlite_database, 0)
    await go_round(sqlite_database, 1)
    async with sqlite_database.reading() as connection:
        early, _ = await pages(connection)
    for number in range(2, ROUNDS):
        await go_round(sqlite_database, number)
    async with sqlite_database.reading() as connection:
        late, in_use = await pages(connection)
        for table in (jobs, failed_jobs):
            assert (await connection.execute(select(func.count()).select_from(table))).scalar_one() == 0
        assert (await connection.execute(text("SELECT seq FROM sqlite_sequence WHERE name = 'jobs'"))).scalar_one() == (
            ROUND * ROUNDS
        )
    assert late <= early + 2
    assert in_use <= at_first + 1


async def test_claim_walks_an_index_in_its_order_and_sorts_nothing(sqlite_database: Database) -> None:
    """A claim costs the same whatever waits behind the first: no scan of the table, and no sorting of it."""
    async with sqlite_database.reading() as connection:
        steps = await plan(connection, FIRST_DUE)
    searched = [step for step in steps if "ix_jobs_status_priority_seq" in step]
    assert searched == ["SEARCH jobs USING INDEX ix_jobs_status_priority_seq (status=?)"] * 2, (
        "those that wait, or ended"
    )
    assert not [step for step in steps if "TEMP B-TREE" in step or "SCAN jobs" in step]
    for index in ("ix_jobs_process_id", "ix_jobs_failed"):
        assert len([step for step in steps if f"{index} (process_id=?)" in step]) == 2


@pytest.mark.postgres
async def test_claim_on_postgresql_never_reads_the_whole_table(postgres_database: Database) -> None:
    """It has all rows that were deleted since its last vacuum: a minute's jobs, each of them twice.

    It joins nothing either: a join compares each job with all others, and sorts all that wait.
    """
    requests = [(f"p{number}", {"number": number}) for number in range(2000)]
    async with postgres_database.transaction() as connection:
        await Jobs(connection).enqueue_all(kind="k", requests=requests, now=NOW)
        await connection.execute(text("ANALYZE jobs"))
        steps = await plan(connection, FIRST_DUE)
    assert any("ix_jobs_failed" in step for step in steps)
    assert [step for step in steps if "Seq Scan" in step or "Join" in step or "Sort" in step] == []
