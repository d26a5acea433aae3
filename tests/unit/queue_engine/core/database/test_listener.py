"""LISTEN and NOTIFY on a real PostgreSQL: which commits wake which process, and a lost connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.testing import capture_logs

from queue_engine.core.database import listener
from queue_engine.core.database.database import Database
from queue_engine.core.database.listener import DatabaseListener, DatabaseNotifier
from tests.support.databases import MakeUrl
from tests.support.real_time import LIMIT

pytestmark = [pytest.mark.process, pytest.mark.postgres]


class Impatient:
    """A clock on which waits take no time worth mentioning."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, duration: timedelta) -> None:
        await asyncio.sleep(0.001 if duration else 0)  # no-sleep-ok: a real server comes back in real time


class RecordedWakeup:
    """The notifications of one process, in order."""

    def __init__(self) -> None:
        self._received: asyncio.Queue[tuple[str | None, bool]] = asyncio.Queue()
        self.lost = 0

    def receive(self, topic: str | None, /, *, by_other: bool) -> None:
        self._received.put_nowait((topic, by_other))

    def lose(self) -> None:
        self.lost += 1

    async def next(self) -> str | None:
        return (await self.next_with_its_process())[0]

    async def next_with_its_process(self) -> tuple[str | None, bool]:
        async with asyncio.timeout(LIMIT):
            return await self._received.get()

    async def is_for_another(self, topic: str) -> bool:
        """Whether another process does the work of the next notification of this topic."""
        while (found := await self.next_with_its_process())[0] != topic:
            pass
        return found[1]


@asynccontextmanager
async def listening(
    url: str, notifier: DatabaseNotifier | None = None
) -> AsyncIterator[tuple[DatabaseListener, RecordedWakeup]]:
    """A process that listens; it has only been woken because it may have missed something before."""
    database, wakeup = Database(url), RecordedWakeup()
    listener = DatabaseListener(
        database,
        notifier or DatabaseNotifier(),
        wakeup.receive,
        clock=Impatient(),
        random=lambda: 0.5,
        lost=wakeup.lose,
    )
    task = asyncio.create_task(listener.run())
    try:
        assert await wakeup.next() is None
        yield listener, wakeup
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await database.close()


async def notify(url: str, *topics: str, notifier: DatabaseNotifier | None = None) -> None:
    """Another process commits a transaction that concerns these topics."""
    database = Database(url)
    async with database.transaction() as connection:
        await (notifier or DatabaseNotifier()).send(connection, topics)
    await database.close()


@pytest.mark.parametrize("more", ["", "&sslmode=disable&connect_timeout=5&keepalives_idle=7"])
async def test_listener_receives_each_topic_of_another_processs_commit(make_postgres_url: MakeUrl, more: str) -> None:
    """However the database's URL is written."""
    url = make_postgres_url() + more
    async with listening(url) as (listener, wakeup):
        assert listener.connected
        await notify(url, "letters", "jobs")
        assert [await wakeup.next(), await wakeup.next()] == ["jobs", "letters"]


async def test_listener_receives_nothing_of_a_transaction_that_was_rolled_back(make_postgres_url: MakeUrl) -> None:
    """A notification is part of its transaction: a rollback wakes no process."""
    url = make_postgres_url()
    database = Database(url)
    async with listening(url) as (_, wakeup):
        with pytest.raises(ZeroDivisionError):
            await notify_and_fail(database)
        await notify(url, "happened")
        assert await wakeup.next() == "happened"
    await database.close()


async def notify_and_fail(database: Database) -> None:
    async with database.transaction() as connection:
        await DatabaseNotifier().send(connection, ["did-not-happen"])
        raise ZeroDivisionError


async def test_listener_ignores_its_own_process(make_postgres_url: MakeUrl) -> None:
    """One's own wakeup has rung already."""
    url, own = make_postgres_url(), DatabaseNotifier()
    async with listening(url, own) as (_, wakeup):
        await notify(url, "own", notifier=own)
        await notify(url, "others")
        assert await wakeup.next() == "others"


async def test_listener_that_lost_its_connection_wakes_every_loop_and_receives_again(
    make_postgres_url: MakeUrl,
) -> None:
    """Notifications in between are lost.

    When the loss is noticed, and when notifications arrive again, every loop checks its work.
    """
    url = make_postgres_url()
    database = Database(url)
    with capture_logs() as logs:
        async with listening(url) as (listener, wakeup):
            await end_listeners(database)
            assert (await wakeup.next(), listener.connected, wakeup.lost) == (None, False, 1)
            assert (await wakeup.next(), listener.connected) == (None, True)
            await notify(url, "after")
            assert (await wakeup.next(), wakeup.lost) == ("after", 1)
    assert "listener_lost" in {line["event"] for line in logs}
    await database.close()


async def test_first_worker_does_at_once_what_a_web_stored_until_it_ends(
    make_postgres_url: MakeUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several workers one does the work of a commit; when it is gone, another one takes its place."""
    monkeypatch.setattr(listener, "_FIRST_SECONDS", 0.01)
    url = make_postgres_url()

    async def become_first(wakeup: RecordedWakeup) -> None:
        async with asyncio.timeout(LIMIT):
            await notify(url, "early")
            while await wakeup.is_for_another("early"):
                await notify(url, "early")

    async with AsyncExitStack() as later:
        async with listening(url, notifier_of_worker()) as (_, first):
            await become_first(first)
            _, second = await later.enter_async_context(listening(url, notifier_of_worker()))
            await notify(url, "web")
            await notify(url, "worker", notifier=notifier_of_worker())
            assert [await first.is_for_another(topic) for topic in ("web", "worker")] == [False, True]
            assert [await second.is_for_another(topic) for topic in ("web", "worker")] == [True, True]
        await become_first(second)


def notifier_of_worker() -> DatabaseNotifier:
    """The notifier of a process that does the work that it announces."""
    notifier = DatabaseNotifier()
    notifier.works = True
    return notifier


async def end_listeners(database: Database) -> None:
    """The server ends every session that listens."""
    mine = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = {}"
    async with database.transaction() as connection:
        await connection.execute(text(mine.format("current_database()")))


async def test_listener_whose_notes_do_not_arrive_is_not_connected(
    make_postgres_url: MakeUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a pooler that shares sessions LISTEN succeeds and nothing comes: work must still be looked for often."""

    class LostNotes(DatabaseNotifier):
        async def send(self, connection: AsyncConnection, topics: object) -> None:
            """The pooler listens on a connection that is not ours."""

    monkeypatch.setattr(listener, "_PROOF_SECONDS", 0.01)
    database, wakeup = Database(make_postgres_url()), RecordedWakeup()
    listening = DatabaseListener(database, LostNotes(), wakeup.receive, clock=Impatient(), random=lambda: 0.5)
    with capture_logs() as logs:
        task = asyncio.create_task(listening.run())
        async with asyncio.timeout(LIMIT):
            while "notes_do_not_arrive" not in {line["event"] for line in logs}:  # noqa: ASYNC110 - a log is no event
                await asyncio.sleep(0.01)  # no-sleep-ok: a real server answers in real time
    assert not listening.connected
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await database.close()


async def test_notifying_on_sqlite_does_nothing(sqlite_database: Database) -> None:
    """There is one process, and its own wakeup has woken it."""
    async with sqlite_database.transaction() as connection:
        await DatabaseNotifier().send(connection, ["jobs"])
