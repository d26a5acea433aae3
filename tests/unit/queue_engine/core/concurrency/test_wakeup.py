import asyncio
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.core.concurrency import wakeup
from queue_engine.core.concurrency.wakeup import Wakeup
from queue_engine.core.database.listener import DatabaseListener, DatabaseNotifier

NEVER = timedelta(seconds=10)
"""Longer than any of these tests takes: one whose wakeup is lost fails then."""
AT_ONCE = timedelta(0)


async def test_wakeup_wakes_all_waiters() -> None:
    """Each loop of the process gets each notification."""
    wakeup = Wakeup()
    waiting = [asyncio.create_task(wakeup.waiter().wait(NEVER)) for _ in range(3)]
    await asyncio.sleep(0)
    wakeup.notify()
    await asyncio.gather(*waiting)


async def test_wakeup_notified_while_a_waiter_is_busy_wakes_it_at_its_next_wait() -> None:
    """A notification between two waits is not lost, for any waiter."""
    wakeup = Wakeup()
    waiters = [wakeup.waiter(), wakeup.waiter()]
    wakeup.notify()
    for waiter in waiters:
        await waiter.wait(NEVER)


async def test_wakeup_notified_often_wakes_once() -> None:
    """Notifications are not counted: the loop that wakes checks all its work."""
    wakeup = Wakeup()
    waiter = wakeup.waiter()
    wakeup.notify()
    wakeup.notify()
    await waiter.wait(NEVER)
    waiting = asyncio.create_task(waiter.wait(NEVER))
    await asyncio.sleep(0)
    assert not waiting.done()
    wakeup.notify()
    await waiting


@pytest.mark.process
async def test_wait_ends_in_time_without_a_notification() -> None:
    """The wait is bounded; a time already past is none."""
    waiter = Wakeup().waiter()
    await waiter.wait(AT_ONCE)
    await waiter.wait(-NEVER)
    await waiter.wait(timedelta(milliseconds=1))


async def test_wakeup_of_a_topic_wakes_only_its_waiters() -> None:
    """A burst of jobs wakes no loop that does none; a notification without a topic wakes all."""
    wakeup = Wakeup()
    jobs, letters, none, every = wakeup.waiter({"jobs"}), wakeup.waiter({"letters"}), wakeup.waiter(()), wakeup.waiter()
    wakeup.notify("jobs")
    await asyncio.gather(jobs.wait(NEVER), every.wait(NEVER))
    waiting = [asyncio.create_task(waiter.wait(NEVER)) for waiter in (letters, none)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    wakeup.notify()
    await asyncio.gather(*waiting)


async def test_loop_leaves_work_of_other_processes_to_them_longer_until_it_finds_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of several workers one does the work; the others check whether it is done, and again after a second at most."""
    waited = list[timedelta]()

    async def end_at_once(event: asyncio.Event, at_most: timedelta) -> bool:
        waited.append(at_most)
        return event.is_set()

    monkeypatch.setattr(wakeup, "_set_within", end_at_once)
    wakeups = Wakeup()
    waiter = wakeups.waiter({"jobs"}, shared=True)
    for found in (False, False, False, False, True, False):
        wakeups.notify("jobs", by_other=True)
        assert not await waiter.wait(NEVER)
        waiter.served(found=found)
    assert waited[::2] == [NEVER] * 6
    assert waited[1::2] == [timedelta(milliseconds=each) for each in (250, 500, 1000, 1000, 1000, 250)]


def test_note_of_a_commit_is_work_for_the_first_worker_if_a_web_sent_it_and_for_its_sender_otherwise() -> None:
    """Any other process leaves the work to that one; after a new connection all may have missed some."""
    received = list[tuple[str | None, bool]]()
    nothing: Any = None

    def notify(topic: str | None, *, by_other: bool) -> None:
        received.append((topic, by_other))

    own = DatabaseNotifier()
    listener = DatabaseListener(nothing, own, notify, clock=nothing, random=nothing)
    listener._receive(f"{own._name} worker proof")
    assert (listener.connected, received.pop()) == (True, (None, True))
    for listener._first in (True, False):
        for sender in ("web", "worker"):
            listener._receive(f"another {sender} jobs")
            assert received.pop() == ("jobs", (listener._first, sender) != (True, "web"))


async def test_loop_whose_work_each_process_does_leaves_none_to_others() -> None:
    """Every web shows its own readers what happened."""
    wakeup = Wakeup()
    waiter = wakeup.waiter({"timeline"})
    wakeup.notify("timeline", by_other=True)
    assert await waiter.wait(NEVER)
    assert waiter.delay == timedelta(0)


async def test_own_wakeup_is_never_delayed_nor_counted() -> None:
    """What this process stored itself is due here at once."""
    wakeup = Wakeup()
    waiter = wakeup.waiter(shared=True)
    wakeup.notify(by_other=True)
    waiter.delay = NEVER
    waiting = asyncio.create_task(waiter.wait(NEVER))
    await asyncio.sleep(0)
    wakeup.notify()
    assert await waiting
    waiter.served(found=False)
    assert waiter.delay == NEVER
