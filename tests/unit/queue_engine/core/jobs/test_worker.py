"""The worker: jobs of one process in their order, of many together, and no more than there is room for."""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from queue_engine.core.concurrency.request_context import RequestContext, RequestPriority, current_work
from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job import Dead, Job, JobResult, JobStatus
from queue_engine.core.jobs.job_store import Jobs
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
    handler = RecordedHandler()
    worker = worker_of(database, clock, {"k": handler})
    names = ["a", "b", "c", "d"]
    await put(database, *names, process_id="one")
    handler.end(*names)
    assert await worker.run_due()
    assert handler.begun == handler.ended == names
    assert await depth(database) == 0


async def test_worker_does_no_two_jobs_of_one_process_at_once(database: Database, clock: Clock) -> None:
    """Not even when a third comes between the end of the first and the end of the second."""
    handler = RecordedHandler()
    worker = worker_of(database, clock, {"k": handler})
    await put(database, "a", "b", process_id="one")
    await worker.start_due()
    await handler.until_begun("a")
    assert handler.begun == ["a"]
    handler.end("a")
    await worker.drain()
    await worker.start_due()
    await handler.until_begun("b")
    await put(database, "c", process_id="one")
    await put(database, "other")
    handler.end("other")
    await worker.start_due()
    await handler.until_begun("other")
    assert "c" not in handler.begun
    handler.end("b", "c")
    await worker.drain()
    await worker.run_due()
    assert [name for name in handler.ended if name != "other"] == ["a", "b", "c"]


async def test_worker_does_jobs_of_different_processes_together(database: Database, clock: Clock) -> None:
    """A slow job of one pull request holds up no other."""
    handler = RecordedHandler()
    worker = worker_of(database, clock, {"k": handler})
    await put(database, "slow", "quick")
    await worker.start_due()
    handler.end("quick")
    await handler.until_begun("slow")
    await handler.until_begun("quick")
    handler.end("slow")
    await worker.drain()
    assert handler.ended == ["quick", "slow"]


async def test_worker_takes_no_more_than_it_has_room_for(database: Database, clock: Clock) -> None:
    """What it cannot begin stays for others, and is taken when there is room."""
    handler = RecordedHandler()
    worker = worker_of(database, clock, {"k": handler}, concurrency=2)
    await put(database, "a", "b", "c")
    handler.end("a", "b", "c")
    assert await worker.start_due()
    await worker.drain()
    assert sorted(handler.ended) == ["a", "b"]
    assert await worker.run_due()
    assert handler.ended[2:] == ["c"]
    assert not await worker.run_due()


async def test_worker_that_leaves_room_starts_no_more_than_its_share(database: Database, clock: Clock) -> None:
    """Beside something more urgent a worker takes a small part, and the rest when that is over."""
    handler = RecordedHandler()
    worker = worker_of(database, clock, {"k": handler})
    await put(database, "a", "b", "c", "d")
    assert await worker.start_due(at_most=2)
    await handler.until_begun("b")
    assert not await worker.start_due(at_most=2)
    assert await worker.start_due()
    await handler.until_begun("d")
    handler.end("a", "b", "c", "d")
    await worker.drain()
    assert await depth(database) == 0


async def test_worker_leaves_nothing_of_a_job_that_is_done(database: Database, clock: Clock) -> None:
    """The table stays as small as the work."""
    handler = RecordedHandler()
    handler.end("a")
    await put(database, "a")
    await worker_of(database, clock, {"k": handler}).run_due()
    assert await depth(database) == 0
    assert await results(database, "a") == ()


async def test_worker_keeps_collected_results_for_their_consumer(database: Database, clock: Clock) -> None:
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


async def test_worker_returns_when_the_next_job_is_due(database: Database, clock: Clock) -> None:
    """The loop sleeps exactly as long as there is nothing to do."""
    worker = worker_of(database, clock, {})
    assert await worker.next_due() is None
    async with database.transaction() as connection:
        await Jobs(connection).enqueue(kind="k", request={}, process_id="p", now=START, not_before=START + HOUR)
    assert await worker.next_due() == START + HOUR
    assert not await worker.run_due()


async def test_job_sets_the_work_context_with_its_name_and_its_longest_wait(database: Database, clock: Clock) -> None:
    """What it calls can keep a place for its next try: the same name, and the longest that it may stay away."""
    contexts: list[RequestContext] = []

    async def fails(job: Job) -> None:
        contexts.append(current_work())
        raise OSError("no")

    worker = worker_of(database, clock, {"k": fails})
    await put(database, "a")
    for _ in range(2):
        await worker.run_due()
        clock.time += timedelta(seconds=5)
    (name,) = {each.holder for each in contexts}
    assert name is not None
    assert name.startswith("job:")
    assert [(each.priority, each.again) for each in contexts] == [
        (RequestPriority.NOW, timedelta(seconds=1.1)),
        (RequestPriority.NOW, timedelta(seconds=2.2)),
    ]
