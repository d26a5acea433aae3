"""Virtual time: emulator and client run side by side in one process, and the clock moves only when all of them wait.

The clock moves as soon as neither side has anything under way. Where answers are delayed, tasks wait for them: then it
moves when neither HTTP nor a database was used for hundreds of rounds of the event loop. What threads would do is done
at once. Should the operating system hold back what was sent for longer, the clock moves too early; the measured times
then look longer, never shorter. So do they on a machine so busy that a call reaches its real time limit.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Engine, Pool, event

from benchmarks.pollers import Poller
from benchmarks.stage import Stage
from bot.process.wiring import Bot
from github_emulator import RecordedCall
from queue_engine.core.concurrency.wakeup import Wakeup, WakeupListener
from tests.acceptance.starting import SharedClock
from tests.support.real_time import LIMIT

_T = TypeVar("_T")

Part = tuple[Callable[[], Awaitable[bool]], Callable[[], Awaitable[datetime | None]]]
"""Does what is due, and returns when something is due next."""

_ROUNDS_OF_REST = 50
"""So often, some rounds of the event loop apart, no step is found when all that is left awaits a delayed answer."""
DELIVERY_SECONDS = 0.002
"""Real seconds in which a busy operating system hands over what was sent between two tasks of this process."""
_STEPS_TO_WAKE = 5
"""Rounds of the event loop after which a loop that was woken is at work."""
_DELAYED = "a delayed answer"
"""What the emulator's schedule calls an answer that is on its way."""


@dataclass(frozen=True, slots=True)
class Client:
    """The loops of a client, which run side by side, the wakeup that wakes them, and what waits for their tasks."""

    parts: Sequence[Part]
    wakeup: Wakeup
    drains: Sequence[Callable[[], Coroutine[None, None, None]]] = ()


def client_of_bot(bot: Bot) -> Client:
    """The loops of a bot's process."""
    parts = (
        (bot.sweeper.run_due, bot.sweeper.next_due),
        (bot.worker.start_due, bot.worker.next_due),
        (bot.scheduler.start_due, bot.scheduler.next_due),
        (bot.dispatcher.run_due, bot.dispatcher.next_due),
    )
    return Client(parts, bot.engine.wakeup, (bot.worker.drain, bot.scheduler.drain))


def client_of_poller(poller: Poller) -> Client:
    """A poller's one loop."""
    return Client(((poller.run_due, poller.next_due),), Wakeup())


class _AtOnce(ThreadPoolExecutor):
    """Runs each function in the thread that submits it: another thread may work on while the event loop is idle."""

    def submit(self, work: Callable[..., _T], /, *arguments: Any, **named: Any) -> Future[_T]:
        """Do it; what it raises is the outcome."""
        done = Future[_T]()
        try:
            done.set_result(work(*arguments, **named))
        except Exception as error:
            done.set_exception(error)
        return done


class VirtualTime:
    """Drives a stage and one client; made by `virtual_time`."""

    def __init__(self, stage: Stage, clock: SharedClock, client: Client) -> None:
        self._stage = stage
        self._clock = clock
        self._client = client
        self._touches = 0
        self._at_work = 0
        self._in_database = 0
        self._living: asyncio.Task[None] | None = None
        stage.server.on_request = self._request

    async def until(self, true: Callable[[], bool], *, within: timedelta = timedelta(hours=3)) -> None:
        """Let virtual time pass until a condition holds. Raises TimeoutError when it does not `within` that time."""
        schedule, end = self._stage.github.schedule, self._clock.now() + within
        self._wake()
        while True:
            await self._rest()
            if self._living is not None and self._living.done():
                self._living.result()
            if true():
                return
            now = self._clock.now()
            dues = [schedule.next_due(), *[await next_due() for _, next_due in self._client.parts]]
            later = min((due for due in dues if due is not None and due > now), default=end)
            if later >= end:
                raise TimeoutError(f"still not so after {within}; planned: {schedule.pending()[:9]}")
            self._clock.set(later)
            self._wake()

    async def settle(self) -> None:
        """Run all work that is due now or within the next minute."""
        end = self._clock.now() + timedelta(minutes=1)
        self._stage.github.schedule.at(end, self._touch, name="the end of a minute")
        await self.until(lambda: self._clock.now() >= end)

    def start(self) -> asyncio.Task[None]:
        """Start all loops; a loop that fails ends them all, and its error is raised in waiting callers."""
        self._living = asyncio.create_task(self._live())
        return self._living

    def listen(self, *, on: bool) -> None:
        """Start or stop observing the statements of every database of this process."""
        change = event.listen if on else event.remove
        for name, listener in (
            ("before_cursor_execute", self._statement_begins),
            ("after_cursor_execute", self._statement_ends),
            ("commit", self._touch),
            ("checkin", self._touch),
        ):
            change(Pool if name == "checkin" else Engine, name, listener)

    async def _live(self) -> None:
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._stage.github.schedule.run(stop))
            for work, _ in self._client.parts:
                group.create_task(self._loop(work, self._client.wakeup.waiter()))

    async def _loop(self, work: Callable[[], Awaitable[bool]], waiter: WakeupListener) -> None:
        while True:
            self._at_work += 1
            try:
                worked = await work()
            finally:
                self._at_work -= 1
                self._touches += 1
            if not worked:
                await waiter.wait(timedelta(hours=1))

    async def _rest(self) -> None:
        """Return when all tasks wait: nothing is under way, or no statement runs and each request awaits its answer."""
        quiet, touches = 0, self._touches
        async with asyncio.timeout(LIMIT):
            while await self._busy():
                await asyncio.sleep(0)
                quiet = quiet + 1 if touches == self._touches and not self._in_database else 0
                touches = self._touches
                if quiet == _ROUNDS_OF_REST:
                    await asyncio.sleep(DELIVERY_SECONDS)
                elif quiet > _ROUNDS_OF_REST:
                    if _DELAYED in self._stage.github.schedule.pending():
                        return
                    quiet = 0

    async def _busy(self) -> bool:
        for _ in range(_STEPS_TO_WAKE):
            await asyncio.sleep(0)  # a round of the loop, no time
        schedule = self._stage.github.schedule
        due = schedule.next_due()
        if self._at_work or schedule.under_way or (due is not None and due <= self._clock.now()):
            return True
        drains = [asyncio.ensure_future(drain()) for drain in self._client.drains]
        await asyncio.sleep(0)
        busy = not all(drain.done() for drain in drains)
        for drain in drains:
            drain.cancel()
        await asyncio.gather(*drains, return_exceptions=True)
        return busy

    def _wake(self) -> None:
        self._client.wakeup.notify()
        # An appointment for now is what wakes the emulator's schedule, which cannot know that its clock was moved.
        self._stage.github.schedule.at(self._clock.now(), self._touch, name="the clock moved")

    def _touch(self, *_: object) -> None:
        self._touches += 1

    def _statement_begins(self, *_: object) -> None:
        self._touches += 1
        self._in_database += 1

    def _statement_ends(self, *_: object) -> None:
        self._touches += 1
        self._in_database -= 1

    async def _request(self, _exchange: RecordedCall) -> None:
        self._touches += 1


@asynccontextmanager
async def virtual_time(stage: Stage, clock: SharedClock, client: Client) -> AsyncIterator[VirtualTime]:
    """Virtual time for a stage and one client."""
    time = VirtualTime(stage, clock, client)
    asyncio.get_running_loop().set_default_executor(_AtOnce())
    time.listen(on=True)
    living = time.start()
    try:
        yield time
    finally:
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)
        time.listen(on=False)
