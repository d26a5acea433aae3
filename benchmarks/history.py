"""What pages take while the timeline has a million rows and one pull request thousands: also of a past moment."""

import resource
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from sqlalchemy import text

from benchmarks.idle import bot_with_queues
from benchmarks.pages_database import store_departures, store_events
from benchmarks.sizes import Size, database_urls
from benchmarks.table import Row, timed
from bot.api.access import Access
from bot.process.pages import PAGES
from bot.process.wiring import Bot
from bot.web.login.sessions import ANONYMOUS, Viewer
from bot.web.pages.site import Site, add_pages
from queue_engine.domain.departure import Departure
from queue_engine.domain.model import EntryStatus, TimelineEvent
from queue_engine.domain.reasons import Reason
from queue_engine.store.tokens import TokenPolicy

_GOAL_SECONDS = 0.1
_MOST_GROWTH = 10.0
"""Megabytes by which two hundred pages may raise the memory of the process."""
_QUEUES = 20
_BATCH = 5_000
_T = TypeVar("_T")
_LIFE = ("queued", "updating", "checking", "ready", "landed")

_MEASURED = {
    "overview": "/",
    "queue": "/repositories/acme/r0/branches/main",
    "pull request": "/repositories/acme/r0/pulls/1",
    "pull request, older": "/repositories/acme/r0/pulls/1?before=4000",
    "pull request, past": "/repositories/acme/r0/pulls/1?at=2026-01-03T00:00",
}


async def history_rows(size: Size, seed: int) -> list[Row]:
    """Each page on each database."""
    depth, events, of_one, times = size.of((20, 1_000_000, 5_000, 20), (20, 20_000, 5_000, 3), (1, 100, 50, 1))
    rows = []
    with tempfile.TemporaryDirectory() as name, database_urls(size, Path(name)) as urls:
        for url in urls:
            rows += await _rows_on(url, Path(name), depth, events, of_one, times)
    return rows


async def _rows_on(url: str, directory: Path, depth: int, events: int, of_one: int, times: int) -> list[Row]:
    kind = url.partition(":")[0]
    async with bot_with_queues(url, directory / f"history-{kind}", _QUEUES, depth) as (bot, _):
        await _fill(bot, events, of_one)
        async with TestClient(TestServer(_site(bot))) as client:
            taken = {name: await _measure(client, path, times) for name, path in _MEASURED.items()}
            before = _megabytes()
            for path in _MEASURED.values():
                await _measure(client, path, times * 2)
            grown = _megabytes() - before
    slowest = max(taken, key=lambda name: median(taken[name]))
    measured = "; ".join(f"{name} {timed(seconds)}" for name, seconds in taken.items())
    return [
        Row(
            name=f"history {kind}",
            what=f"pages of {_QUEUES} queues over {events:,} events in the timeline, {kind}",
            measured=f"{measured}; memory grew by {grown:.0f} MB",
            value=median(taken[slowest]),
            goal=f"< {_GOAL_SECONDS:.1f} s each, < {_MOST_GROWTH:.0f} MB",
            met=median(taken[slowest]) < _GOAL_SECONDS and grown < _MOST_GROWTH,
            note=f"one reader, answers of one process; the pull request has {of_one:,} events; the highest use of "
            "memory, with that of the client in the same process",
        )
    ]


def _site(bot: Bot) -> web.Application:
    operator = Viewer(replace(ANONYMOUS.token, grant=TokenPolicy(operator=True)))

    async def identify(_request: web.Request) -> Viewer:
        return operator

    app = web.Application()
    engine = bot.engine
    access = Access(engine, bot.gateway.people)
    site = Site(engine, access, github="https://github.com", identify=identify, public_pages=True)
    add_pages(app, site, [create(site) for create in PAGES])
    return app


async def _measure(client: TestClient[web.Request, web.Application], path: str, times: int) -> list[float]:
    taken = []
    for _ in range(times + 1):
        start = time.perf_counter()
        async with client.get(path, headers={"Accept": "text/html"}) as response:
            page = await response.text()
            assert response.status == 200, page
        taken.append(time.perf_counter() - start)
    return taken[1:]


async def _fill(bot: Bot, events: int, of_one: int) -> None:
    """Store the lives of many pull requests, in all queues evenly, the newest of this minute.

    `of_one` of the events are those of the pull request whose page is measured.
    """
    now = bot.clock.now()
    async with bot.database.transaction() as connection:
        for part in _batches(_events(now, events, of_one)):
            await store_events(connection, part)
        for batch in _batches(_departures(now, events // len(_LIFE))):
            await store_departures(connection, batch)
    async with bot.database.transaction() as connection:
        await connection.execute(text("ANALYZE"))


def _batches(these: Iterable[_T]) -> Iterator[list[_T]]:
    left = iter(these)
    while batch := list(islice(left, _BATCH)):
        yield batch


def _events(now: datetime, events: int, of_one: int) -> Iterator[TimelineEvent]:
    for index in range(of_one):
        # The pull request whose page is measured joined and left its queue many times.
        yield _event(now - timedelta(days=60), 0, 1, _LIFE[index % len(_LIFE)], index)
    for index in range(events - of_one):
        life, step = divmod(index, len(_LIFE))
        at = now - timedelta(seconds=(events - index) * 2)
        yield _event(at, life % _QUEUES, 100 + life, _LIFE[step], index)


def _event(at: datetime, queue: int, number: int, event: str, index: int) -> TimelineEvent:
    seconds = {f"ci/{name}": 60.0 + index % 60 for name in range(8)}
    data: dict[str, Any] = {"head": f"{number:040x}"}
    if event == "ready":
        data |= {"tested": f"{number:040x}", "check_seconds": seconds, "checks": 100.0}
    if event == "landed":
        data |= {"queue": 600.0, "front": 120.0, "checks": 100.0, "sha": f"{number:040x}"}
    return TimelineEvent(at, event, 10_000 + queue, "main", number, f"{number:032x}", data=data)


def _departures(now: datetime, count: int) -> Iterator[Departure]:
    for life in range(count):
        left = now - timedelta(seconds=(count - life) * 2 * len(_LIFE))
        yield Departure(
            id=(life + 1) * len(_LIFE),
            entry_id=f"{100 + life:032x}",
            repository_id=10_000 + life % _QUEUES,
            base_branch="main",
            number=100 + life,
            title=f"Change {life}",
            author="mona",
            enqueued_at=left - timedelta(minutes=10),
            left_at=left,
            outcome=EntryStatus.LANDED if life % 20 else EntryStatus.FAILED,
            reason=None if life % 20 else Reason.CHECKS_FAILED,
            waited=600.0,
            capacity=300.0,
            checks=100.0,
            paused=0.0,
            base_red=0.0,
            other=200.0,
            ci_seconds=800.0,
            reruns=0,
            flaky=(),
        )


def _megabytes() -> float:
    """Return the highest use of memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
