"""One database, SQLite or PostgreSQL, with the same promises: atomic transactions, instants in UTC.

SQLite is written by one connection per process, serially, and read by others; every writing transaction begins with
`BEGIN IMMEDIATE`, because one that upgrades from reading to writing half-way is refused when another writes meanwhile.

It runs in WAL mode with `synchronous=NORMAL`: what was committed survives the process, `kill -9` included, which is
what a stored delivery needs. A power cut may take the last commits, never a part of one. The sweep then finds on
GitHub what is missing, so a disk flush for each of hundreds of deliveries a second would buy little. Who needs
that too takes PostgreSQL.

Statements are built once, as constants of their module, and called with values for their `bindparam`s (`its_…` where a
column has the name). What the two databases spell differently is an `Upsert`. Building a statement costs SQLAlchemy
many times what running it costs.
"""

import asyncio
import os
import select
import sqlite3
import stat
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import aiosqlite
import structlog
from sqlalchemy import (
    URL,
    BigInteger,
    ColumnElement,
    DateTime,
    Dialect,
    Executable,
    Integer,
    MetaData,
    Row,
    Table,
    TableClause,
    event,
    make_url,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite.aiosqlite import AsyncAdapt_aiosqlite_connection
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection
from sqlalchemy.types import TypeDecorator
from sqlalchemy.util.concurrency import await_

from queue_engine.core.database.outage import Busy, OutageKind, ReadOnly, fault_of

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

T = TypeVar("T")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""Every table of IMQ. Names of constraints are given, so that migrations find them again on both databases."""

Counter = BigInteger().with_variant(Integer, "sqlite")
"""A growing number as primary key: SQLite numbers rows only in a column that is exactly `INTEGER`."""

_log = structlog.get_logger("imq.database")

_POOL_SECONDS = 30.0
_WAL_TRIES = 200
_CACHED_STATEMENTS = 512
"""Statements that a connection to SQLite keeps prepared: more than IMQ has. Python's sqlite3 keeps 128."""
_COMPILED_STATEMENTS = 1_000
"""Statements that an engine keeps compiled: more than IMQ has."""
_ZONE = "+00:00"
"""The end of an instant's text, which SQLite's columns leave out."""
_USER_VERSION = 0
"""SQLite's number for applications, which IMQ leaves as it is."""
_IDLE_SECONDS = 1.0
"""For so long a connection to PostgreSQL is used again unasked, unless its socket shows that it was closed."""
_TAKES_ROOM = text(
    "CREATE TEMPORARY TABLE imq_room ON COMMIT DROP AS SELECT repeat('x', 2000) AS x FROM generate_series(1, 64)"
)
"""What needs new pages on PostgreSQL's disk. Other statements find room in their tables for a while."""
_PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""For libpq, unless the URL says otherwise: a server that vanished without a word is given up after half a minute."""

_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}


def database_url(url: str) -> URL:
    """Read a database URL as platforms write it, and name the driver; query parameters such as `sslmode` are kept.

    Raises ValueError with a sentence for the operator, which never repeats the URL: it may hold a password.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ValueError("The database URL cannot be read; write sqlite:///imq.db or postgresql://…") from error
    if parsed.drivername not in _DRIVERS:
        raise ValueError(
            f"The database URL starts with {parsed.drivername}://; IMQ knows sqlite:///FILE and postgresql://…"
        )
    if parsed.get_backend_name() == "sqlite" and (not parsed.database or parsed.database == ":memory:"):
        raise ValueError("The database URL names no file; a queue kept in memory would be lost: write sqlite:///imq.db")
    return parsed.set(drivername=_DRIVERS[parsed.drivername])


class DatabaseInstant(TypeDecorator[datetime]):
    """An instant: timezone-aware in UTC on both databases, to the microsecond. A naive datetime is refused.

    SQLite stores text, in the form of SQLAlchemy's own type for it. Most statements have several instants, so the
    standard library converts them here, in a step that takes a third of what SQLAlchemy's takes.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Aware in, as UTC."""
        return None if value is None else _utc(value)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """UTC out; PostgreSQL answers in the zone of the session."""
        return None if value is None else value.astimezone(UTC)

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any] | None:
        """To text for SQLite: it must be the same zone always to compare."""
        return _text_of if dialect.name == "sqlite" else super().bind_processor(dialect)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        """From SQLite's text."""
        return _instant_of if dialect.name == "sqlite" else super().result_processor(dialect, coltype)


def _utc(value: datetime) -> datetime:
    if value.utcoffset() is None:
        raise ValueError("a naive datetime is no instant")
    return value.astimezone(UTC)


def _text_of(value: datetime | None) -> str | None:
    if value is None:
        return None
    # Nearly all are in UTC already.
    return (value if value.tzinfo is UTC else _utc(value)).isoformat(" ", "microseconds").removesuffix(_ZONE)


def _instant_of(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text + _ZONE)


class _Compiled(dict[Any, Any]):
    """The compiled statements of an engine, in place of SQLAlchemy's own cache: it finds a constant by its identity.

    The key of a statement is a tuple of all its parts, and Python computes the hash of a tuple at each look-up, which
    takes longer than many statements run. A constant has the same tuple each time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._by_identity: dict[Any, Any] = {}

    def get(self, key: Any, default: Any = None) -> Any:
        """What was compiled for this key, by SQLAlchemy's order of its parts."""
        _, statement, columns, _, is_many = key
        found = self._by_identity.get((id(statement), columns, is_many))
        return super().get(key, default) if found is None else found

    def __setitem__(self, key: Any, compiled: Any) -> None:
        """Keep what was compiled; forget all of it where statements were built for one call each."""
        if len(self) >= _COMPILED_STATEMENTS:
            self.clear()
            self._by_identity.clear()
        super().__setitem__(key, compiled)
        _, statement, columns, _, is_many = key
        # The key itself keeps the tuple, so that no other one gets its identity.
        self._by_identity[id(statement), columns, is_many] = compiled


class Database:
    """The connections to one database. Used in one event loop; `close` when done."""

    def __init__(self, url: str, *, pool_size: int = 5, busy: timedelta = timedelta(seconds=10)) -> None:
        """Connects at first use. `pool_size` bounds PostgreSQL's connections, and SQLite's reading ones.

        `busy` is how long SQLite waits for another process that has the file locked. What the surroundings do to the
        database is raised as the drivers raise it; `queue_engine.core.database.outage` classifies it.

        Raises ValueError as `database_url` does.
        """
        self.url = database_url(url)
        self.dialect = self.url.get_backend_name()
        self._was_full = False
        # The connection that was used last is used next: each has a cache of pages and of prepared statements.
        pool: dict[str, Any] = {"pool_size": pool_size, "max_overflow": 0, "pool_use_lifo": True}
        pool["pool_timeout"] = _POOL_SECONDS
        if self.dialect == "sqlite":
            self._gate: asyncio.Lock | None = asyncio.Lock()
            self._writer = _sqlite_engine(
                self.url, "BEGIN IMMEDIATE", busy, query_only=False, pool=pool | {"pool_size": 1}
            )
            self._reader = _sqlite_engine(self.url, "BEGIN", busy, query_only=True, pool=pool)
            self._checkpoints: Checkpoints | None = Checkpoints(self._reader)
        else:
            self._gate = self._checkpoints = None
            self._writer = create_engine(self.url, connect_args=_patience(self.url), **pool)
            _replace_dead_connections(self._writer)
            self._reader = self._writer.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @property
    def connect_args(self) -> dict[str, Any]:
        """What psycopg's `connect` needs for a connection beside the pool's, with all that the URL says."""
        _, given = self._writer.dialect.create_connect_args(self.url)
        return {**_patience(self.url), **given}

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection]:
        """A connection that may write: commits at the end, rolls back on any exception.

        Do not open a second one inside: on SQLite it would wait for the first (and raise after 30 seconds).
        """
        try:
            async with self._exclusive(), self._writer.begin() as connection:
                yield connection
        except DBAPIError as error:
            self._was_full = self._was_full or fault_of(error) is OutageKind.FULL
            raise
        if self._checkpoints is not None:
            self._checkpoints.committed()

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        """A connection that cannot write and sees one instant of the database, however many statements it runs."""
        async with self._reader.connect() as connection:
            yield connection

    async def ping(self) -> None:
        """See that the database can be written. Raises what the driver raises, or ReadOnly."""
        async with self.transaction() as connection:
            if self.dialect == "sqlite":
                # A page is written, to the same effect: nothing less tells a full disk from one with room.
                await connection.exec_driver_sql(f"PRAGMA user_version={_USER_VERSION}")
            elif (await connection.execute(text("SHOW transaction_read_only"))).scalar_one() == "on":
                raise ReadOnly("the database is a standby, or was set read-only")
            elif self._was_full:
                # Not each time: it leaves dead rows in the catalog. A role without the right to do it learns nothing.
                with suppress(ProgrammingError):
                    await connection.execute(_TAKES_ROOM)
        self._was_full = False

    async def close(self) -> None:
        """Close every connection."""
        if self._checkpoints is not None:
            await self._checkpoints.close()
        await self._writer.dispose()
        await self._reader.dispose()

    @asynccontextmanager
    async def _exclusive(self) -> AsyncGenerator[None]:
        """Serve callers of SQLite's one writer in order; a connection pool lets later callers overtake."""
        if self._gate is None:
            yield
            return
        try:
            async with asyncio.timeout(_POOL_SECONDS):
                await self._gate.acquire()
        except TimeoutError:
            raise Busy("the database's one writer was not free in time") from None
        try:
            yield
        finally:
            self._gate.release()


Insert: TypeAlias = "postgresql.Insert | sqlite.Insert"
"""An INSERT that has `on_conflict_do_nothing` and `on_conflict_do_update`; both databases spell them alike."""


def insert_into(connection: AsyncConnection, table: Table) -> Insert:
    """An INSERT for the database of this connection."""
    return _insert(connection.dialect.name, table)


class TableStore:
    """Statements in the transaction of one connection: the base of what reads and writes tables."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection


class Upsert:
    """An INSERT that handles conflicts: built once for each database, at its first use.

    `conflict` says what is to happen then. Values come beside the statement, as parameters of `execute`.
    """

    def __init__(self, table: TableClause, conflict: Callable[[Insert], Executable]) -> None:
        self._on = cache(lambda dialect: conflict(_insert(dialect, table)))

    def on(self, connection: AsyncConnection) -> Executable:
        """The statement for the database of this connection."""
        return self._on(connection.dialect.name)


def replacing(table: Table, *names: str) -> Upsert:
    """An INSERT that replaces these columns of the row with its primary key; by default all others."""
    return _merging(table, names, lambda column, given: given)


def adding(table: Table, *names: str) -> Upsert:
    """The same, which adds to these numbers of the row."""
    return _merging(table, names, lambda column, given: column + given)


def _merging(
    table: Table,
    names: Sequence[str],
    merge: Callable[[ColumnElement[Any], ColumnElement[Any]], ColumnElement[Any]],
) -> Upsert:
    key = [column.name for column in table.primary_key]
    changed = names or [name for name in table.c.keys() if name not in key]  # noqa: SIM118 - a collection, no mapping

    def conflict(insert: Insert) -> Executable:
        merged = {name: merge(table.c[name], insert.excluded[name]) for name in changed}
        return insert.on_conflict_do_update(index_elements=key, set_=merged)

    return Upsert(table, conflict)


def values_of(record: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, as its row has them."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def record_in(kind: type[T], row: Row[Any], /, **others: Any) -> T:
    """Read a dataclass from a row with columns of its fields' names; `others` are what the row has otherwise."""
    fields: Iterable[str] = cast(Any, kind).__dataclass_fields__
    values = row._mapping
    return kind(**{name: values[name] for name in fields if name not in others}, **others)


def _insert(dialect: str, table: TableClause) -> Insert:
    if dialect != "postgresql":
        return sqlite.insert(table)
    # Imported when needed: on SQLite PostgreSQL's dialect is never loaded.
    from sqlalchemy.dialects.postgresql import insert

    return insert(table)


def create_engine(url: URL, **options: Any) -> AsyncEngine:
    """An engine that finds its compiled statements fast."""
    engine = create_async_engine(url, **options)
    engine.sync_engine._compiled_cache = _Compiled()
    return engine


def _patience(url: URL) -> dict[str, str]:
    return {name: value for name, value in _PATIENCE.items() if name not in url.query}


def _replace_dead_connections(engine: AsyncEngine) -> None:
    """Replace connections of PostgreSQL's pool that the server, or a firewall, closed since their last use.

    SQLAlchemy's pre-ping asks the server before each transaction, which costs as much as a statement. A server that
    ends a connection makes its socket readable, and a firewall ends only idle ones: the server is asked in these cases.
    """
    dialect, released = engine.dialect, "released"

    @event.listens_for(engine.sync_engine, "checkin")
    def on_checkin(dbapi_connection: Any, record: ConnectionPoolEntry) -> None:
        record.info[released] = monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def on_checkout(dbapi_connection: Any, record: ConnectionPoolEntry, proxy: PoolProxiedConnection) -> None:
        if released not in record.info:  # It is new.
            return
        if monotonic() - record.info[released] < _IDLE_SECONDS and not _is_readable(record.driver_connection):
            return
        if not dialect._do_ping_w_event(dbapi_connection):
            raise InvalidatePoolError


def _is_readable(connection: Any) -> bool:
    """Whether the server has sent something to an idle connection of psycopg, or either side has closed it."""
    if connection.closed:
        return True
    ready = select.poll()
    ready.register(connection.fileno(), select.POLLIN)
    return bool(ready.poll(0))


def _sqlite_engine(url: URL, begin: str, busy: timedelta, *, query_only: bool, pool: dict[str, Any]) -> AsyncEngine:
    def connect() -> FileTransaction:
        (file,), arguments = engine.dialect.create_connect_args(url)
        patience = {"timeout": busy.total_seconds(), "cached_statements": _CACHED_STATEMENTS}
        connection = await_(_connect_privately(file, **arguments, **patience))
        return FileTransaction(engine.dialect.loaded_dbapi, connection, begin)

    engine = create_engine(url, creator=connect, **pool)

    # SQLAlchemy's documented recipe for sqlite3: keep the driver from beginning transactions, and begin them ourselves.
    @event.listens_for(engine.sync_engine, "connect")
    def on_connect(dbapi_connection: Any, record: ConnectionPoolEntry) -> None:
        dbapi_connection.isolation_level = None
        try:
            dbapi_connection.run_async(_use_wal)
            cursor = dbapi_connection.cursor()
            own = (f"query_only={int(query_only)}", f"wal_autocheckpoint={_LOG_PAGES}")
            for pragma in ("synchronous=NORMAL", "foreign_keys=ON", *own):
                cursor.execute(f"PRAGMA {pragma}")
            cursor.close()
        except Exception:
            # Nobody else knows of this connection yet, and it has a thread that would go on.
            dbapi_connection.run_async(aiosqlite.Connection.close)
            raise

    # The recipe's listener for "begin" would have SQLAlchemy look for listeners at each step of each statement.
    engine.dialect.do_begin = _begin  # type: ignore[assignment]  # it is called with the connection alone
    return engine


def _begin(connection: PoolProxiedConnection) -> None:
    cast(FileTransaction, connection.dbapi_connection).begins = True


def _connect_privately(file: str, **arguments: Any) -> aiosqlite.Connection:
    """Connect to a file that is its owner's alone; before that, for who has opened a file may go on reading it."""
    keep_private(file)
    connection = aiosqlite.connect(file, **arguments)
    # As SQLAlchemy does: a connection that nobody closed must not keep the process from ending.
    connection._thread.daemon = True
    return connection


async def _use_wal(connection: aiosqlite.Connection) -> None:
    """Switch the file to WAL. Two that do so at once refuse each other without regard to the busy timeout.

    A transaction does regard it: the refused one waits by an empty transaction until the other is done.
    """
    for left in reversed(range(_WAL_TRIES)):
        try:
            await connection.execute("PRAGMA journal_mode=WAL")
        except aiosqlite.OperationalError as error:
            if "locked" not in str(error) or not left:
                raise
            await connection.execute("BEGIN EXCLUSIVE")
            await connection.rollback()
        else:
            return


_CHECKPOINT_EVERY = 64
"""So many commits later the log is carried over: a few hundred pages, a few megabytes at most."""

_LOG_PAGES = 4_000
"""The log's bound, some 16 MB of 4 KiB pages: from there a commit carries it over after all. By then most of it has
been, and what is left is little."""


class Checkpoints:
    """Counts commits and begins a checkpoint of SQLite's log now and then, beside the writer; one at a time.

    SQLite does that by itself at the end of some transaction, and flushes the disk twice for it: that commit then waits
    for as long as the disk takes, which on a shared one is now and then most of a second. A passive checkpoint on a
    connection of its own blocks no other one. Where readers and writers leave it no gap, SQLite's own still bounds the
    log.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        """`engine` gives the connection; one that only reads will do: carrying over changes no data."""
        self._engine = engine
        self._commits = 0
        self._task: asyncio.Task[None] | None = None

    def committed(self) -> None:
        """A transaction was committed."""
        self._commits += 1
        if self._commits >= _CHECKPOINT_EVERY and (self._task is None or self._task.done()):
            self._commits = 0
            self._task = asyncio.create_task(self._checkpoint())

    async def close(self) -> None:
        """Wait for the one that is under way."""
        if self._task is not None:
            await self._task

    async def _checkpoint(self) -> None:
        try:
            async with self._engine.connect() as connection:
                # Not by `execute`, which would begin a transaction; within one no checkpoint is possible.
                raw = await connection.get_raw_connection()
                assert raw.driver_connection is not None
                await raw.driver_connection.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")
        except Exception as error:
            # Nothing depends on it, and the next write reports a fault of the disk.
            _log.debug("checkpoint_failed", exc_info=error)


_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OWN_MODE = stat.S_IRUSR | stat.S_IWUSR
_COMPANIONS = ("-wal", "-shm", "-journal")


def keep_private(database: str) -> None:
    """Create the file with mode 0600 if it is missing, and remove others' permissions on it and its companions.

    SQLite gives new companions the mode of the file (sqlite3's `findCreateFileMode`). A file that cannot be created
    is left to SQLite, which says why.
    """
    # It may be there already; or SQLite cannot create it either.
    with suppress(OSError):
        os.close(os.open(database, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWN_MODE))
    for path in (Path(database + ending) for ending in ("", *_COMPANIONS)):
        _restrict(path)


def _restrict(path: Path) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS)
    except FileNotFoundError:
        return
    except OSError as error:
        _log.warning("database_readable_by_others", file=str(path), error=error.strerror)


_Outcome: TypeAlias = tuple[Any, int, int | None, list[Any]]
"""The description of a result, its row count, the last inserted row, and all rows."""


def _runs(method: Callable[..., sqlite3.Cursor]) -> Callable[..., None]:
    def run(self: "_Cursor", sql: str, parameters: Any = ()) -> None:
        connection = self._connection
        outcome = connection.order(partial(connection.outcome, method, sql, parameters))
        self.description, self.rowcount, self.lastrowid, self._rows = outcome

    return run


class _Cursor:
    """Runs a statement, or one for each of several parameters, and keeps its rows."""

    server_side = False
    execute, executemany = _runs(sqlite3.Connection.execute), _runs(sqlite3.Connection.executemany)

    def __init__(self, connection: "FileTransaction") -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    def fetchone(self) -> Any:
        """Take the next row; None after the last."""
        return self._rows.pop(0) if self._rows else None

    def fetchmany(self, size: int = 1) -> list[Any]:
        """Take the next rows."""
        taken, self._rows = self._rows[:size], self._rows[size:]
        return taken

    def fetchall(self) -> list[Any]:
        """Take all rows that are left."""
        rows, self._rows = self._rows, []
        return rows

    def close(self) -> None:
        """Drop the rows that are left."""
        self._rows = []

    async def _async_soft_close(self) -> None:
        """SQLAlchemy awaits this; the driver's cursor was closed when it had run."""


class FileTransaction(AsyncAdapt_aiosqlite_connection):
    """A connection to SQLite that begins its transaction with the first statement, and reads each result whole.

    aiosqlite runs the statements of each connection in a thread of its own. Each order to it costs several times what
    a statement does, since two threads and the event loop wake for it; SQLAlchemy's own connection gives five. Here
    one order begins the transaction if need be, runs the statement and reads all of its rows.
    """

    __slots__ = ("_opening", "begins")
    _cursor_cls = _Cursor  # type: ignore[assignment]  # it has what SQLAlchemy calls

    def __init__(self, dbapi: Any, connection: aiosqlite.Connection, opening: str) -> None:
        """`opening` is the statement that begins each transaction."""
        super().__init__(dbapi, connection)  # type: ignore[arg-type]  # typed for a protocol of cursors
        self._opening = opening
        self.begins = False
        """Whether the next statement is the first of a transaction, and begins it."""

    def order(self, work: Callable[[], Any]) -> Any:
        """Have the thread do this, and return what it returns."""
        try:
            return await_(self._connection._execute(work))
        except Exception as error:
            self._handle_exception(error)

    def outcome(self, method: Callable[..., sqlite3.Cursor], sql: str, parameters: Any) -> _Outcome:
        """Run a statement and read its result; in the thread."""
        connection = self._connection._conn
        if self.begins:
            connection.execute(self._opening)
            self.begins = False
        cursor = method(connection, sql, parameters)
        rows = cursor.fetchall() if cursor.description else []
        cursor.close()
        return cursor.description, cursor.rowcount, cursor.lastrowid, rows

    def commit(self) -> None:
        """Commit, if a statement has run."""
        if not self._is_unused():
            self.order(lambda: self._connection._conn.commit())

    def rollback(self) -> None:
        """Roll back, if a statement has run. Only the next transaction of this connection waits for that."""
        if not self._is_unused():
            self._connection._tx.put_nowait((None, self._connection._conn.rollback))

    def _is_unused(self) -> bool:
        """Whether nothing has run in this transaction, or the connection was closed."""
        unused, self.begins = self.begins, False
        return unused or not self._connection._connection
