"""The bot as a process of its own, against an emulator in this one; both live in real time, with a very quick CI."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
from sqlalchemy import func, or_, select, update

from github_emulator import CISettings, DropConnection, EmulatorServer, GitHub, RecordedCall, SystemClock
from queue_engine.core.database.database import Database
from queue_engine.core.jobs.idempotency import idempotency_keys
from queue_engine.core.jobs.job import DEATHS, jobs
from queue_engine.core.timing.clock import SystemClock as BotClock
from queue_engine.migrations import MigrationState, migration_state
from queue_engine.store.tables import outbox, queues
from tests.acceptance.project import EVENTS, FILES, PERMISSIONS, total_at_most_ten
from tests.acceptance.template import ROOT, Forked, Template
from tests.acceptance.world import REPOSITORY
from tests.support.ports import held_port
from tests.support.real_time import LIMIT

CI_TIME = timedelta(milliseconds=300)
_MOST_DEATHS = 7
_LEASES = (
    (queues.c.lease_owner, queues.c.leased_until),
    (outbox.c.lease_owner, outbox.c.leased_until),
    (jobs.c.owner, jobs.c.leased_until),
)


async def end_leases(database_url: str, *dead: int, keys: bool = False) -> None:
    """End the leases of processes that are dead, as half a minute would; with `keys` those of all calls of the API.

    Leases are as long as an operator's: no living process loses one because the machine is slow.
    """
    if not dead:
        return
    database = Database(database_url)
    try:
        if await migration_state(database) is not MigrationState.USABLE:
            return
        now = BotClock().now()
        async with database.transaction() as connection:
            for owner, until in _LEASES:
                theirs = or_(*(owner.contains(f":{pid}:") for pid in dead))
                await connection.execute(update(until.table).where(theirs, until > now).values({until: now}))
            if keys:
                running = idempotency_keys.c.running_until
                await connection.execute(update(idempotency_keys).where(running > now).values({running: now}))
    finally:
        await database.close()


async def _deaths_in_a_row(database_url: str) -> int:
    """How many processes died in a row while they did one and the same job: of the jobs that met most."""
    database = Database(database_url)
    try:
        async with database.reading() as connection:
            return await connection.scalar(select(func.max(DEATHS))) or 0
    finally:
        await database.close()


@dataclass
class Theatre:
    """An emulator, and a bot that can be killed and started again at the same address."""

    github: GitHub
    server: EmulatorServer
    repository: Any
    environment: dict[str, str]
    log: Path
    python: tuple[str, ...] = (sys.executable,)
    """What the bot is started by; a test may put it into surroundings of its own."""
    template: Template | None = None
    """What the bot is forked from, for tests that start many."""
    process: asyncio.subprocess.Process | Forked | None = None
    deaths: list[str] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    """The ids of processes that were killed."""

    @property
    def port(self) -> int:
        return int(self.environment["PORT"])

    async def start(self) -> None:
        """Start the bot and wait until it is ready, or was killed on its way there."""
        if self.process is not None and self.process.returncode == -signal.SIGKILL:
            self.dead.append(self.process.pid)
            await end_leases(self.environment["DATABASE_URL"], *self.dead, keys=True)
        self.process = await self._launched()
        if await self._readied() and self.dead:
            # PostgreSQL may have received a lease from the dead one, and stored it later.
            await end_leases(self.environment["DATABASE_URL"], *self.dead)

    async def _readied(self) -> bool:
        assert self.process is not None
        async with aiohttp.ClientSession() as session:
            while True:
                if self.process.returncode == -signal.SIGKILL:
                    return False
                assert self.process.returncode is None, f"the bot ended: {self.log.read_text()[-3000:]}"
                try:
                    async with session.get(f"http://127.0.0.1:{self.port}/readyz") as answer:
                        if answer.status == 200:
                            return True
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.02)  # no-sleep-ok: a real process starts in real time

    async def _launched(self) -> asyncio.subprocess.Process | Forked:
        if self.template is not None:
            return await self.template.fork(self.environment, self.log)
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self.python, "-m", "bot", "run", cwd=ROOT, env=self.environment, stdout=log, stderr=log
            )

    def kill(self, why: str) -> None:
        """`kill -9`, noted with the step it happened at."""
        assert self.process is not None
        self.deaths.append(why)
        self.process.send_signal(signal.SIGKILL)

    async def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        return await self.process.wait()

    async def close(self) -> None:
        """End what runs."""
        self.server.on_request = None
        if self.process is not None:
            await self.stop()
        if self.template is not None:
            await self.template.close()

    async def until(self, true: Callable[[], bool]) -> None:
        """Let real time pass until `true` holds, starting the bot again whenever it has died."""
        async with asyncio.timeout(LIMIT):
            while not true():
                if self.process is not None and self.process.returncode is not None:
                    await self.start()
                await asyncio.sleep(0.02)  # no-sleep-ok: real processes live in real time

    async def next_second(self) -> None:
        """Let GitHub's time, which has whole seconds, show what follows as later than all before.

        A label set in the second of a push consents only by its webhook. Deaths in a row can lose all six redeliveries.
        """
        second = int(self.github.clock.now().timestamp())
        await self.until(lambda: int(self.github.clock.now().timestamp()) > second)

    def kill_once_at_each_step(self, *, reading: bool = True, only_once: str = "") -> None:
        """From now on, kill the bot before and after the first request of each kind takes effect.

        A job that met nine deaths in a row runs alone, and is given up after the tenth: one of seven is done first.
        The last two are for `only_once`, the request that comes no second time.
        """
        met: set[tuple[str, str]] = set()

        async def hook(exchange: RecordedCall) -> None:
            step = (exchange.template, exchange.phase)
            reads = exchange.method == "GET" or exchange.template.endswith("/graphql")
            if reads and (exchange.phase == "before" or not reading):
                return  # Reading changes nothing: to die before it or after it is the same.
            if exchange.login is None or not exchange.login.endswith("[bot]") or step in met:
                return
            most = _MOST_DEATHS + 2 * (exchange.template == only_once)
            if await _deaths_in_a_row(self.environment["DATABASE_URL"]) >= most or step in met:
                return
            met.add(step)
            self.kill(" ".join(step))
            raise DropConnection

        self.server.on_request = hook


def _environment(app: Any, api_url: str, database_url: str, port: int) -> dict[str, str]:
    """The settings of the bot."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ} | {
        "IMQ_GITHUB_APP_ID": str(app.id),
        "IMQ_GITHUB_PRIVATE_KEY": app.private_key,
        "IMQ_GITHUB_WEBHOOK_SECRET": "s3cret-0123456789abcdef",
        "IMQ_GITHUB_API_URL": api_url,
        "DATABASE_URL": database_url,
        "PORT": str(port),
        "IMQ_BIND": "127.0.0.1",
        "IMQ_INTERVAL_SECONDS": "0.5",
        "IMQ_SWEEP_SECONDS": "2",
        "IMQ_LOG_FORMAT": "json",
    }


@asynccontextmanager
async def a_theatre(database_url: str, directory: Path, *, lag: timedelta = timedelta(0)) -> AsyncIterator[Theatre]:
    """A theatre with one protected repository and its CI, whose reads lag; the bot is not started yet."""
    github = GitHub(SystemClock(), seed=1, directory=directory / "github")
    server = EmulatorServer(github)
    await server.start()
    if lag:
        server.lag.set(lag)
    for login in ("mona", "rhea"):
        github.create_user(login)
    app = github.create_app(
        "imq",
        permissions=PERMISSIONS,
        events=EVENTS,
        webhook_secret="s3cret-0123456789abcdef",
    )
    handle = github.create_repository(REPOSITORY, files=FILES, collaborators={"mona": "write", "rhea": "admin"})
    github.install(app, "acme")
    ci = handle.add_ci("ci/test", settings=CISettings(workflow="ci", duration=CI_TIME, judge=total_at_most_ten))
    handle.protect("main", required_checks=[("ci/test", ci.app.id)])
    stop = asyncio.Event()
    running = asyncio.create_task(github.schedule.run(stop))
    try:
        with held_port() as port:
            app.webhook_url = f"http://127.0.0.1:{port}/webhook"
            environment = _environment(app, server.url, database_url, port)
            theatre = Theatre(github, server, handle, environment, Path(tempfile.mkdtemp(dir=directory)) / "bot.log")
            try:
                yield theatre
            finally:
                await theatre.close()
    finally:
        stop.set()
        await running
        await server.stop()
        await github.close()
