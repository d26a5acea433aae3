"""How long the server takes for each page, with the timeline of a busy year."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, cast

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pydantic import SecretStr

from benchmarks.pages_database import BusyYear, fill
from benchmarks.sizes import Size, database_urls
from benchmarks.table import Row, seconds_text, timed
from bot.api.permissions import Access
from bot.process.pages import PAGES
from bot.web.live.request_watch import RequestIds
from bot.web.login.session_cookies import ANONYMOUS, Viewer
from bot.web.pages.request_pages import RequestPages
from bot.web.pages.site import Site, add_pages
from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.facts import Actor, Permission
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
from queue_engine.migrations import migrate
from queue_engine.store import Store
from queue_engine.store.tokens import TokenPolicy
from tests.support.policies import StaticPolicies

_GOAL = 0.1
_RUNS = 20
_QUEUE = "/repositories/acme/service-0/branches/main"
_PAGES = {
    "overview of 200 queues": "/",
    "queue of 500": _QUEUE,
    "pull request": "/repositories/acme/service-0/pulls/{number}",
    "statistics": "/statistics",
    "statistics of a queue": f"{_QUEUE}/statistics",
    "statistics, a year": "/statistics?days=365",
    "statistics of a queue, a year": f"{_QUEUE}/statistics?days=365",
    "statistics, a year, JSON": "/statistics.json?days=365",
    "statistics, a year, CSV": "/statistics.csv?days=365",
    "pull requests of a bar": "/statistics/pulls?outcome=landed",
    "landings that waited for checks, a year": "/statistics/pulls?outcome=landed&waited_for=checks&days=365",
    "pull requests with a flaky check, a year": "/statistics/pulls?check=ci%2Funit&days=365",
    "pull requests of a queue, a year": f"{_QUEUE}/statistics/pulls?outcome=landed&days=365",
    "requests": "/requests",
    "dead letters": "/dead-letters",
    "requests, JSON": "/requests/status",
}
_FILE = "/statistics/pulls.csv?days=365"
"""Ten thousand pull requests, sent part by part."""

_ROUNDS = 10
_MOST_GROWN = 2.0
"""Megabytes. A process that forgets each page gains none; a page of each kind has half a megabyte."""


class _Administrators:
    """Everybody is an administrator, as GitHub says at once."""

    async def collaborator(self, repository: Repository, login: str) -> tuple[Actor | None, Permission]:
        return Actor(7, login), Permission.ADMIN

    async def by_id(self, installation_id: int, person_id: int) -> Actor | None:
        return Actor(person_id, "mona")


async def pages_rows(size: Size, seed: int) -> list[Row]:
    """Time each page on each database, with 100,000 departures and a million events."""
    year = BusyYear(
        SystemClock().now(),
        size.of(100_000, 1_000, 20),
        repositories=size.of(100, 100, 3),
        longest=size.of(500, 500, 5),
        requests=size.of(20_000, 20_000, 100),
        seed=seed,
    )
    runs, rounds = size.of((_RUNS, _ROUNDS), (_RUNS, _ROUNDS), (1, 0))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name, database_urls(size, Path(name)) as urls:
        for url in urls:
            rows += await _rows(url, year, runs, rounds)
    return rows


async def _rows(url: str, year: BusyYear, runs: int, rounds: int) -> list[Row]:
    database = Database(url)
    try:
        await migrate(database)
        await fill(Store(database), year)
        async with _browser(database) as client:
            dialect = database.dialect
            rows = [await _row(client, name, path, dialect, year, runs) for name, path in _PAGES.items()]
            return [*rows, await _file_row(client, dialect), await _memory_row(client, dialect, year, rounds)]
    finally:
        await database.close()


async def _file_row(client: ClientSession, dialect: str) -> Row:
    """Time the longest file, and how long it keeps the loop from other requests."""
    longest, ended = 0.0, asyncio.Event()

    async def watch() -> None:
        nonlocal longest
        while not ended.is_set():
            before = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - before)

    watching = asyncio.create_task(watch())
    start = time.perf_counter()
    async with client.get(_FILE) as response:
        first = time.perf_counter() - start
        lines = (await response.read()).count(b"\n") - 1
    took = time.perf_counter() - start
    ended.set()
    await watching
    return Row(
        name=f"file of pull requests, {dialect}",
        what=f"file of {lines} pull requests: until it begins, {dialect}",
        measured=f"{seconds_text(first)}; at its end {seconds_text(took)}; others wait {seconds_text(longest)} at most",
        value=first,
        goal=f"< {_GOAL:g} s",
        met=first < _GOAL,
        note="the file is sent part by part; others include the client of the benchmark, in the same process",
    )


async def _memory_row(client: ClientSession, dialect: str, year: BusyYear, rounds: int) -> Row:
    """Say how much memory the process gains while every page is read again and again.

    The first round fills the caches of the database's connections, of templates and of the C library's heap.
    """

    async def read(times: int) -> float | None:
        for path in [*_PAGES.values(), _FILE] * times:
            async with client.get(path.format(number=year.pulls)) as response:
                await response.read()
        return _resident()

    before, after = await read(1), await read(rounds)
    grown = None if before is None or after is None else after - before
    return Row(
        name=f"memory of pages, {dialect}",
        what=f"memory gained by reading each page {rounds} times more, after it was warm, {dialect}",
        measured="not measured: no /proc here" if grown is None else f"{grown:.1f} MB, to {after:.0f} MB",
        value=grown,
        goal=f"< {_MOST_GROWN:.0f} MB",
        met=None if grown is None else grown < _MOST_GROWN,
        note="with the client of the benchmark",
    )


def _resident() -> float | None:
    """Return the megabytes that this process has in memory; None if that is not known."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


async def _row(client: ClientSession, name: str, path: str, dialect: str, year: BusyYear, runs: int) -> Row:
    """Time a page, after a first time that loads libraries and templates."""
    taken, cpu = [], []
    for _ in range(runs + 1):
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
async def _browser(database: Database) -> AsyncIterator[ClientSession]:
    """Open the pages as an operator, who sees all queues.

    aiohttp's `TestClient` would keep each answer until it closes, 25 kB and more, so this is a session.
    """
    policies = StaticPolicies(Policy())
    engine = Engine(Store(database), cast(Any, None), SystemClock(), policies, lambda: 0.5, "bench")
    operator = TokenPolicy(login="mona", person_id=7, operator=True)
    who = Viewer(replace(ANONYMOUS.token, grant=operator), csrf="bench")

    async def identify(_request: web.Request) -> Viewer:
        return who

    site = Site(engine, Access(engine, _Administrators()), github="https://github.com", identify=identify)
    app = web.Application()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    add_pages(app, site, [RequestPages(site, RequestIds(SecretStr(pem))), *(create(site) for create in PAGES)])
    async with TestServer(app) as server, ClientSession(server.make_url("/")) as client:
        yield client
