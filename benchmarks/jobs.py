"""The job store against a well-kept peer, and how it stands after a million jobs.

The peer is procrastinate on the same PostgreSQL in the same run, set to delete what succeeded, as IMQ does.
"""

import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from statistics import median

import procrastinate
from procrastinate.types import JSONDict
from sqlalchemy import text

from benchmarks.sizes import Size, database_urls
from benchmarks.table import Row, seconds_text
from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job import Job
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.core.jobs.worker import Worker, WorkerSettings
from queue_engine.core.timing.clock import SystemClock
from queue_engine.migrations import migrate
from tests.support.unfinished_jobs import unfinished_jobs

_CONCURRENCY = 16
_LEASE = timedelta(seconds=30)
_RUNS = 3
_TOGETHER = 200
_STANDING = 1_000
_MOST_SLOWER = 1.2
_KIND = "nothing"


async def jobs_rows(size: Size, seed: int) -> list[Row]:
    """Jobs per second claimed and finished, on each database and by the peer; then the million."""
    number, churned = size.of((5_000, 1_000_000), (200, 2_000), (20, 400))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name, database_urls(size, Path(name)) as urls:
        peer = median([await _peer(urls[1], number) for _ in range(_RUNS)]) if len(urls) > 1 else None
        for url in urls:
            database = Database(url)
            try:
                await migrate(database)
                ours = median([await _ours(database, number, seed) for _ in range(_RUNS)])
                rows.append(_speed_row(database.dialect, number, ours, peer))
                rows.append(await _churn_row(database, churned))
            finally:
                await database.close()
    return rows


def _speed_row(dialect: str, number: int, ours: float, peer: float | None) -> Row:
    reference = "not measured" if peer is None else f"procrastinate on PostgreSQL: {peer:.0f}/s"
    return Row(
        name=f"jobs {dialect}",
        what=f"jobs claimed, done and finished per second, one worker, {_CONCURRENCY} at once, {dialect}",
        measured=f"{ours:.0f}/s (median of {_RUNS} runs of {number})",
        value=None if peer is None else 1 / ours,
        goal="",
        met=None,
        reference=reference,
        reference_value=None if peer is None else 1 / peer,
        note="jobs that do nothing, each of a process of its own, all stored before the worker starts; what is done is "
        "deleted by both. The ratio is of the time for a job: above 1 the reference takes longer",
    )


async def _ours(database: Database, number: int, seed: int) -> float:
    """Jobs per second."""

    async def nothing(_job: Job) -> None:
        return None

    await _enqueue(database, 0, number)
    worker = Worker(
        database,
        SystemClock(),
        {_KIND: nothing},
        WorkerSettings("bench", Random(seed).random, concurrency=_CONCURRENCY),
    )
    start = time.perf_counter()
    while await worker.start_due():
        await worker.drain()
    took = time.perf_counter() - start
    async with database.reading() as connection:
        assert await unfinished_jobs(Jobs(connection)) == 0
    return number / took


async def _peer(url: str, number: int) -> float:
    """Jobs per second of procrastinate."""
    connector = procrastinate.PsycopgConnector(conninfo=url.replace("postgresql+psycopg", "postgresql"))
    app = procrastinate.App(connector=connector)
    done = 0

    @app.task(name=_KIND)
    async def nothing(number: int) -> None:
        nonlocal done
        done += 1

    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        wanted: list[JSONDict] = [{"number": each} for each in range(number)]
        await nothing.batch_defer_async(*wanted)
        start = time.perf_counter()
        await app.run_worker_async(
            wait=False, concurrency=_CONCURRENCY, delete_jobs="successful", install_signal_handlers=False
        )
        took = time.perf_counter() - start
    assert done == number
    return number / took


async def _churn_row(database: Database, number: int) -> Row:
    """Push many jobs through a table that holds a thousand, and compare the start with the end."""
    await _enqueue(database, 0, _STANDING)
    claims: list[float] = []
    sizes: list[int] = []
    for first in range(0, number, _TOGETHER):
        await _enqueue(database, first, _TOGETHER)
        async with database.transaction() as connection:
            start = time.perf_counter()
            taken = await Jobs(connection).claim_some(_TOGETHER, owner="bench", now=_now(), lease=_LEASE)
            claims.append(time.perf_counter() - start)
        assert len(taken) == _TOGETHER
        async with database.transaction() as connection:
            await Jobs(connection).finish(taken)
        if first % (number // 20) < _TOGETHER:
            sizes.append(await _size(database))
    await _empty(database)
    tenth = max(1, len(claims) // 10)
    # The first claims make connections and prepare statements.
    early, late = median(claims[tenth // 2 : tenth + tenth // 2]), median(claims[-tenth:])
    return Row(
        name=f"churn {database.dialect}",
        what=f"{number:,} jobs through a table that holds {_STANDING:,}, {database.dialect}",
        measured=f"{_TOGETHER} claimed in {seconds_text(early)} at the start, {seconds_text(late)} at the end; "
        f"{_mb(sizes[1:2] or sizes)} after the first twentieth, at most {_mb(sizes)}",
        value=late,
        goal=f"flat: at most {_MOST_SLOWER} x in claim time",
        met=late <= _MOST_SLOWER * early,
        reference="its own start",
        reference_value=early,
        note="medians over a tenth of the claims each; size of the database's file, or of the table with its indexes",
    )


async def _enqueue(database: Database, first: int, number: int) -> None:
    requests = [(f"p{first + each}", {"number": first + each}) for each in range(number)]
    for start in range(0, number, 500):
        async with database.transaction() as connection:
            await Jobs(connection).enqueue_all(kind=_KIND, requests=requests[start : start + 500], now=_now())


async def _size(database: Database) -> int:
    """Bytes."""
    async with database.reading() as connection:
        if database.dialect == "sqlite":
            pages = (await connection.execute(text("PRAGMA page_count"))).scalar_one()
            return int(pages) * int((await connection.execute(text("PRAGMA page_size"))).scalar_one())
        return int((await connection.execute(text("SELECT pg_total_relation_size('jobs')"))).scalar_one())


async def _empty(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(text("DELETE FROM jobs"))


def _mb(sizes: Sequence[int]) -> str:
    return f"{max(sizes) / 1e6:.1f} MB"


def _now() -> datetime:
    return SystemClock().now()
