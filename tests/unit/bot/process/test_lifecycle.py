"""The life of a process: woken by other processes, and rebuilt when its clock was set back."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from bot.process import lifecycle
from bot.process.sqlite_file import NotListening, NotMigrated
from bot.process.wiring import Bot
from bot.settings.environment import Settings, load_settings
from github_emulator import EmulatorServer, GitHub
from github_emulator import SystemClock as EmulatorClock
from queue_engine.core.concurrency.wakeup import Wakeup, WakeupListener
from queue_engine.core.database.outage import ReadOnly
from queue_engine.core.timing.clock import ClockChange, SystemClock
from queue_engine.migrations import migrate
from tests.support.app_key import KEY
from tests.support.databases import MakeUrl
from tests.support.real_time import LIMIT
from tests.support.unfinished_jobs import unfinished_jobs
from tests.support.webhooks import a_webhook
from tests.unit.bot.conftest import ManualClock

pytestmark = pytest.mark.process

FAR = timedelta(hours=1)
RULES = a_webhook("rules", delivery="d", repository_id=5, owner="ada", name="engine", installation_id=9)


@pytest.fixture
async def settings(tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """Settings for a GitHub on which The App is not installed; without a database."""
    github = GitHub(EmulatorClock(), directory=tmp_path / "github")
    server = EmulatorServer(github)
    await server.start()
    app = github.create_app("imq", permissions={"metadata": "read"}, events=())
    app.key = KEY
    yield {
        "IMQ_GITHUB_APP_ID": str(app.id),
        "IMQ_GITHUB_PRIVATE_KEY": app.private_key,
        "IMQ_GITHUB_WEBHOOK_SECRET": "s3cret-0123456789abcdef",
        "IMQ_GITHUB_API_URL": server.url,
        "IMQ_INTERVAL_SECONDS": str(FAR.total_seconds()),
        "PORT": "0",
        "IMQ_BIND": "127.0.0.1",
    }
    await server.stop()
    await github.close()


async def until(logs: Sequence[Mapping[str, Any]], event: str, times: int = 1) -> None:
    """Let real time pass until this was logged so many times."""
    async with asyncio.timeout(LIMIT):
        while sum(line["event"] == event for line in logs) < times:  # noqa: ASYNC110 - a log is no event
            await asyncio.sleep(0.01)  # no-sleep-ok: a process lives in real time


@asynccontextmanager
async def a_worker(settings: Settings) -> AsyncIterator[Bot]:
    """A worker whose loops run, and which listens to other processes."""
    clock, stop = SystemClock(), asyncio.Event()
    bot = Bot(settings, clock=clock, random=lambda: 0.5)
    await migrate(bot.database)
    await bot.start()
    with capture_logs() as logs:
        living = asyncio.create_task(
            lifecycle._run_until_stopped(bot, stop, ClockChange(clock), web=False, worker=True)
        )
        await until(logs, "listening_to_other_processes")
        yield bot
        stop.set()
        await living
    assert "not_drained" not in {line["event"] for line in logs}
    await bot.close()


@pytest.mark.postgres
async def test_delivery_stored_by_the_web_process_is_followed_by_the_worker_at_once(
    settings: dict[str, str], make_postgres_url: MakeUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next poll is an hour away, so the delivery itself wakes the worker, which needs no webhook secret."""
    for poll in ("_POLL", "_SLOW_POLL"):
        monkeypatch.setattr(lifecycle, poll, FAR)
    settings = settings | {"DATABASE_URL": make_postgres_url()}
    web = Bot(load_settings(settings), clock=SystemClock(), random=lambda: 0.5, role="web")
    del settings["IMQ_GITHUB_WEBHOOK_SECRET"]
    async with a_worker(load_settings(settings, web=False)) as worker:
        await _none_left(worker)
        for number in range(3):
            assert await web.inbox.receive(RULES.model_copy(update={"delivery": f"d{number}"}))
            await _none_left(worker)
    await web.close()


async def test_only_a_process_with_both_parts_migrates_postgresql(
    settings: dict[str, str], empty_database_url: str
) -> None:
    """Where several processes share a database, a deployment decides when its tables change."""
    read, stop = load_settings(settings | {"DATABASE_URL": empty_database_url}), asyncio.Event()
    bot = Bot(read, clock=SystemClock(), random=lambda: 0.5)
    for serves, works in ((True, False), (False, True)) if bot.database.dialect == "postgresql" else ():
        with pytest.raises(NotMigrated):
            await lifecycle._started(bot, stop, web=serves, worker=works)
    assert await lifecycle._started(bot, stop, web=True, worker=True)
    assert await lifecycle._started(bot, stop, web=True, worker=False)
    await bot.close()


@pytest.mark.postgres
async def test_process_that_stops_ends_its_parts_and_drains_at_once(
    settings: dict[str, str], make_postgres_url: MakeUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deployment waits for no limit of time, and the outbox begins no other item."""
    monkeypatch.setattr(lifecycle, "_DRAIN_SECONDS", LIMIT)
    async with a_worker(load_settings(settings | {"DATABASE_URL": make_postgres_url()})) as bot:
        assert not bot.engine.ending.is_set()
    assert bot.engine.ending.is_set()


async def _none_left(bot: Bot) -> None:
    """Every job is done; there is nothing left that could wake the worker by itself."""
    async with asyncio.timeout(LIMIT):
        while True:
            async with bot.engine.store.reading() as tx:
                if await unfinished_jobs(tx.jobs) == 0:
                    break
            await asyncio.sleep(0.02)  # no-sleep-ok: a process lives in real time
    # What the end of the last job woke has looked, and found nothing.
    await asyncio.sleep(0.2)  # no-sleep-ok: the same


class SetClock(SystemClock):
    """The system's clock, which somebody sets."""

    wrong_by = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + SetClock.wrong_by


async def test_process_whose_clock_is_set_back_is_put_together_again(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was to happen in an hour of the wrong clock would else wait for as long; one set ahead harms nothing."""
    monkeypatch.setattr(lifecycle, "SystemClock", SetClock)
    monkeypatch.setattr(lifecycle, "_CLOCK_CHECK_INTERVAL", timedelta(milliseconds=20))
    monkeypatch.setattr(SetClock, "wrong_by", timedelta(0))
    read = load_settings(settings | {"DATABASE_URL": f"sqlite:///{tmp_path / 'imq.db'}"})
    with capture_logs() as logs:
        running = asyncio.create_task(lifecycle.run(read, web=True, worker=True))
        try:
            await until(logs, "listening")
            SetClock.wrong_by = FAR
            await until(logs, "clock_was_set")
            assert [line["event"] for line in logs].count("draining") == 0
            SetClock.wrong_by = timedelta(0)
            await until(logs, "listening", times=2)
            os.kill(os.getpid(), signal.SIGTERM)
            async with asyncio.timeout(LIMIT):
                await running
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
    reported = [round(line["seconds"]) for line in logs if line["event"] == "clock_was_set"]
    assert reported == [FAR.total_seconds(), -FAR.total_seconds()]
    assert [line["event"] for line in logs].count("draining") == 2


@pytest.mark.parametrize("chosen", [True, False])
async def test_process_listens_on_this_machine_alone_by_default(
    settings: dict[str, str], tmp_path: Path, chosen: bool
) -> None:
    """Without PORT no platform asked for more; unless the operator chose it, the log says how to reach IMQ."""
    given = {name: value for name, value in settings.items() if name != "PORT" and (chosen or name != "IMQ_BIND")}
    read = load_settings(given | {"DATABASE_URL": f"sqlite:///{tmp_path / 'imq.db'}"})
    read.__dict__["port"] = 0  # a free one, as if that were the default
    with capture_logs() as logs:
        running = asyncio.create_task(lifecycle.run(read, web=True, worker=False))
        try:
            await until(logs, "listening")
            port = next(line["port"] for line in logs if line["event"] == "listening")
            for address, answers in (("127.0.0.1", True), ("127.0.0.2", False)):
                assert await _answers(address, port) == answers
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            await running
    assert any(line["event"] == "reached_from_this_machine_only" for line in logs) is not chosen


def test_process_that_port_alone_opens_to_every_network_says_so_and_how_not_to() -> None:
    """`PORT=8080 imq run` on a laptop is no platform."""
    with capture_logs() as logs:
        lifecycle._log_reach("0.0.0.0")
    (line,) = logs
    assert line["event"] == "reached_from_every_network"
    assert "IMQ_BIND=127.0.0.1" in line["advice"]


async def test_port_in_use_is_a_sentence_with_the_settings(settings: dict[str, str]) -> None:
    """The operator reads which settings to change, not a traceback."""
    runner = await lifecycle.listen(web.Application(), load_settings({**settings, "PORT": "0"}))
    port = str(runner.addresses[0][1])
    try:
        with pytest.raises(NotListening, match=f"port {port}: .* in use.* Set PORT .* IMQ_BIND"):
            await lifecycle.listen(web.Application(), load_settings({**settings, "PORT": port}))
    finally:
        await runner.cleanup()


async def _answers(address: str, port: int) -> bool:
    """Whether an address of this machine other than the usual one, as any other would, reaches the web process."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}:{port}/healthz") as response:
            return response.status == 200
    except aiohttp.ClientConnectorError:
        return False


@pytest.mark.parametrize(("error", "times"), [(ReadOnly("a standby"), 1), (KeyError("a mistake"), 0)])
async def test_loop_reports_when_the_database_is_back(
    monkeypatch: pytest.MonkeyPatch, error: Exception, times: int
) -> None:
    """Deliveries that GitHub sent meanwhile were not stored: IMQ has to look for them, once."""
    monkeypatch.setattr(lifecycle, "_POLL", timedelta(0))
    ending, reported, ends = asyncio.Event(), list[str](), [error, error, None, None]

    async def work() -> bool:
        if (end := ends.pop(0)) is not None:
            raise end
        if not ends:
            ending.set()
        return bool(ends)

    async def next_due() -> datetime | None:
        return None

    with capture_logs():
        await lifecycle._run_loop(
            "loop",
            work,
            next_due,
            Wakeup().waiter(),
            SystemClock(),
            lambda: timedelta(0),
            ending,
            database_is_back=lambda: reported.append("back"),
        )
    assert len(reported) == times


class Woken(WakeupListener):
    """A loop's wakeups, one after the other; None: the time passes."""

    def __init__(self, clock: ManualClock, *wakeups: bool | None) -> None:
        super().__init__(shared=True)
        self.asked: list[timedelta] = []
        self._clock, self._wakeups = clock, list(wakeups)

    async def wait(self, at_most: timedelta) -> bool | None:
        """Wait for the next one."""
        self.asked.append(at_most)
        woken = self._wakeups.pop(0)
        if woken is None:
            await self._clock.sleep(at_most)
        return woken


@pytest.mark.parametrize("woken", [True, False])
async def test_loop_takes_work_of_another_process_once_it_has_been_left_for_a_while(woken: bool) -> None:
    """Workers that took all that was due did the same with more claims, and each read the rules of each queue."""
    clock, ending, done = ManualClock(), asyncio.Event(), list[datetime]()
    due, wakeup = clock.now(), Woken(clock, woken, None, True, True)

    async def work() -> bool:
        done.append(clock.now())
        if len(done) > 2:
            ending.set()
        return len(done) == 2

    async def next_due() -> datetime | None:
        return due if len(done) < 2 else None

    await lifecycle._run_loop("loop", work, next_due, wakeup, clock, lambda: FAR, ending)
    later = timedelta(0) if woken else wakeup.delay
    assert [at - due for at in done[:2]] == [timedelta(0), later]
    assert wakeup.asked[1:2] == [later or FAR]


class Steps(WakeupListener):
    """Notes what its loop does: w works, r reads when more is due, | waits, and ! waits with a wakeup remembered."""

    def __init__(self, ending: asyncio.Event, *wakeups: bool, shared: bool = True) -> None:
        """`wakeups` come at one wait each: True if only work ended. Then the loop ends."""
        super().__init__(shared=shared)
        self.steps, self.due, self.finds = "", list[datetime](), True
        self._ending, self._wakeups = ending, list(wakeups)

    async def work(self) -> bool:
        """Find work the first time, while this process stores more; then none."""
        if not self.steps:
            self.wake()
        self.steps += "w"
        return self.finds and self.steps == "w"

    async def next_due(self) -> datetime | None:
        """Return each given instant once."""
        self.steps += "r"
        return self.due.pop(0) if self.due else None

    async def wait(self, at_most: timedelta) -> bool | None:
        """Wait for the next wakeup."""
        self.steps += "!" if self._event.is_set() else "|"
        if self._wakeups:
            self.wake(ended=self._wakeups.pop(0))
        else:
            self._ending.set()
            self.wake()
        return await super().wait(at_most)


@pytest.mark.parametrize(
    ("shared", "wakeups", "steps"),
    [(True, (False, True, False), "wr|wr|r|wr|"), (False, (), "wr!")],
    ids=["stored, ended, stored", "what no read sees"],
)
async def test_loop_claims_neither_what_its_last_read_saw_nor_at_the_end_of_work(
    shared: bool, wakeups: tuple[bool, ...], steps: str
) -> None:
    """Such a claim is nearly always in vain, and another read follows it."""
    clock, ending = ManualClock(), asyncio.Event()
    loop = Steps(ending, *wakeups, shared=shared)
    await lifecycle._run_loop("loop", loop.work, loop.next_due, loop, clock, lambda: FAR, ending)
    assert loop.steps == steps


async def test_loop_claims_what_is_due_at_the_end_of_other_work() -> None:
    """It would wait for a while otherwise."""
    clock, ending = ManualClock(), asyncio.Event()
    loop = Steps(ending, True)
    loop.due += [clock.now() + FAR * 2, clock.now()]
    await lifecycle._run_loop("loop", loop.work, loop.next_due, loop, clock, lambda: FAR, ending)
    assert loop.steps == "wr|rwr|"


async def test_loop_claims_what_came_during_a_claim_in_vain() -> None:
    """The read that sees it has forgotten its wakeup."""
    clock, ending = ManualClock(), asyncio.Event()
    loop = Steps(ending)
    loop.due, loop.finds = [clock.now()], False
    await lifecycle._run_loop("loop", loop.work, loop.next_due, loop, clock, lambda: FAR, ending)
    assert loop.steps == "wrwr|"


async def test_loop_that_is_to_end_while_it_works_does_not_wait() -> None:
    """The wakeup at the end of a process comes once."""
    clock, ending = ManualClock(), asyncio.Event()
    loop = Steps(ending)

    async def work() -> bool:
        ending.set()
        return await loop.work()

    await lifecycle._run_loop("loop", work, loop.next_due, loop, clock, lambda: FAR, ending)
    assert loop.steps == "wr!"
