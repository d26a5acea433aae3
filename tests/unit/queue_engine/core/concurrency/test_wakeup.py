import asyncio
from datetime import timedelta

import pytest

from queue_engine.core.concurrency.wakeup import Wakeup, WakeupListener

NEVER = timedelta(hours=1)
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


async def left(wakeup: Wakeup, waiter: WakeupListener) -> bool:
    """Leave work to another process as long as the waiter does; the test waits for none of it."""
    wakeup.notify("jobs", by_other=True)
    waiter.delay, before = timedelta(microseconds=1), waiter.delay
    try:
        return not await waiter.wait(NEVER)
    finally:
        waiter.delay = before


@pytest.mark.process
async def test_loop_leaves_work_of_other_processes_to_them_longer_until_it_finds_some() -> None:
    """Of several workers one does the work; the others check whether it is done, and again after a second at most."""
    wakeup = Wakeup()
    waiter, delays = wakeup.waiter({"jobs"}, shared=True), list[timedelta]()
    for _ in range(4):
        delays.append(waiter.delay)
        assert await left(wakeup, waiter)
        waiter.served(found=False)
    assert delays == [timedelta(milliseconds=each) for each in (250, 500, 1000, 1000)]
    assert await left(wakeup, waiter)
    waiter.served(found=True)
    assert waiter.delay == delays[0]


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
