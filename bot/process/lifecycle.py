"""Run a process: its loops, its web server, and an orderly end within the time that platforms give."""

import asyncio
import gc
import os
import random
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog
from aiohttp.web import Application, AppRunner

from bot.http.server import AcceptErrors
from bot.process import sqlite_file
from bot.process.sqlite_file import NotListening, exclusive
from bot.process.wiring import Bot
from bot.settings.environment import HostSettings, Settings
from bot.settings.setting_values import HERE
from bot.web.application import serve
from bot.web.live.request_watch import TOPIC as REQUESTS
from bot.webhooks.receiver import TOPIC as MISSED
from bot.webhooks.relay import relayed
from queue_engine.core.concurrency.tasks import running
from queue_engine.core.concurrency.wakeup import WakeupListener
from queue_engine.core.database.listener import DatabaseListener
from queue_engine.core.database.outage import OutageKind, fault_of
from queue_engine.core.timing.backoff import Backoff, wait
from queue_engine.core.timing.clock import Clock, ClockChange, SystemClock
from queue_engine.store import WakeupKind

_log = structlog.get_logger("imq.process")

_DRAIN_SECONDS = 15.0
"""How long running work may finish after SIGTERM; with the web server's end it stays below 20 seconds."""

_POLL = timedelta(seconds=1)
"""How often a loop checks for work of other processes, without a connection for notifications."""

_SLOW_POLL = timedelta(seconds=10)
"""The same with a connection for notifications."""

_START_BACKOFF = Backoff(base=timedelta(seconds=1), maximum=timedelta(seconds=10))
"""Waits between attempts to reach the database at the start of a process."""

_CLOCK_CHECK_INTERVAL = timedelta(seconds=5)
_CLOCK_JUMP = timedelta(minutes=1)
"""Smaller changes of the clock are ignored: they only make waits a little longer."""

_BURST_PAUSE_SECONDS = 0.05
_JOBS_DURING_BURST = 2
"""During a burst of deliveries: how long jobs wait before some are started, and how many may run."""

_Part = tuple[str, Callable[[], Awaitable[bool]], Callable[[], Awaitable[datetime | None]], tuple[str, ...]]
"""A loop: its name, its work, when that is due next, and the topics that wake it."""


def role_of(*, web: bool, worker: bool) -> str:
    """Return the command that starts these parts."""
    return "run" if web and worker else "web" if web else "worker"


def set_by_signals() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set, in place of any earlier one."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def run(settings: Settings, *, web: bool, worker: bool, bound: socket.socket | None = None) -> None:
    """Run until SIGTERM or SIGINT, then drain. Raises StartRefused with the way out, before anything is begun.

    `bound` is a socket on which the web server listens first, instead of one of its own.

    When the clock is set back, all parts are built again: those in memory then have no instants of the wrong clock, and
    the start corrects those in the database.
    """
    stop = set_by_signals()
    clock, role = SystemClock(), role_of(web=web, worker=worker)
    asyncio.get_running_loop().set_exception_handler(AcceptErrors(clock))
    clock_change = ClockChange(clock)
    with exclusive(settings.database_url.get_secret_value(), role):
        while not stop.is_set():
            bot = Bot(settings, clock=clock, random=random.random, role=role)
            try:
                if not await _started(bot, stop, web=web, worker=worker):
                    return
                await _run_until_stopped(bot, stop, clock_change, web=web, worker=worker, bound=bound)
                bound = None
            finally:
                await bot.close()


async def _started(bot: Bot, stop: asyncio.Event, *, web: bool, worker: bool) -> bool:
    """Start once the database answers; return False when the process is stopped before. Raises NotMigrated."""

    async def start() -> None:
        # A platform without a release phase runs both parts in one process, and nothing else migrates.
        await sqlite_file.prepare(bot.database, migrates=web and worker)
        await bot.start(worker=worker)

    return await start_when_database_answers(start, stop)


async def start_when_database_answers(start: Callable[[], Awaitable[None]], stop: asyncio.Event) -> bool:
    """Call `start` until the database answers; return False when the process is stopped before."""
    failures = 0
    while not stop.is_set():
        try:
            await start()
        except Exception as error:
            if (fault := fault_of(error)) is None or not fault.passes:
                raise
            _log.warning("database_awaited", attempt=failures + 1, exc_info=error)
            await _wait_for(stop, wait(_START_BACKOFF, failures, random=random.random))
            failures += 1
        else:
            return True
    return False


def bind(settings: HostSettings) -> socket.socket:
    """Bind the address and port (0: any) of the settings, but do not listen yet. Raises NotListening."""
    bound = socket.socket(socket.AF_INET6 if ":" in settings.address else socket.AF_INET)
    try:
        with _refusals(settings):
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((settings.address, settings.port))
    except NotListening:
        bound.close()
        raise
    return bound


async def listen(application: Application, settings: HostSettings, bound: socket.socket | None = None) -> AppRunner:
    """Serve on the address and port of the settings, or on a socket that is bound there. Raises NotListening."""
    with _refusals(settings):
        return await serve(application, settings.port, settings.address, bound=bound)


@contextmanager
def _refusals(settings: HostSettings) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        refusal = os.strerror(error.errno) if error.errno else str(error)
        raise NotListening(
            f"IMQ cannot listen on {settings.address}, port {settings.port}: {refusal}. "
            "Set PORT to a free port, and IMQ_BIND to an address of this machine."
        ) from error


def _log_reach(address: str) -> None:
    """Log from where the web process is reachable, unless the operator chose the address."""
    if address == HERE:
        _log.info("reached_from_this_machine_only", advice="set IMQ_BIND=0.0.0.0 to be reached from others")
    else:
        _log.info(
            "reached_from_every_network",
            advice="PORT is set, as hosting platforms do; on a machine of your own set IMQ_BIND=127.0.0.1",
        )


async def _run_until_stopped(
    bot: Bot,
    stop: asyncio.Event,
    clock_change: ClockChange,
    *,
    web: bool,
    worker: bool,
    bound: socket.socket | None = None,
) -> None:
    application = bot.application() if web else None
    # What is there by now stays. To look through its 140,000 objects again stops every answer for 90 ms (measured),
    # and the goal of `make bench` for the answers to webhooks in a burst is a p99 of 100 ms.
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    runner = await listen(application, bot.settings, bound) if application is not None else None
    if runner is not None:
        _log.info("listening", address=bot.settings.address, port=runner.addresses[0][1])
        if bot.settings.bind is None:
            _log_reach(bot.settings.address)
    ending = bot.engine.ending
    listener = bot.listener()
    listening = nullcontext() if listener is None else running(listener.run())
    async with listening, relayed(bot.settings.relay_url, runner):
        if not worker:
            # Deliveries may have failed while no web process ran; a worker's first sweep checks for them, too.
            bot.missed.note()
        loops = [asyncio.create_task(work) for work in _loops(bot, listener, ending, web=web, worker=worker)]
        await _until_stopped_or_set_back(stop, clock_change)
        _log.info("draining")
        bot.end()
        bot.engine.wakeup.notify()
        closing = [runner.cleanup()] if runner is not None else []
        await asyncio.gather(*closing, _drain(bot, loops))


async def _until_stopped_or_set_back(stop: asyncio.Event, clock_change: ClockChange) -> None:
    """Return when the process is to end, or when its clock was set back."""
    while not await _wait_for(stop, _CLOCK_CHECK_INTERVAL):
        change = clock_change.since_last()
        if abs(change) < _CLOCK_JUMP:
            continue
        _log.warning("clock_was_set", seconds=change.total_seconds())
        if change < timedelta(0):
            return


async def _drain(bot: Bot, loops: list[asyncio.Task[None]]) -> None:
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            await asyncio.gather(*loops)
            await bot.worker.drain()
            await bot.scheduler.drain()
    except TimeoutError:
        _log.warning("not_drained", seconds=_DRAIN_SECONDS)
        await bot.worker.cancel()
        await bot.scheduler.cancel()


def _loops(
    bot: Bot, listener: DatabaseListener | None, ending: asyncio.Event, *, web: bool, worker: bool
) -> list[Coroutine[Any, Any, None]]:
    def longest() -> timedelta:
        if listener is None:
            return bot.settings.interval
        return min(_SLOW_POLL if listener.connected else _POLL, bot.settings.interval)

    reporter = bot.reporter
    reporting: list[_Part] = [("reporter", reporter.run_due, reporter.next_due, ())] if reporter.is_enabled else []
    reporting.append(("app", bot.app_status.run_due, bot.app_status.next_due, ()))
    reporting.append(("requests", bot.request_counts.run_due, bot.request_counts.next_due, ()))
    working: list[_Part] = [
        ("sweeper", bot.sweeper.run_due, bot.sweeper.next_due, ()),
        ("worker", partial(_start_jobs, bot), bot.worker.next_due, (WakeupKind.JOBS,)),
        ("scheduler", bot.scheduler.start_due, bot.scheduler.next_due, (WakeupKind.QUEUES,)),
        ("dispatcher", bot.dispatcher.run_due, bot.dispatcher.next_due, (WakeupKind.OUTBOX,)),
    ]
    of_web = ((bot.missed, MISSED), (bot.feed, WakeupKind.TIMELINE), (bot.watch, REQUESTS))
    receiving: list[_Part] = [(topic, part.run_due, part.next_due, (topic,)) for part, topic in of_web]
    parts = [*reporting, *(receiving if web else []), *(working if worker else [])]
    wakeup, shared = bot.engine.wakeup, {WakeupKind.JOBS, WakeupKind.QUEUES, WakeupKind.OUTBOX}
    back = bot.sweeper.schedule_now if worker else bot.missed.note
    return [
        _run_loop(
            *(name, work, due, wakeup.waiter(topics, shared=not shared.isdisjoint(topics))),
            *(bot.clock, longest, ending),
            database_is_back=back,
        )
        for name, work, due, topics in parts
    ]


async def _start_jobs(bot: Bot) -> bool:
    """Start due jobs, only a few of them during a burst of deliveries, which are more urgent."""
    if not bot.inbox.under_burst:
        return await bot.worker.start_due()
    await asyncio.sleep(_BURST_PAUSE_SECONDS)
    if bot.engine.ending.is_set():
        return False
    return await bot.worker.start_due(at_most=_JOBS_DURING_BURST)


async def _run_loop(
    name: str,
    work: Callable[[], Awaitable[bool]],
    next_due: Callable[[], Awaitable[datetime | None]],
    wakeup: WakeupListener,
    clock: Clock,
    longest: Callable[[], timedelta],
    ending: asyncio.Event,
    *,
    database_is_back: Callable[[], None] = lambda: None,
) -> None:
    """Do due work; then wait for a wakeup, for the next due work, or for `longest`, whichever comes first.

    After work it asks when more is due, which locks nothing: most of the time none is, and a claim would be in vain. So
    is a claim after another process did the work, or after work ended. Work that another process does first is left to
    it for a while.
    """
    failures, faults, found, for_this, claims = 0, set[OutageKind](), False, True, True
    while not ending.is_set():
        try:
            worked = claims and await work()
            asks = not claims or (not ending.is_set() and wakeup.forget_own())
            due = await next_due()
        except Exception as error:
            # The database may be down for a while; the loop must survive that.
            failures += 1
            if (fault := fault_of(error)) is not None:
                faults.add(fault)
            if _should_log(failures):
                _log.exception("loop_failed", loop=name, attempt=failures)
            await _wait_for(ending, _POLL)
            continue
        found = found or worked
        left = timedelta(0) if for_this else wakeup.delay
        if (worked or asks) and due is not None and due + left <= clock.now():
            for_this = claims = True
            continue
        if failures:
            _log.info("loop_recovered", loop=name, after=failures, **({"fault": max(faults)} if faults else {}))
            if faults - {OutageKind.LOST_RACE}:
                database_is_back()
            failures, faults = 0, set()
        most = longest()
        pause = most if due is None else min(most, due + left - clock.now())
        wakeup.served(found=found)
        found = False
        # Due work that could not be started has no room now; a wakeup comes when there is some.
        woken = await wakeup.wait(max(pause, timedelta(milliseconds=50)))
        for_this = not left if woken is None else woken
        claims = for_this and not (woken and wakeup.only_ended)


def _should_log(failures: int) -> bool:
    """Whether to log a failure: the first, second, fourth, eighth, …, so that an outage does not fill the log."""
    return failures & (failures - 1) == 0


async def _wait_for(event: asyncio.Event, at_most: timedelta) -> bool:
    """Wait until the event is set or `at_most` has passed; return whether it is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(at_most.total_seconds()):
            await event.wait()
    return event.is_set()
