import asyncio

import pytest
from structlog.testing import capture_logs

from queue_engine.core.concurrency.tasks import Pool


async def test_pool_counts_its_room() -> None:
    """Room is taken at the start of a task and given back at its end."""
    pool, gate = Pool(2), asyncio.Event()

    async def work() -> None:
        await gate.wait()

    assert pool.free == 2
    pool.start(work())
    pool.start(work())
    assert pool.free == 0
    gate.set()
    await pool.join()
    assert pool.free == 2
    assert [pool.free_within(limit) for limit in (1, 2, 3)] == [1, 2, 2]


async def test_pool_reports_every_end() -> None:
    """A caller with work waiting learns that there is room, however a task ended."""
    ended: list[int] = []

    async def succeed() -> None: ...

    async def fail() -> None:
        raise RuntimeError("broken")

    pool = Pool(3, done=lambda: ended.append(pool.free))
    with capture_logs():
        pool.start(succeed())
        pool.start(fail())
        await pool.join()
    assert ended == [2, 3]
    pool.start(asyncio.Event().wait())  # type: ignore[arg-type]
    await pool.cancel()
    assert ended == [2, 3, 3]


async def test_pool_task_that_raises_is_logged_and_harms_no_other() -> None:
    """One broken task does not stop the loop."""
    done: list[str] = []
    gate = asyncio.Event()

    async def fail() -> None:
        gate.set()
        raise RuntimeError("broken")

    async def work() -> None:
        await gate.wait()
        await asyncio.sleep(0)
        done.append("other")

    pool = Pool(2)
    with capture_logs() as logs:
        pool.start(work())
        pool.start(fail())
        await pool.join()
    assert done == ["other"]
    assert [(log["event"], str(log["exc_info"])) for log in logs] == [("task_failed", "broken")]


async def test_pool_join_waits_for_tasks_started_meanwhile() -> None:
    """Joined means that nothing runs."""
    pool, done = Pool(2), []

    async def second() -> None:
        await asyncio.sleep(0)
        done.append("second")

    async def first() -> None:
        await asyncio.sleep(0)
        pool.start(second())

    pool.start(first())
    await pool.join()
    assert done == ["second"]


async def test_pool_cancel_ends_what_runs_and_waits_for_its_clean_up() -> None:
    """After it nothing of the pool is left running, and nothing is reported as a fault."""
    cleaned: list[str] = []
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("work")

    pool = Pool(1)
    pool.start(work())
    await begun.wait()
    with capture_logs() as logs:
        await pool.cancel()
    assert cleaned == ["work"]
    assert pool.free == 1
    assert logs == []


@pytest.mark.parametrize("act", ["join", "cancel"])
async def test_pool_without_tasks_has_nothing_to_wait_for(act: str) -> None:
    """An idle pool stops at once."""
    await getattr(Pool(1), act)()
