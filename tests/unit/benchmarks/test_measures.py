"""The measures run: tiny figures through the very parts that `make bench` uses, so that the command never rots."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from random import Random

import pytest
from aiohttp import web
from rich.console import Console

from benchmarks import burst, fairness, footprint, history, idle, jobs, kills, pages, reaction, virtual, workers
from benchmarks.__main__ import MEASURES
from benchmarks.merging import sweeps_an_hour, without_sweeps
from benchmarks.sender import Burst, carry_out, send
from benchmarks.sizes import Size
from benchmarks.table import Row, percentile, save, show
from github_emulator import CISettings
from queue_engine.core.timing.clock import SystemClock
from tests.acceptance.world import World, a_world
from tests.support.databases import MakeUrl, PostgresServer

ROW = Row("row", "what it is", "2 s", 2.0, "< 1 s", False, "poller 6 s", 6.0, "how it was measured")
OF_THEIR_OWN = ("ten", "idle", "rebases")
"""Measures whose tiny figures have a test that says more."""
ON_POSTGRES = ("idle", "footprint", "workers", "fairness", "pages", "history")


@pytest.fixture(autouse=True)
def no_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny figure needs no time for what a busy machine hands over late."""
    monkeypatch.setattr(virtual, "DELIVERY_SECONDS", 0)


def test_percentile_of_few_values_is_one_of_them() -> None:
    """The value that the named share does not exceed; the largest for any share that leaves less than one out."""
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.99, 0.995, 1.0)] == [50, 99, 100, 100]


def test_table_missed_goal_says_so_and_shows_the_ratio(tmp_path: Path) -> None:
    """The table itself marks a missed goal, and by how much the reference differs."""
    paper = StringIO()
    show(Console(width=200, file=paper), [ROW, replace(ROW, met=None, goal="", value=None)], "title")
    text = paper.getvalue()
    assert "< 1 s: MISSED" in text
    assert "3 x" in text
    assert "not judged" in text
    save(tmp_path / "rows.json", [ROW], {"seed": 7})
    written = json.loads((tmp_path / "rows.json").read_text())
    assert written["seed"] == 7
    assert written["rows"][0]["ratio"] == 3.0


@pytest.mark.thorough
async def test_queued_at_once_ci_time_is_part_of_the_wall_time(tmp_path: Path) -> None:
    """Two pull requests cost one CI run of 20 s at least, and the poller more than IMQ, in the same virtual time."""
    (row,) = await run_tiny("ten", tmp_path)
    assert row.value is not None
    assert row.reference_value is not None
    assert 1 < row.value < 1.2
    assert row.value < row.reference_value < 3


@pytest.mark.thorough
async def test_rebases_of_a_bot_are_part_of_what_is_measured(tmp_path: Path) -> None:
    """All land, and the bot rebased what still waited."""
    cost, people = await run_tiny("rebases", tmp_path)
    assert cost.met
    assert cost.note.startswith("1 rebases; all landed")
    assert people.met


@pytest.mark.thorough
async def test_requests_of_sweeps_are_no_part_of_what_a_merge_costs() -> None:
    """They are counted by the hour; in an idle one nothing else is asked, but for the installation's next token."""
    hourly = await sweeps_an_hour(2)
    assert 6 <= hourly.total() <= 24
    assert without_sweeps(hourly) <= Counter({"POST /app/installations/{installation_id}/access_tokens": 1})
    merge = "PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge"
    assert without_sweeps(Counter({"GET /app/hook/deliveries": 3, merge: 1})) == {merge: 1}


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in MEASURES if name not in OF_THEIR_OWN])
async def test_measure_runs_at_its_tiny_size(
    name: str, make_sqlite_url: MakeUrl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All of its code but PostgreSQL's, so that no column, setting or route that it uses changes without it.

    What the measure starts as a process runs in this one.
    """
    in_this_process(monkeypatch, make_sqlite_url())
    await run_tiny(name, tmp_path)


@pytest.mark.thorough
@pytest.mark.process
@pytest.mark.postgres
@pytest.mark.parametrize("name", ["burst", "workers", "jobs"])
async def test_measure_starts_its_own_processes(
    name: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The two that start more than a bot, and the one whose reference waits in real time."""
    monkeypatch.setenv("IMQ_TEST_POSTGRES_URL", postgres_server.url("postgres"))
    await run_tiny(name, tmp_path)


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.parametrize("name", ON_POSTGRES)
async def test_measure_runs_on_postgres_too(
    name: str, make_postgres_url: MakeUrl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each database has statements of its own."""
    in_this_process(monkeypatch, make_postgres_url())
    assert any("postgres" in f"{row.name} {row.what}".lower() for row in await run_tiny(name, tmp_path))


def in_this_process(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Have the measures of processes run the bot here, on virtual time, and send webhooks from here.

    `url` is that of the migrated database that the others measure.
    """

    @contextmanager
    def database_urls(_size: Size, _directory: Path) -> Iterator[list[str]]:
        yield [url]

    @contextmanager
    def postgres_url(_size: Size, _directory: Path) -> Iterator[str | None]:
        yield url if url.startswith("postgresql") else None

    @asynccontextmanager
    async def processes(theatre: InProcess, _workers: int) -> AsyncIterator[tuple[int, list[int]]]:
        await theatre.start()
        yield os.getpid(), [os.getpid()]

    async def never(_clock: SystemClock, _duration: timedelta) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(SystemClock, "sleep", never)
    for module in (burst, footprint, kills, reaction, workers):
        monkeypatch.setattr(module, "a_theatre", in_process)
    for module in (fairness, footprint, history, idle, jobs, pages):
        monkeypatch.setattr(module, "database_urls", database_urls)
    monkeypatch.setattr(workers, "postgres_url", postgres_url)
    monkeypatch.setattr(workers, "_processes", processes)
    monkeypatch.setattr(burst, "_sent", lambda order, _cores: carry_out(json.loads(json.dumps(order))))


class InProcess:
    """A world with the face of a theatre: the bot runs in this process, and the clock is moved by hand."""

    def __init__(self, world: World) -> None:
        self.github, self.server, self.repository = world.github, world.server, world.repository
        self.environment, self.until = world.environment, world.until
        self.process: InProcess | None = None
        self.pid = os.getpid()
        self._world, self._starting = world, asyncio.Lock()

    @property
    def port(self) -> int:
        return int(self._world.runner.addresses[0][1])

    async def start(self) -> None:
        """Start a bot with the present settings, in place of the one that runs."""
        self.process = self
        async with self._starting:
            await self._world.kill()
            await self._world.restart()

    def kill(self, _why: str) -> None:
        """A killed bot lives on until it is waited for."""

    async def stop(self) -> int:
        """The next start ends the bot."""
        return 0

    async def wait(self) -> int:
        """End the bot and start the next."""
        await self.start()
        return -signal.SIGKILL


@asynccontextmanager
async def in_process(url: str, directory: Path, *, lag: timedelta = timedelta(0)) -> AsyncIterator[InProcess]:
    """A stand-in for `a_theatre`."""
    async with a_world(directory, lag=lag, ci=False, protect=False) as world:
        ci = world.repository.add_ci("ci/test", settings=CISettings(workflow="ci"))
        world.repository.protect("main", required_checks=[("ci/test", ci.app.id)])
        world.environment |= {"DATABASE_URL": url}
        yield InProcess(world)


async def run_tiny(name: str, directory: Path) -> list[Row]:
    """Take a measure as the tests do; its rows can be shown and stored."""
    rows = await MEASURES[name](Size.TINY, 1)
    assert rows
    assert len({row.name for row in rows}) == len(rows)
    show(Console(file=StringIO()), rows, "title")
    save(directory / "rows.json", rows, {})
    return rows


async def test_idle_tick_over_waiting_queues_asks_github_nothing(
    make_sqlite_url: MakeUrl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Queues whose fronts wait cost no request, whether they are left alone or woken."""
    in_this_process(monkeypatch, make_sqlite_url())
    *rows, unmeasured = await run_tiny("idle", tmp_path)
    assert [", 0 requests" in row.measured for row in rows] == [True] * 3
    assert unmeasured.value is None


async def test_fairness_beside_a_busy_repository_is_measured_while_it_is_busy(
    make_sqlite_url: MakeUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While GitHub answers nothing about it, half of the passes at once are its own, and the quiet ones are served."""
    url = make_sqlite_url()
    in_this_process(monkeypatch, url)
    never = asyncio.Event().wait
    row = await fairness.fairness_on(url, 10, 1, never, Random(1), 0.0)
    assert "up to 4 of 8 passes" in row.note
    assert ", and 10 of its queues" in row.note
    assert "(n=10)" in row.measured


@pytest.mark.parametrize(("status", "word"), [(202, "stored"), (503, "503")])
async def test_sender_counts_what_was_answered(status: int, word: str) -> None:
    """Each delivery is signed, sent once, and counted by its answer; only those stored are named as stored."""
    measured: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        assert request.headers["X-Hub-Signature-256"].startswith("sha256=")
        measured.append(request.headers["X-GitHub-Delivery"])
        return web.json_response({"result": "stored"} if status == 202 else {}, status=status)

    app = web.Application()
    app.router.add_post("/webhook", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/webhook"
        answers = await send(Burst(url, "secret", 1_000_000, 0.00001, [("push", "{}"), ("status", "{}")]))
    finally:
        await runner.cleanup()
    assert answers.statuses == {word: 10}
    assert len(answers.times) == 10
    assert sorted(answers.stored) == (sorted(measured) if status == 202 else [])
