"""The watch polls pending requests as the monitor of the core does, and passes on each change."""

from datetime import timedelta
from typing import cast

import pytest

from bot.web.live.request_watch import RequestWatch
from github_emulator import ManualClock
from queue_engine.core.database.database import Database
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.model import Repository, TimelineEvent
from queue_engine.queries.requests import RequestState, load_request
from queue_engine.store import Store
from queue_engine.store.requests import RequestKind, RequestRecord

REPOSITORY = Repository(7, "acme", "rocket", 70)
SECOND = timedelta(seconds=1)


async def test_watch_passes_a_change_on_and_stops_with_the_last_reader(sqlite_database: Database) -> None:
    """Polls come ever less often; an event of the pull request has it polled at once; a finished one is not polled."""
    clock, sqlite_store = ManualClock(), Store(sqlite_database)
    watch = RequestWatch(sqlite_store, cast(Clock, clock), lambda: 0.5)
    async with sqlite_store.transaction() as tx:
        job = await tx.jobs.enqueue(kind="k", request={}, process_id="p", now=clock.now())
        asked = RequestRecord(job, REPOSITORY, 5, RequestKind.LABEL, "merge-queue", "mona", clock.now())
        await tx.requests.add([asked])
    async with sqlite_store.reading() as tx:
        request = await load_request(tx, job, clock.now())
    assert request is not None
    with watch.open([request]) as changes:
        waits = []
        for _ in range(4):
            before = clock.now()
            due = await watch.next_due()
            assert due is not None
            clock.set(max(due, before))
            waits.append((clock.now() - before) / SECOND)
            assert await watch.run_due()
        assert waits == [0, 1, 1.2, 1.44]
        assert changes._events.empty()
        async with sqlite_store.transaction() as tx:
            await tx.jobs.delete([job])
        watch.happened(TimelineEvent(clock.now(), "queued", REPOSITORY.id, "main", 6))
        assert not await watch.run_due()
        watch.happened(TimelineEvent(clock.now(), "queued", REPOSITORY.id, "main", 5))
        assert await watch.run_due()
        assert (await anext(changes)).state is RequestState.DONE
        assert await watch.next_due() is None
        assert watch.watched == 1
    assert watch.watched == 0
    await watch.close()


async def test_watch_has_a_limit_of_requests_beyond_which_pages_poll(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many pages cannot have IMQ poll its database for ever more requests; a known one costs nothing more."""
    monkeypatch.setattr("bot.web.live.request_watch.MAX_WATCHED", 1)
    clock, sqlite_store = ManualClock(), Store(sqlite_database)
    watch = RequestWatch(sqlite_store, cast(Clock, clock), lambda: 0.5)
    async with sqlite_store.transaction() as tx:
        jobs = [await tx.jobs.enqueue(kind="k", request={}, process_id=each, now=clock.now()) for each in "pq"]
        asked = RequestKind.LABEL, "merge-queue", "mona", clock.now()
        await tx.requests.add([RequestRecord(each, REPOSITORY, 5, *asked) for each in jobs])
        found = [each for each in [await load_request(tx, job, clock.now()) for job in jobs] if each is not None]
    with watch.open(found), watch.open(found[:1]):
        assert watch.watched == 1
    assert watch.watched == 0
    await watch.close()
