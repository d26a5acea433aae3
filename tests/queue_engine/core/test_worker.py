import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from queue_engine.core.database import Database
from queue_engine.core.dead_letters import DeadLetter, DeadLetters
from queue_engine.core.jobs import Job, Jobs, JobStatus
from queue_engine.core.outcomes import Dead, Done, Hold, Outcome, Retry
from queue_engine.core.trace import continued, ids
from queue_engine.core.urgency import Priority, Work, work
from queue_engine.core.worker import Collected, Handler, Worker

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
LEASE = timedelta(seconds=30)
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


class Counted:
    """A meter that remembers what it was told."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.times: dict[tuple[str, str], list[float]] = {}

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counts[name, labels["kind"]] += int(amount)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        self.times.setdefault((name, labels["kind"]), []).append(seconds)


def worker_of(
    database: Database,
    clock: Clock,
    handlers: Mapping[str, Handler | Collected],
    *,
    owner: str = "w1",
    concurrency: int = 16,
    passing: Callable[[Exception], bool] = lambda error: True,
    meter: Counted | None = None,
) -> Worker:
    return Worker(
        database,
        clock,
        handlers,
        owner=owner,
        random=lambda: 0.5,
        concurrency=concurrency,
        passing=passing,
        meter=meter or Counted(),
    )


async def put(database: Database, *names: str, process_id: str | None = None, kind: str = "k") -> None:
    """Enqueue jobs, each of a process of its own unless one is given."""
    async with database.transaction() as connection:
        for name in names:
            await Jobs(connection).enqueue(kind=kind, request={"name": name}, process_id=process_id or name, now=START)


async def depth(database: Database) -> int:
    async with database.reading() as connection:
        return await Jobs(connection).depth()


async def dead(database: Database) -> tuple[DeadLetter, ...]:
    async with database.reading() as connection:
        return await DeadLetters(connection).list(100)


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


async def test_worker_told_to_leave_room_starts_no_more_than_that(database: Database, clock: Clock) -> None:
    """Beside something more urgent a worker takes a small part, and the rest when that is over."""
    desk = Desk()
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
    desk = Desk()
    desk.end("a")
    await put(database, "a")
    await worker_of(database, clock, {"k": desk}).run_due()
    assert await depth(database) == 0
    assert await results(database, "a") == ()


async def test_worker_held_job_comes_again_and_counts_no_attempt(database: Database, clock: Clock) -> None:
    """GitHub's limits are nobody's fault: held as often as they ask, a job is never given up."""
    attempts: list[int] = []

    async def hold(job: Job) -> Outcome | None:
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


async def test_worker_retries_a_failure_with_growing_waits_and_buries_it_at_last(
    database: Database, clock: Clock
) -> None:
    """A bound for every retry (P5); what failed for good stays to be seen, with its error."""

    async def fail(job: Job) -> None:
        raise RuntimeError("no luck")

    meter = Counted()
    worker = worker_of(database, clock, {"k": fail}, meter=meter)
    await put(database, "a")
    waits: list[timedelta] = []
    with capture_logs() as logs:
        while (due := await worker.next_due()) is not None:
            waits.append(due - clock.time)
            clock.time = due
            await worker.run_due()
    seconds = [timedelta(seconds=n) for n in (0, 1, 2, 4)]
    assert waits == [*seconds, *(n * MINUTE for n in (2, 4, 8, 16, 32))]
    (letter,) = await dead(database)
    assert (letter.job_type, letter.process_id, letter.payload) == ("k", "a", {"name": "a"})
    assert (letter.attempts, letter.error_message, letter.retryable) == (9, "RuntimeError: no luck", True)
    assert (letter.created_at, letter.failed_at) == (START, clock.time)
    assert await depth(database) == 0
    assert await results(database, "a") == ()
    assert [log["event"] for log in logs if log["log_level"] == "error"] == ["job_dead"]
    assert meter.counts == {("jobs_retried", "k"): 8, ("jobs_dead", "k"): 1}


async def test_worker_buries_at_once_what_cannot_pass(database: Database, clock: Clock) -> None:
    """A refusal is not asked for again, and is not among those that are worth doing again as they are."""

    async def refuse(job: Job) -> None:
        raise PermissionError("no")

    worker = worker_of(database, clock, {"k": refuse}, passing=lambda error: not isinstance(error, PermissionError))
    await put(database, "a")
    with capture_logs():
        await worker.run_due()
    (letter,) = await dead(database)
    assert (letter.attempts, letter.error_message, letter.retryable) == (1, "PermissionError: no", False)
    assert await depth(database) == 0


@pytest.mark.parametrize("retryable", [True, False])
async def test_worker_buries_what_its_handler_calls_dead(database: Database, clock: Clock, retryable: bool) -> None:
    """A handler that knows better than an error can tell says so itself."""

    async def give_up(job: Job) -> Dead:
        return Dead("nobody knows it", retryable=retryable)

    await put(database, "a")
    with capture_logs():
        await worker_of(database, clock, {"k": give_up}).run_due()
    (letter,) = await dead(database)
    assert (letter.error_message, letter.retryable) == ("nobody knows it", retryable)


async def test_worker_retries_after_the_wait_that_its_handler_names(database: Database, clock: Clock) -> None:
    """Whoever was asked to wait knows better than the series how long; it is an attempt all the same."""
    attempts: list[int] = []

    async def handle(job: Job) -> Retry | None:
        attempts.append(job.attempt)
        return Retry("busy", delay=HOUR) if len(attempts) == 1 else None

    meter = Counted()
    worker = worker_of(database, clock, {"k": handle}, meter=meter)
    await put(database, "a")
    with capture_logs():
        await worker.run_due()
        assert await worker.next_due() == START + HOUR
        clock.time += HOUR + 2 * SECOND
        await worker.run_due()
    assert attempts == [0, 1]
    assert meter.counts == {("jobs_retried", "k"): 1, ("jobs_done", "k"): 1, ("jobs_recovered", "k"): 1}
    assert meter.times["job_delay", "k"] == [2.0], "from the instant that it was due"


async def test_worker_keeps_collected_results_for_whoever_takes_them(database: Database, clock: Clock) -> None:
    """A consumer reads and deletes in the transaction in which it stores; nothing of it is a dead letter."""

    async def handle(job: Job) -> Done | Dead:
        name = job.request["name"]
        return Dead("broken", retryable=False) if name == "bad" else Done({"answer": name})

    worker = worker_of(database, clock, {"k": Collected(handle)})
    await put(database, "good", "bad", process_id="p")
    with capture_logs():
        await worker.run_due()
    async with database.transaction() as connection:
        good, bad = await Jobs(connection).take_results("p")
    assert (good.status, good.response) == (JobStatus.COMPLETED, {"answer": "good"})
    assert (bad.status, bad.error_message) == (JobStatus.FAILED, "broken")
    assert await results(database, "p") == ()
    assert await dead(database) == ()


async def live_and_let_poison_kill(database: Database, clock: Clock, life: int) -> Desk:
    """A worker's life: it takes what is due and ends its jobs, unless one of them ends it."""
    desk = Desk()
    worker = worker_of(database, clock, {"k": desk}, owner=f"w{life}")
    with capture_logs():
        await worker.start_due()
        for _ in range(10):
            await asyncio.sleep(0)
        if "poison" in desk.begun:
            await worker.cancel()
        else:
            desk.end(*desk.begun)
            await worker.drain()
    clock.time += LEASE
    return desk


async def test_worker_gives_a_job_up_that_ends_its_worker_again_and_again(database: Database, clock: Clock) -> None:
    """A poisoned job has a bound as well: after nine dead workers it is kept for a person, and not begun again."""
    await put(database, "poison")
    lives = [await live_and_let_poison_kill(database, clock, life) for life in range(12)]
    assert [desk.begun for desk in lives] == [["poison"]] * 9 + [[]] * 3
    (letter,) = await dead(database)
    assert (letter.attempts, letter.retryable) == (9, False)
    assert letter.error_message == "Given up after 9 tries: its worker ended while it was done."
    assert await depth(database) == 0


async def test_worker_poisoned_job_takes_no_other_along(database: Database, clock: Clock) -> None:
    """What was under way beside it each time is told apart from it, and done."""
    await put(database, "a", "b", "poison", "c", "d")
    lives = [await live_and_let_poison_kill(database, clock, life) for life in range(20)]
    assert sorted(name for desk in lives for name in desk.ended) == ["a", "b", "c", "d"]
    assert [letter.payload["name"] for letter in await dead(database)] == ["poison"]


async def test_worker_starts_no_second_suspect_beside_the_first(database: Database, clock: Clock) -> None:
    """Not even later, while the first still runs."""
    await put(database, "a", "b")
    for life in range(3):
        died = worker_of(database, clock, {"k": Desk()}, owner=f"w{life}")
        await died.start_due()
        await died.cancel()
        clock.time += LEASE
    desk = Desk()
    worker = worker_of(database, clock, {"k": desk}, owner="lives")
    await worker.start_due()
    await desk.until_begun("a")
    clock.time += LEASE / 2
    assert await worker.start_due()
    desk.end("a", "b")
    await worker.drain()
    assert desk.ended == ["a"]
    clock.time += LEASE / 2
    await worker.run_due()
    assert desk.ended == ["a", "b"]


async def test_worker_does_a_job_within_the_trace_that_it_was_enqueued_in(database: Database, clock: Clock) -> None:
    """Whoever looks for a delivery finds all that it caused."""
    found: dict[str, str] = {}

    async def handle(job: Job) -> None:
        found.update(ids())

    with continued(None):
        wanted = ids()["trace_id"]
        await put(database, "a")
    await worker_of(database, clock, {"k": handle}).run_due()
    assert found["trace_id"] == wanted


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
    """A job claimed by the dead comes back when the lease ends."""
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


async def test_worker_whose_clock_jumped_ahead_goes_on_with_its_job_and_does_it_once(
    database: Database, clock: Clock
) -> None:
    """The lease seems to have ended; who holds it takes the job again, and just carries on."""
    desk = Desk()
    worker = worker_of(database, clock, {"k": desk})
    await put(database, "long")
    await worker.start_due()
    await desk.until_begun("long")
    clock.time += HOUR
    assert await worker.start_due()
    desk.end("long")
    await worker.drain()
    assert desk.begun == desk.ended == ["long"]
    assert await depth(database) == 0


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


async def test_job_is_a_work_with_a_name_that_tells_when_it_comes_back(database: Database, clock: Clock) -> None:
    """What it calls can keep a place for its next try: the same name, and the longest that it may stay away."""
    seen: list[Work] = []

    async def fails(job: Job) -> None:
        seen.append(work())
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
        (Priority.NOW, timedelta(seconds=1.1)),
        (Priority.NOW, timedelta(seconds=2.2)),
    ]
