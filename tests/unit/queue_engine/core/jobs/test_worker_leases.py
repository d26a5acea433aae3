"""The worker's leases: who dies loses no job, who works on keeps it, and who lost it settles nothing."""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from queue_engine.core.database.database import Database
from tests.unit.queue_engine.core.recorded_worker import HOUR, START, Clock, RecordedHandler, depth, put, worker_of


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_worker_that_dies_loses_no_job(database: Database, clock: Clock) -> None:
    """A job claimed by the dead comes back when the lease ends."""
    dying, living = RecordedHandler(), RecordedHandler()
    died = worker_of(database, clock, {"k": dying}, owner="died")
    lives = worker_of(database, clock, {"k": living}, owner="lives")
    await put(database, "a")
    await died.start_due()
    await dying.until_begun("a")
    await died.cancel()
    assert not await lives.run_due()
    due = await lives.next_due()
    assert due is not None
    clock.time = due
    living.end("a")
    assert await lives.run_due()
    assert living.ended == ["a"]
    assert await depth(database) == 0


async def test_worker_keeps_its_lease_on_a_long_job(database: Database, clock: Clock) -> None:
    """A job that takes long is not done by two workers; only a dead one's is taken away."""
    handler = RecordedHandler()
    worker = worker_of(database, clock, {"k": handler})
    other = worker_of(database, clock, {"k": handler}, owner="other")
    await put(database, "long")
    await worker.start_due()
    await handler.until_begun("long")
    for _ in range(10):
        await clock.pass_to_next_sleeper()
    # The ninth renewal has been stored once the heart sleeps again, so the lease outlasts this instant.
    assert clock.time > START + timedelta(seconds=60)
    assert not await other.run_due()
    handler.end("long")
    await worker.drain()
    assert handler.begun == ["long"]


async def test_worker_whose_clock_jumped_ahead_continues_its_job_and_does_it_once(
    database: Database, clock: Clock
) -> None:
    """The lease seems to have ended; who holds it takes the job again, and just carries on."""
    handler = RecordedHandler()
    worker = worker_of(database, clock, {"k": handler})
    await put(database, "long")
    await worker.start_due()
    await handler.until_begun("long")
    clock.time += HOUR
    assert await worker.start_due()
    handler.end("long")
    await worker.drain()
    assert handler.begun == handler.ended == ["long"]
    assert await depth(database) == 0


async def test_worker_that_lost_its_lease_settles_nothing(database: Database, clock: Clock) -> None:
    """Too slow a worker finishes in vain: the job belongs to its new holder, and nothing is reported as a fault."""
    slow, quick = RecordedHandler(), RecordedHandler()
    late = worker_of(database, clock, {"k": slow}, owner="late")
    other = worker_of(database, clock, {"k": quick}, owner="other")
    await put(database, "a")
    await late.start_due()
    await slow.until_begun("a")
    clock.time += HOUR
    await other.start_due()
    await quick.until_begun("a")
    slow.end("a")
    with capture_logs() as logs:
        await late.drain()
    assert logs == []
    assert await depth(database) == 1
    quick.end("a")
    await other.drain()
    assert await depth(database) == 0
