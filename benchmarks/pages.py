"""How long the server takes for each page, with the timeline of a busy year."""

import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, cast

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from benchmarks.idle import postgres_url
from benchmarks.pages_database import BusyYear, fill
from benchmarks.table import Row, seconds_text, timed
from bot.api.access import Access
from bot.process.pages import PAGES
from bot.web.login.viewer import ANONYMOUS, Viewer
from bot.web.pages.site import Site, add_pages
from queue_engine.core.database.database import Database
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.facts import Actor, Permission
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Policy
from queue_engine.effects.context import Engine
from queue_engine.migrations import migrate
from queue_engine.store import Store
from queue_engine.store.operations.tokens import TokenPolicy
from tests.support.policies import StaticPolicies

_GOAL = 0.1
_RUNS = 20
_QUEUE = "/repositories/acme/service-0/branches/main"
_PAGES = {
    "overview": "/",
    "queue": _QUEUE,
    "pull request": "/repositories/acme/service-0/pulls/{number}",
    "statistics": "/statistics",
    "statistics of a queue": f"{_QUEUE}/statistics",
    "statistics, a year": "/statistics?days=365",
    "statistics of a queue, a year": f"{_QUEUE}/statistics?days=365",
    "pull requests of a bar": "/statistics/pulls?outcome=landed",
}


class _Administrators:
    """Everybody is an administrator, as GitHub says at once."""

    async def collaborator(self, repository: Repository, login: str) -> tuple[Actor | None, Permission]:
        return Actor(7, login), Permission.ADMIN

    async def by_id(self, installation_id: int, person_id: int) -> Actor | None:
        return Actor(person_id, "mona")


async def pages_rows(*, quick: bool, seed: int) -> list[Row]:
    """Time each page on each database, with 100,000 departures and a million events."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name, postgres_url(Path(name)) as postgres:
        for url in (f"sqlite:///{Path(name) / 'imq.db'}", postgres):
            if url is not None:
                rows += await _rows(url, BusyYear(SystemClock().now(), 1_000 if quick else 100_000, seed=seed))
    return rows


async def _rows(url: str, year: BusyYear) -> list[Row]:
    database = Database(url)
    await migrate(database)
    await fill(Store(database), year)
    async with _browser(database) as client:
        rows = [await _row(client, name, path, database.dialect, year) for name, path in _PAGES.items()]
    await database.close()
    return rows


async def _row(
    client: TestClient[web.Request, web.Application], name: str, path: str, dialect: str, year: BusyYear
) -> Row:
    """Time a page, after a first time that loads libraries and templates."""
    taken, cpu = [], []
    for _ in range(_RUNS + 1):
        start, cpu_start = time.perf_counter(), time.process_time()
        async with client.get(path.format(number=year.pulls), allow_redirects=False) as response:
            await response.read()
            if response.status != 200:
                raise RuntimeError(f"{path} answered {response.status}")
        taken.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
    value = median(taken[1:])
    return Row(
        name=f"page {name}, {dialect}",
        what=f"{name}: at the server, {year.pulls} departures, {dialect}",
        measured=f"{timed(taken[1:])}, CPU of the process {seconds_text(median(cpu[1:]))}",
        value=value,
        goal=f"< {_GOAL:g} s",
        met=value < _GOAL,
    )


@asynccontextmanager
async def _browser(database: Database) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """Open the pages as an operator, who sees all queues."""
    policies = StaticPolicies(Policy())
    engine = Engine(Store(database), cast(Any, None), SystemClock(), policies, lambda: 0.5, "bench")
    operator = TokenPolicy(login="mona", person_id=7, operator=True)
    who = Viewer(replace(ANONYMOUS.token, grant=operator), csrf="bench")

    async def identify(_request: web.Request) -> Viewer:
        return who

    site = Site(engine, Access(engine, _Administrators()), github="https://github.com", identify=identify)
    app = web.Application()
    add_pages(app, site, [create(site) for create in PAGES])
    async with TestClient(TestServer(app)) as client:
        yield client
