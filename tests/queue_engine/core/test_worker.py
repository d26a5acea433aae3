import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from queue_engine.core.database import Database
from queue_engine.core.jobs import Job, Jobs, JobStatus
from queue_engine.core.worker import Handler, Hold, Worker

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


class Clock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.time = START
        self._sleepers: dict[asyncio.Event, datetime] = {}
        self._stirred = asyncio.Condition()

    def now(self) -> datetime:
        return self.time

    async def sleep(self, duration: timedelta) -> None:
        over = asyncio.Event()
        self._sleepers[over] = self.time + duration
        async with self._stirred:
            self._stirred.notify_all()
        await over.wait()

    async def pass_to_next_sleeper(self) -> None:
        """Wait until somebody sleeps, then move the time to the first one's end and wake it."""
        async with asyncio.timeout(5), self._stirred:
            await self._stirred.wait_for(lambda: self._sleepers)
        over = min(self._sleepers, key=lambda sleeper: self._sleepers[sleeper])
        self.time = self._sleepers.pop(over)
        over.set()


class Desk:
    """A handler whose jobs begin, and end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}
        self._stirred = asyncio.Condition()

    async def __call__(self, job: Job) -> None:
        name = job.request["name"]
        self.begun.append(name)
        async with self._stirred:
            self._stirred.notify_all()
        await self._gate(name).wait()
        self.ended.append(name)

    def end(self, *names: str) -> None:
        """Let these jobs end, now or when they begin."""
        for name in names:
            self._gate(name).set()

    async def until_begun(self, name: str) -> None:
        """Return when this job has begun."""
        async with asyncio.timeout(5), self._stirred:
            await self._stirred.wait_for(lambda: name in self.begun)

    def _gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())


@pytest.fixture
def clock() -> Clock:
    return Clock()


def worker_of(
    database: Database, clock: Clock, handlers: Mapping[str, Handler], *, owner: str = "w1", concurrency: int = 16
) -> Worker:
    return Worker(database, clock, handlers, owner=owner, random=lambda: 0.5, concurrency=concurrency)


async def put(database: Database, *names: str, process_id: str | None = None, kind: str = "k") -> None:
    """Enqueue jobs, each of a process of its own unless one is given."""
    async with database.transaction() as connection:
        for name in names:
            await Jobs(connection).enqueue(kind=kind, request={"name": name}, process_id=process_id or name, now=START)


async def depth(database: Database) -> int:
    async with database.reading() as connection:
        return await Jobs(connection).depth()


async def results(database: Database, process_id: str) -> tuple[Job, ...]:
    async with database.reading() as connection:
        return await Jobs(connection).get_results(process_id)


async def test_worker_does_jobs_of_one_process_in_their_order(database: Database, clock: Clock) -> None:
    """What happened to one pull request is followed in the order in which it was stored."""
    desk = Desk()
    worker = worker_of(database, clock, {"k": desk})
    names = ["a", "b", "c", "d"]
    await put(database, *names, process_id="one")
    desk.end(*names)
    assert await worker.run_due()
    assert desk.begun == desk.ended == names
    assert await depth(database) == 0


async def test_worker_does_no_two_jobs_of_one_process_at_once(database: Database, clock: Clock) -> None:
    """Not even when a third comes between the end of the first and the end of the second."""
    desk = Desk()
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
    desk = Desk()
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
    desk = Desk()
    worker = worker_of(database, clock, {"k": desk}, concurrency=2)
    await put(database, "a", "b", "c")
    desk.end("a", "b", "c")
    assert await worker.start_due()
    await worker.drain()
    assert sorted(desk.ended) == ["a", "b"]
    assert await worker.run_due()
    assert desk.ended[2:] == ["c"]
    assert not await worker.run_due()


async def test_worker_leaves_nothing_of_a_job_that_is_done(database: Database, clock: Clock) -> None:
    """The table stays as small as the work."""
    desk = Desk()
    desk.end("a")
    await put(database, "a")
    await worker_of(database, clock, {"k": desk}).run_due()
    assert await depth(database) == 0
    assert await results(database, "a") == ()


async def test_worker_held_job_comes_again_and_counts_no_attempt(database: Database, clock: Clock) -> None:
    """GitHub's limits are nobody's fault: held as often as they ask, a job is never given up."""
    attempts: list[int] = []

    async def hold(job: Job) -> Hold | None:
        attempts.append(job.attempt)
        return Hold(HOUR) if len(attempts) <= 20 else None

    worker = worker_of(database, clock, {"k": hold})
    await put(database, "a")
    for _ in range(20):
        assert await worker.run_due()
        assert await worker.next_due() == clock.time + HOUR
        assert not await worker.run_due()
        clock.time += HOUR
    assert await worker.run_due()
    assert attempts == [0] * 21
    assert await depth(database) == 0


async def test_worker_retries_a_failure_with_growing_waits_and_keeps_it_at_last(
    database: Database, clock: Clock
) -> None:
    """A bound for every retry (P5); what failed for good stays to be seen, with its error."""

    async def fail(job: Job) -> None:
        raise RuntimeError("no luck")

    worker = worker_of(database, clock, {"k": fail})
    await put(database, "a")
    waits: list[timedelta] = []
    with capture_logs() as logs:
        while (due := await worker.next_due()) is not None:
            waits.append(due - clock.time)
            assert due > clock.time or not waits[1:], "a failed job may not come back at once"
            clock.time = due
            await worker.run_due()
    waits = waits[1:]
    assert waits[:4] == [SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND]
    assert waits == sorted(waits)
    assert len(waits) == 11
    assert sum(waits, timedelta(0)) < HOUR
    (kept,) = await results(database, "a")
    assert (kept.status, kept.attempt, kept.error_message) == (JobStatus.FAILED, 12, "RuntimeError: no luck")
    assert [log["log_level"] for log in logs] == ["warning"] * 11 + ["error"]


async def test_worker_failing_job_harms_no_other(database: Database, clock: Clock) -> None:
    """One poisoned delivery stops neither its worker nor the deliveries beside and behind it."""
    done: list[str] = []

    async def handle(job: Job) -> None:
        if job.request["name"] == "bad":
            raise ValueError("bad")
        done.append(job.request["name"])

    await put(database, "bad", "behind", process_id="one")
    await put(database, "beside")
    with capture_logs():
        await worker_of(database, clock, {"k": handle}).run_due()
    assert sorted(done) == ["behind", "beside"]
    assert await depth(database) == 1


async def test_worker_job_of_an_unknown_kind_fails_like_any_other(database: Database, clock: Clock) -> None:
    """After a downgrade: kept and retried, for the version that knows it; the others go on."""
    desk = Desk()
    desk.end("known")
    await put(database, "unknown", kind="of the future")
    await put(database, "known")
    with capture_logs():
        await worker_of(database, clock, {"k": desk}).run_due()
    assert desk.ended == ["known"]
    assert await depth(database) == 1


async def test_worker_that_dies_loses_no_job(database: Database, clock: Clock) -> None:
    """A job claimed by the dead comes back when the lease ends, without a failure to its name."""
    dying, living = Desk(), Desk()
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
    desk = Desk()
    worker = worker_of(database, clock, {"k": desk})
    other = worker_of(database, clock, {"k": desk}, owner="other")
    await put(database, "long")
    await worker.start_due()
    await desk.until_begun("long")
    for _ in range(10):
        await clock.pass_to_next_sleeper()
    # The ninth renewal has been stored once the heart sleeps again, so the lease outlasts this instant.
    assert clock.time > START + timedelta(seconds=60)
    assert not await other.run_due()
    desk.end("long")
    await worker.drain()
    assert desk.begun == ["long"]


async def test_worker_that_lost_its_lease_settles_nothing(database: Database, clock: Clock) -> None:
    """Too slow a worker finishes in vain: the job belongs to whoever has it now, and nothing is reported as a fault."""
    slow, quick = Desk(), Desk()
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


async def test_worker_tells_when_the_next_job_is_due(database: Database, clock: Clock) -> None:
    """The loop sleeps exactly as long as there is nothing to do."""
    worker = worker_of(database, clock, {})
    assert await worker.next_due() is None
    async with database.transaction() as connection:
        await Jobs(connection).enqueue(kind="k", request={}, process_id="p", now=START, not_before=START + HOUR)
    assert await worker.next_due() == START + HOUR
    assert not await worker.run_due()
