"""The monitor looks ever less often at what is pending, and stops by itself."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from queue_engine.core.concurrency.monitor import Monitor
from queue_engine.core.timing.backoff import MONITOR, Backoff, MonitorEntry

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time

    async def sleep(self, duration: timedelta) -> None:
        raise AssertionError("a monitor does not sleep")


class Things:
    """What is watched: whether each is pending, the looks at it, and what happens during the next one."""

    def __init__(self, *names: str) -> None:
        self.clock = Clock()
        self.pending: dict[str, bool] = dict.fromkeys(names, True)
        self.polls: list[tuple[str, float]] = []
        self.failing = 0
        self.given_up: list[tuple[str, str]] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self.monitor = Monitor[str](
            self.poll,
            pending=self.pending.get,
            clock=self.clock,
            random=lambda: 0.5,
            given_up=lambda name, error: self.given_up.append((name, str(error))),
            concurrency=2,
        )

    async def poll(self, name: str) -> None:
        self.polls.append((name, (self.clock.time - NOW).total_seconds()))
        await asyncio.sleep(0)
        self.meanwhile()
        if self.failing:
            self.failing -= 1
            raise OSError("away")

    async def until(self, seconds: float) -> list[float]:
        """Look at what falls due until then; the instants of all looks so far."""
        while (due := await self.monitor.next_due()) is not None and due <= NOW + timedelta(seconds=seconds):
            self.clock.time = max(due, self.clock.time)
            await self.monitor.run_due()
        self.clock.time = NOW + timedelta(seconds=seconds)
        return [round(at, 3) for _, at in self.polls]


def waits(policy: Backoff, polls: int, random: Callable[[], float] = lambda: 0.5) -> list[float]:
    """The waits after each of this many looks that all find it pending."""
    entry, found, now = MonitorEntry.started(NOW), [], NOW
    for _ in range(polls):
        entry = entry.answered(policy, now, random)
        found.append(round((entry.next_at - now).total_seconds(), 4))
        now = entry.next_at
    return found


def test_monitor_waits_a_second_and_then_a_fifth_longer_each_time_up_to_a_minute() -> None:
    """The figures of the design: 1 s, x1.2, a maximum."""
    assert waits(MONITOR, 5) == [1, 1.2, 1.44, 1.728, 2.0736]
    assert waits(MONITOR, 40)[-1] == 60


@given(st.integers(0, 60), st.floats(0, 1, exclude_max=True))
def test_monitor_wait_varies_by_a_tenth_within_its_bounds(polls: int, chance: float) -> None:
    """Jitter is a tenth to either side, and leaves neither minimum nor maximum."""
    plain, varied = waits(MONITOR, polls + 1)[-1], waits(MONITOR, polls + 1, lambda: chance)[-1]
    assert 0.9 * plain - 0.001 <= varied <= 1.1 * plain + 0.001
    assert 1 <= varied <= 60


def test_monitor_entry_of_the_sixth_error_in_a_row_is_none() -> None:
    """Five errors are borne, an answer forgets them, more than five in a row end it; the waits grow all the while."""
    entry: MonitorEntry | None = MonitorEntry.started(NOW)
    for errors in (1, 2, 3, 4, 5):
        assert entry is not None
        entry = entry.failed(MONITOR, NOW)
        assert entry is not None
        assert (entry.errors, entry.polls) == (errors, errors)
    assert entry is not None
    assert entry.failed(MONITOR, NOW) is None
    assert entry.answered(MONITOR, NOW).errors == 0


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["answer", "error", "reset"]), max_size=30))
def test_monitor_entry_follows_a_plain_count(events: list[str]) -> None:
    """Whatever comes in whatever order: errors in a row and looks since the last reset decide, and nothing else."""
    entry: MonitorEntry | None = MonitorEntry.started(NOW)
    polls = errors = 0
    for event in events:
        assert entry is not None
        if event == "reset":
            entry, polls, errors = MonitorEntry.started(NOW), 0, 0
            assert entry.next_at == NOW
            continue
        errors = errors + 1 if event == "error" else 0
        entry = entry.failed(MONITOR, NOW) if event == "error" else entry.answered(MONITOR, NOW)
        if errors == 6:
            assert entry is None
            return
        polls += 1
        assert entry is not None
        assert (entry.polls, entry.errors) == (polls, errors)
        assert entry.next_at - NOW == min(SECOND * 1.2 ** (polls - 1), timedelta(minutes=1))


async def test_monitor_polls_at_once_and_then_in_growing_waits() -> None:
    """One entry per thing: a second start adds no poll and resets nothing."""
    things = Things("a")
    assert things.monitor.start("a")
    assert things.monitor.start("a")
    assert await things.until(3) == [0, 1, 2.2]
    assert things.monitor.start("a")
    assert await things.until(6) == [0, 1, 2.2, 3.64, 5.368]


async def test_monitor_of_what_is_not_pending_is_not_started() -> None:
    """Neither for a thing that has ended nor for an unknown one."""
    things = Things("ended")
    things.pending["ended"] = False
    assert not things.monitor.start("ended")
    assert not things.monitor.start("unknown")
    things.monitor.reset("unknown")
    assert await things.monitor.next_due() is None


async def test_monitor_stops_by_itself_when_the_thing_ends_or_goes() -> None:
    """The poll itself finds the end, or others reported it before: then the monitor does not poll."""
    things = Things("a", "b", "c")
    for name in things.pending:
        things.monitor.start(name)
    await things.until(0)
    things.pending["a"] = False
    del things.pending["b"]
    things.meanwhile = lambda: things.pending.update(c=False)
    await things.until(60)
    assert [name for name, at in things.polls if at > 0] == ["c"]
    assert not any(name in things.monitor for name in "abc")


async def test_monitor_reset_polls_at_once_and_continues_from_the_shortest_wait() -> None:
    """A person pressed the button."""
    things = Things("a")
    things.monitor.start("a")
    before = await things.until(30)
    things.monitor.reset("a")
    assert (await things.until(32.5))[len(before) :] == [30, 31, 32.2]


async def test_monitor_reset_during_a_poll_counts_more_than_that_poll() -> None:
    """A request of meanwhile is carried out, and an error of the poll before it is forgotten."""
    things = Things("a")
    things.monitor.start("a")
    things.failing = 1

    def press() -> None:
        things.meanwhile = lambda: None
        things.monitor.reset("a")

    things.meanwhile = press
    assert await things.until(1.5) == [0, 0, 1]
    things.failing = 4
    await things.until(60)
    assert things.given_up == []


async def test_monitor_stopped_during_a_poll_stays_stopped() -> None:
    """The poll under way brings nothing back."""
    things = Things("a")
    things.monitor.start("a")
    things.meanwhile = lambda: things.monitor.stop("a")
    assert await things.until(60) == [0]


async def test_monitor_gives_up_after_more_than_five_errors_in_a_row_and_says_so() -> None:
    """And may be started again."""
    things = Things("a")
    things.failing = 6
    things.monitor.start("a")
    assert await things.until(60) == [0, 1, 2.2, 3.64, 5.368, 7.442]
    assert things.given_up == [("a", "away")]
    assert things.monitor.start("a")
    assert (await things.until(61))[6:] == [60, 61]


async def test_monitor_success_forgets_the_errors_before_it() -> None:
    """Four, an answer, four: still watched."""
    things = Things("a")
    things.monitor.start("a")
    for _ in range(3):
        things.failing = 4
        before = len(things.polls)
        while len(things.polls) < before + 5:
            things.clock.time = await things.monitor.next_due() or NOW
            await things.monitor.run_due()
    assert things.given_up == []
    assert "a" in things.monitor


async def test_monitor_error_of_a_thing_that_ended_meanwhile_is_ignored() -> None:
    """It is not pending any more: nothing is given up."""
    things = Things("a")
    things.failing = 5
    things.monitor.start("a")
    things.meanwhile = lambda: things.pending.update(a=len(things.polls) < 5)
    await things.until(60)
    assert things.given_up == []


async def test_monitor_polls_a_bounded_number_at_once_and_forgets_none() -> None:
    """The one that is due longest goes first."""
    things = Things("a", "b", "c")
    most = 0
    under_way = 0

    async def poll(name: str) -> None:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        things.polls.append((name, 0))

    monitor = Monitor[str](poll, pending=things.pending.get, clock=things.clock, random=lambda: 0.5, concurrency=2)
    for name in "abc":
        monitor.start(name)
    while await monitor.run_due():
        pass
    assert (most, [name for name, _ in things.polls]) == (2, ["a", "b", "c"])


def test_monitor_waits_never_shrink_without_jitter() -> None:
    """Stepwise and only upwards, until somebody resets it."""
    assert all(a <= b for a, b in pairwise(waits(MONITOR, 60)))
