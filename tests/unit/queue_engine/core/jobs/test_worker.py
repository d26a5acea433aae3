"""The worker: jobs of one process in their order, of many together, and no more than there is room for.

Covers `queue_engine/core/jobs/outcomes.py`.
"""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from queue_engine.core.concurrency.request_context import RequestContext, RequestPriority, current_work
from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job_store import Job, Jobs, JobStatus
from queue_engine.core.jobs.outcomes import Dead, JobResult
from queue_engine.core.jobs.worker import ResultHandler
from queue_engine.core.observability.trace import continued, ids
from tests.unit.queue_engine.core.recorded_worker import (
    HOUR,
    START,
    Clock,
    RecordedHandler,
    dead,
    depth,
    put,
    results,
    worker_of,
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_worker_does_jobs_of_one_process_in_their_order(database: Database, clock: Clock) -> None:
    """What happened to one pull request is followed in the order in which it was stored."""
    desk = RecordedHandler()
    worker = worker_of(database, clock, {"k": desk})
    names = ["a", "b", "c", "d"]
    await put(database, *names, process_id="one")
    desk.end(*names)
    assert await worker.run_due()
    assert desk.begun == desk.ended == names
    assert await depth(database) == 0


async def test_worker_does_no_two_jobs_of_one_process_at_once(database: Database, clock: Clock) -> None:
    """Not even when a third comes between the end of the first and the end of the second."""
    desk = RecordedHandler()
    worker = worker_of(database, clock, {"k": desk})
    await put(database, "a", "b", process_id="one")
    await worker.start_due()
    await desk.until_begun("a")
    assert desk.begun == ["a"]
    desk.end("a")
    await worker.drain()
    await worker.start_due()
    await desk.until_begun("b")
    await put(database, "c", process_id="one")
    await put(database, "other")
    desk.end("other")
    await worker.start_due()
    await desk.until_begun("other")
    assert "c" not in desk.begun
    desk.end("b", "c")
    await worker.drain()
    await worker.run_due()
    assert [name for name in desk.ended if name != "other"] == ["a", "b", "c"]


async def test_worker_does_jobs_of_different_processes_together(database: Database, clock: Clock) -> None:
    """A slow job of one pull request holds up no other."""
    desk = RecordedHandler()
    worker = worker_of(database, clock, {"k": desk})
    await put(database, "slow", "quick")
    await worker.start_due()
    desk.end("quick")
    await desk.until_begun("slow")
    await desk.until_begun("quick")
    desk.end("slow")
    await worker.drain()
    assert desk.ended == ["quick", "slow"]


async def test_worker_takes_no_more_than_it_has_room_for(database: Database, clock: Clock) -> None:
    """What it cannot begin stays for others, and is taken when there is room."""
    desk = RecordedHandler()
    worker = worker_of(database, clock, {"k": desk}, concurrency=2)
    await put(database, "a", "b", "c")
    desk.end("a", "b", "c")
    assert await worker.start_due()
    await worker.drain()
    assert sorted(desk.ended) == ["a", "b"]
    assert await worker.run_due()
    assert desk.ended[2:] == ["c"]
    assert not await worker.run_due()


async def test_worker_told_to_leave_room_starts_no_more_than_that(database: Database, clock: Clock) -> None:
    """Beside something more urgent a worker takes a small part, and the rest when that is over."""
    desk = RecordedHandler()
    worker = worker_of(database, clock, {"k": desk})
    await put(database, "a", "b", "c", "d")
    assert await worker.start_due(at_most=2)
    await desk.until_begun("b")
    assert not await worker.start_due(at_most=2)
    assert await worker.start_due()
    await desk.until_begun("d")
    desk.end("a", "b", "c", "d")
    await worker.drain()
    assert await depth(database) == 0


async def test_worker_leaves_nothing_of_a_job_that_is_done(database: Database, clock: Clock) -> None:
    """The table stays as small as the work."""
    desk = RecordedHandler()
    desk.end("a")
    await put(database, "a")
    await worker_of(database, clock, {"k": desk}).run_due()
    assert await depth(database) == 0
    assert await results(database, "a") == ()


async def test_worker_keeps_collected_results_for_whoever_takes_them(database: Database, clock: Clock) -> None:
    """A consumer reads and deletes in the transaction in which it stores; nothing of it is a dead letter."""

    async def handle(job: Job) -> JobResult | Dead:
        name = job.request["name"]
        return Dead("broken", retryable=False) if name == "bad" else JobResult({"answer": name})

    worker = worker_of(database, clock, {"k": ResultHandler(handle)})
    await put(database, "good", "bad", process_id="p")
    with capture_logs():
        await worker.run_due()
    async with database.transaction() as connection:
        good, bad = await Jobs(connection).take_results("p")
    assert (good.status, good.response) == (JobStatus.COMPLETED, {"answer": "good"})
    assert (bad.status, bad.error_message) == (JobStatus.FAILED, "broken")
    assert await results(database, "p") == ()
    assert await dead(database) == ()


async def test_worker_does_a_job_within_the_trace_that_it_was_enqueued_in(database: Database, clock: Clock) -> None:
    """A search for a delivery finds all that it caused."""
    found: dict[str, str] = {}

    async def handle(job: Job) -> None:
        found.update(ids())

    with continued(None):
        wanted = ids()["trace_id"]
        await put(database, "a")
    await worker_of(database, clock, {"k": handle}).run_due()
    assert found["trace_id"] == wanted


async def test_worker_tells_when_the_next_job_is_due(database: Database, clock: Clock) -> None:
    """The loop sleeps exactly as long as there is nothing to do."""
    worker = worker_of(database, clock, {})
    assert await worker.next_due() is None
    async with database.transaction() as connection:
        await Jobs(connection).enqueue(kind="k", request={}, process_id="p", now=START, not_before=START + HOUR)
    assert await worker.next_due() == START + HOUR
    assert not await worker.run_due()


async def test_job_is_a_work_with_a_name_that_tells_when_it_comes_back(database: Database, clock: Clock) -> None:
    """What it calls can keep a place for its next try: the same name, and the longest that it may stay away."""
    seen: list[RequestContext] = []

    async def fails(job: Job) -> None:
        seen.append(current_work())
        raise OSError("no")

    worker = worker_of(database, clock, {"k": fails})
    await put(database, "a")
    for _ in range(2):
        await worker.run_due()
        clock.time += timedelta(seconds=5)
    (name,) = {each.holder for each in seen}
    assert name is not None
    assert name.startswith("job:")
    assert [(each.priority, each.again) for each in seen] == [
        (RequestPriority.NOW, timedelta(seconds=1.1)),
        (RequestPriority.NOW, timedelta(seconds=2.2)),
    ]
