"""What happens around a database, done for real: one sentence names each fault, and work continues after it."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from itertools import count
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from queue_engine.core.database.database import Database
from queue_engine.core.database.listener import DatabaseListener, DatabaseNotifier
from queue_engine.core.database.outage import Busy, OutageKind, ReadOnly, fault_of
from queue_engine.core.jobs.job import Job
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.core.jobs.worker import Worker, WorkerSettings
from queue_engine.core.timing.clock import SystemClock
from queue_engine.migrations import migrate
from tests.support.databases import MakeUrl, PostgresServer
from tests.support.private_postgres import PrivatePostgres
from tests.support.real_time import LIMIT
from tests.support.unfinished_jobs import unfinished_jobs

AT_ONCE = timedelta(milliseconds=20)

_HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


@contextmanager
def locked_by_another_process(path: str) -> Iterator[Callable[[], None]]:
    """Another process has the file locked; call what is given to let it go."""
    arguments = (sys.executable, "-c", _HOLDER, path)
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        yield holder.stdin.close


async def store(database: Database, name: str = "a") -> None:
    async with database.transaction() as connection:
        jobs = Jobs(connection)
        await jobs.enqueue(kind="k", request={"name": name}, process_id=name, now=SystemClock().now())


async def depth(database: Database) -> int:
    async with database.reading() as connection:
        return await unfinished_jobs(Jobs(connection))


async def fault_when(work: Awaitable[object]) -> OutageKind | None:
    """The fault that this meets."""
    with pytest.raises(Exception) as met:
        await work
    return fault_of(met.value)


@pytest.fixture(autouse=True)
async def _threads_end_with_their_test() -> AsyncIterator[None]:
    """The driver does not wait for the thread of a connection that could not be made; it must find its loop open."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if "_connection_worker_thread" in thread.name:
            await asyncio.to_thread(thread.join, LIMIT)


@pytest.mark.process
async def test_sqlite_locked_for_a_moment_is_waited_for(make_sqlite_url: MakeUrl) -> None:
    """A backup that locks the file shorter than our patience is not noticed."""
    database = Database(make_sqlite_url(), busy=timedelta(seconds=20))
    assert database.url.database is not None
    await database.ping()
    with locked_by_another_process(database.url.database) as release:
        storing = asyncio.create_task(store(database))
        done, _ = await asyncio.wait([storing], timeout=0.05)
        assert not done
        release()
        await storing
    assert await depth(database) == 1
    await database.close()


@pytest.mark.parametrize("known", [True, False], ids=["connected before", "not connected yet"])
@pytest.mark.process
async def test_sqlite_locked_for_long_is_reported_and_works_when_free(make_sqlite_url: MakeUrl, known: bool) -> None:
    """The error says that another process has the lock; when that process is gone, writes work as before."""
    database = Database(make_sqlite_url(), busy=AT_ONCE)
    assert database.url.database is not None
    if known:
        await database.ping()
    with locked_by_another_process(database.url.database) as release:
        assert await fault_when(store(database)) is OutageKind.LOCKED
        assert await fault_when(database.ping()) is OutageKind.LOCKED
        assert await depth(database) == 0
        release()
    await store(database)
    assert await depth(database) == 1
    await database.close()


async def test_sqlite_that_is_no_database_is_reported(tmp_path: Path) -> None:
    """A file that was overwritten is for a person to restore."""
    (tmp_path / "imq.db").write_bytes(b"not a database, whatever its name is" * 200)
    database = Database(f"sqlite:///{tmp_path / 'imq.db'}")
    assert await fault_when(database.ping()) is OutageKind.CORRUPT
    await database.close()


async def test_sqlite_without_its_directory_is_reported(tmp_path: Path) -> None:
    """A volume that is not mounted."""
    database = Database(f"sqlite:///{tmp_path / 'absent' / 'imq.db'}")
    assert await fault_when(database.ping()) is OutageKind.UNREACHABLE
    await database.close()


async def test_sqlite_that_may_only_be_read_is_reported(sqlite_database: Database) -> None:
    """What refuses to be written is named so."""
    async with sqlite_database.reading() as connection:
        assert await fault_when(connection.execute(text("DELETE FROM jobs"))) is OutageKind.READ_ONLY


@pytest.mark.postgres
async def test_postgres_that_may_only_be_read_is_reported(postgres_server: PostgresServer) -> None:
    """A standby answers every question, and takes no delivery: it is not ready."""
    name = postgres_server.create()
    with psycopg.connect(postgres_server.url(name), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    database = Database(postgres_server.url(name))
    assert await fault_when(database.ping()) is OutageKind.READ_ONLY
    async with database.transaction() as transaction:
        assert await fault_when(transaction.execute(text("CREATE TABLE t (x int)"))) is OutageKind.READ_ONLY
    await database.close()
    postgres_server.drop(name)


@pytest.mark.postgres
async def test_postgres_without_this_database_is_reported(postgres_server: PostgresServer) -> None:
    """A name that is wrong needs a person; to wait would not help."""
    database = Database(postgres_server.url("imq_absent"))
    assert await fault_when(database.ping()) is OutageKind.REFUSED
    await database.close()


async def test_postgres_that_is_not_there_is_reported() -> None:
    """No server listens at that address."""
    database = Database("postgresql://u:p@127.0.0.1:1/d")
    assert await fault_when(database.ping()) is OutageKind.UNREACHABLE
    await database.close()


def test_fault_of_an_error_is_that_of_the_surroundings_only() -> None:
    """A mistake of a program is none, and keeps its traceback."""
    for error, fault in [
        (psycopg.errors.DiskFull("could not extend file"), OutageKind.FULL),
        (psycopg.errors.TooManyConnections("sorry, too many clients already"), OutageKind.CROWDED),
        (psycopg.OperationalError("FATAL: remaining connection slots are reserved"), OutageKind.CROWDED),
        (psycopg.OperationalError('FATAL: password authentication failed for user "imq"'), OutageKind.REFUSED),
        (psycopg.errors.AdminShutdown("terminating connection"), OutageKind.UNREACHABLE),
        (psycopg.errors.CannotConnectNow("the database system is starting up"), OutageKind.UNREACHABLE),
        (psycopg.errors.DataCorrupted("invalid page in block 1"), OutageKind.CORRUPT),
        (psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"), OutageKind.LOCKED),
        (NoConnectionFree("QueuePool limit of size 5 reached"), OutageKind.CROWDED),
        (Busy("not free in time"), OutageKind.LOCKED),
        (ReadOnly("a standby"), OutageKind.READ_ONLY),
        (psycopg.errors.UniqueViolation("duplicate key"), None),
        (IntegrityError("INSERT", {}, sqlite3.IntegrityError("UNIQUE constraint failed")), None),
        (sqlite3.OperationalError("no such table: jobs"), None),
        (ValueError("of our own"), None),
        (None, None),
    ]:
        assert fault_of(error) is fault, (error, fault)


def test_fault_is_found_behind_the_error_that_it_led_to() -> None:
    """What a driver raised is often wrapped before it is logged."""
    error = RuntimeError("the handler failed")
    error.__cause__ = psycopg.errors.DiskFull("could not extend file")
    assert fault_of(error) is OutageKind.FULL


_DONE = text("INSERT INTO effects VALUES (:name) ON CONFLICT DO NOTHING")


class Shop:
    """Jobs done by a worker on a database that goes away; what was done is noted in the database with each job."""

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self.begun: list[str] = []
        self.worker = Worker(
            self.database,
            SystemClock(),
            {"k": self.do},
            WorkerSettings("w1", lambda: 0.5, lease=timedelta(milliseconds=600)),
        )

    async def do(self, job: Job) -> None:
        self.begun.append(job.request["name"])
        async with self.database.transaction() as connection:
            await connection.execute(_DONE, {"name": job.request["name"]})

    async def work(self) -> None:
        """As the loops of a process do: whatever goes wrong, go on."""
        while True:
            with suppress(Exception):
                await self.worker.run_due()
            await asyncio.sleep(0.02)  # no-sleep-ok: a real server comes back in real time


@asynccontextmanager
async def open_shop(url: str) -> AsyncIterator[Shop]:
    """A shop whose worker survives every fault."""
    shop = Shop(url)
    await migrate(shop.database)
    async with shop.database.transaction() as connection:
        await connection.execute(text("CREATE TABLE effects (name text PRIMARY KEY)"))
    working = asyncio.create_task(shop.work())
    yield shop
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    await shop.worker.drain()
    await shop.database.close()


async def until(true: Callable[[], Awaitable[bool]], what: str) -> None:
    """Let real time pass until this holds."""
    try:
        async with asyncio.timeout(LIMIT):
            while not await true():  # noqa: ASYNC110 - a real server is no event
                await asyncio.sleep(0.02)  # no-sleep-ok: a real server comes back in real time
    except TimeoutError:
        pytest.fail(f"never: {what}")


async def store_many(database: Database, stored: list[str], refused: list[str]) -> None:
    """Store one job after the other until several were refused; `stored` names those that PostgreSQL accepted."""
    for number in count():
        try:
            await store(database, f"j{number}")
        except Exception:
            refused.append(f"j{number}")
        else:
            stored.append(f"j{number}")
        if len(refused) == 20:
            return
        await asyncio.sleep(0.005)  # no-sleep-ok: jobs come while a real server goes


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.thorough("fast")
@pytest.mark.parametrize("how", ["fast", "immediate"])
@pytest.mark.process
async def test_postgres_restarted_while_jobs_flow_leaves_every_job_done_once(
    private_postgres: PrivatePostgres, how: str
) -> None:
    """Transactions under way fail and leases end.

    All stored work is done without an operator, and listeners reconnect.
    """
    notified: asyncio.Queue[str | None] = asyncio.Queue()

    def notify(topic: str | None, /, *, by_other: bool) -> None:
        notified.put_nowait(topic)

    stored: list[str] = []
    refused: list[str] = []
    async with open_shop(private_postgres.url) as shop:
        notifier = DatabaseNotifier()
        listener = DatabaseListener(shop.database, notifier, notify, clock=SystemClock(), random=lambda: 0.5)
        listening = asyncio.create_task(listener.run())

        async def some_are_done() -> bool:
            return listener.connected and len(shop.begun) > 20

        receiving = asyncio.create_task(store_many(shop.database, stored, refused))
        await until(some_are_done, "jobs flow")
        await asyncio.to_thread(private_postgres.stop, how)
        assert await fault_when(shop.database.ping()) is OutageKind.UNREACHABLE
        await receiving
        assert len(stored) > 20
        await asyncio.to_thread(private_postgres.start)

        async def all_are_done() -> bool:
            return await depth(shop.database) == 0 and listener.connected

        await until(all_are_done, "every job is done")
        while not notified.empty():
            notified.get_nowait()
        other = Database(private_postgres.url)
        async with other.transaction() as connection:
            await DatabaseNotifier().send(connection, ["jobs"])
        async with asyncio.timeout(LIMIT):
            assert await notified.get() == "jobs"
        async with other.reading() as connection:
            done = set((await connection.execute(text("SELECT name FROM effects"))).scalars())
            # More may be done: a commit may be stored although its caller lost the connection.
            assert set(stored) <= done
            assert (await connection.execute(text("SELECT count(*) FROM failed_jobs"))).scalar_one() == 0
        await other.close()
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
