import asyncio
from datetime import timedelta

from queue_engine.core.concurrency.wakeup import Wakeup

NEVER = timedelta(hours=1)
AT_ONCE = timedelta(0)


async def test_bell_wakes_everybody_who_waits() -> None:
    """Each loop of the process hears each ring."""
    wakeup = Wakeup()
    waiting = [asyncio.create_task(wakeup.waiter().wait(NEVER)) for _ in range(3)]
    await asyncio.sleep(0)
    wakeup.notify()
    await asyncio.gather(*waiting)


async def test_bell_rung_while_an_ear_is_busy_is_heard_when_it_waits() -> None:
    """A ring between two waits is not lost, for any ear."""
    wakeup = Wakeup()
    ears = [wakeup.waiter(), wakeup.waiter()]
    wakeup.notify()
    for ear in ears:
        await ear.wait(NEVER)


async def test_bell_rung_often_wakes_once() -> None:
    """Rings are not counted: the loop that wakes looks at everything."""
    wakeup = Wakeup()
    ear = wakeup.waiter()
    wakeup.notify()
    wakeup.notify()
    await ear.wait(NEVER)
    waiting = asyncio.create_task(ear.wait(NEVER))
    await asyncio.sleep(0)
    assert not waiting.done()
    wakeup.notify()
    await waiting


async def test_bell_that_does_not_ring_lets_the_loop_go_on_in_time() -> None:
    """The wait is bounded; a time already past is none."""
    ear = Wakeup().waiter()
    await ear.wait(AT_ONCE)
    await ear.wait(-NEVER)
    await ear.wait(timedelta(milliseconds=1))


async def test_bell_rung_about_a_topic_wakes_only_who_listens_for_it() -> None:
    """A burst of jobs wakes no loop that does none; a ring about nothing in particular wakes all."""
    wakeup = Wakeup()
    jobs, letters, none, every = wakeup.waiter({"jobs"}), wakeup.waiter({"letters"}), wakeup.waiter(()), wakeup.waiter()
    wakeup.notify("jobs")
    await asyncio.gather(jobs.wait(NEVER), every.wait(NEVER))
    waiting = [asyncio.create_task(ear.wait(NEVER)) for ear in (letters, none)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    wakeup.notify()
    await asyncio.gather(*waiting)
