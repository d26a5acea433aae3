"""The worker and jobs that fail, are held, or kill their process: bounds, dead letters, and no harm to others."""

import asyncio
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import ReadOnly
from queue_engine.core.jobs.job import Dead, Hold, Job, Outcome, Retry
from queue_engine.core.jobs.job_store import Jobs
from tests.unit.queue_engine.core.recorded_worker import (
    HOUR,
    LEASE,
    MINUTE,
    SECOND,
    START,
    Clock,
    Counted,
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


async def test_worker_held_job_comes_again_and_counts_no_attempt(database: Database, clock: Clock) -> None:
    """GitHub's limits are no failure of a job: held as often as they ask, it is never given up."""
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
    assert [log["log_level"] for log in logs if log["event"] == "job_dead"] == ["warning"]
    assert meter.counts == {("jobs_retried", "k"): 8, ("jobs_dead", "k"): 1}


async def test_worker_counts_deaths_apart_from_failures(database: Database, clock: Clock) -> None:
    """A kill is no failure of the job: its first failure costs one second, not minutes."""

    async def fail(job: Job) -> None:
        raise RuntimeError("no luck")

    await put(database, "a")
    for life in range(5):
        died = worker_of(database, clock, {"k": RecordedHandler()}, owner=f"w{life}")
        await died.start_due()
        await died.cancel()
        clock.time += LEASE
    worker = worker_of(database, clock, {"k": fail}, owner="lives")
    with capture_logs():
        await worker.run_due()
    assert await worker.next_due() == clock.time + SECOND
    async with database.transaction() as connection:
        clock.time += SECOND
        (job,) = await Jobs(connection).claim_some(1, owner="w", now=clock.time, lease=LEASE)
    assert (job.attempt, job.deaths) == (1, 0), "it failed by itself, so it is not what killed them"


async def test_worker_holds_what_the_database_was_away_for(database: Database, clock: Clock) -> None:
    """No job fails by a fault of the database, however often it meets one."""

    async def meet(job: Job) -> None:
        raise ReadOnly("a standby")

    worker = worker_of(database, clock, {"k": meet})
    await put(database, "a")
    with capture_logs() as logs:
        for _ in range(12):
            await worker.run_due()
            assert await worker.next_due() == clock.time + SECOND
            clock.time += SECOND
    assert {log["event"] for log in logs} == {"job_waits_for_database"}
    async with database.transaction() as connection:
        (job,) = await Jobs(connection).claim_some(1, owner="w", now=clock.time, lease=LEASE)
    assert (job.attempt, job.deaths, job.error_message) == (0, 0, None)


async def test_worker_buries_at_once_what_cannot_pass(database: Database, clock: Clock) -> None:
    """A refusal is not asked for again, and is not among those that are worth doing again as they are."""

    async def refuse(job: Job) -> None:
        raise PermissionError("no")

    worker = worker_of(
        database, clock, {"k": refuse}, is_retryable=lambda error: not isinstance(error, PermissionError)
    )
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
    """A handler that was asked to wait knows better than the series how long; it is an attempt all the same."""
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
    await put(database, "b")
    await worker.run_due()
    assert (meter.counts["jobs_done", "k"], meter.counts["jobs_recovered", "k"]) == (2, 1)


async def test_worker_counts_what_a_killed_worker_left_as_recovered(database: Database, clock: Clock) -> None:
    """Done after a death without any failure, it was recovered as well."""
    await put(database, "a")
    died = worker_of(database, clock, {"k": RecordedHandler()}, owner="dies")
    await died.start_due()
    await died.cancel()
    clock.time += LEASE
    meter = Counted()

    async def handle(job: Job) -> None:
        assert (job.attempt, job.deaths) == (0, 1)

    await worker_of(database, clock, {"k": handle}, owner="lives", meter=meter).run_due()
    assert meter.counts == {("jobs_done", "k"): 1, ("jobs_recovered", "k"): 1}


async def live_and_let_poison_kill(database: Database, clock: Clock, life: int) -> RecordedHandler:
    """A worker's life: it takes what is due and ends its jobs, unless one of them ends it."""
    handler = RecordedHandler()
    worker = worker_of(database, clock, {"k": handler}, owner=f"w{life}")
    with capture_logs():
        await worker.start_due()
        for _ in range(10):
            await asyncio.sleep(0)
        if "poison" in handler.begun:
            await worker.cancel()
        else:
            handler.end(*handler.begun)
            await worker.drain()
    clock.time += LEASE
    return handler


async def test_worker_gives_a_job_up_that_ends_its_worker_again_and_again(database: Database, clock: Clock) -> None:
    """A poisoned job has a bound as well: after nine dead workers it runs alone, and then it is kept for a person."""
    await put(database, "poison")
    lives = [await live_and_let_poison_kill(database, clock, life) for life in range(12)]
    assert [handler.begun for handler in lives] == [["poison"]] * 10 + [[]] * 2
    (letter,) = await dead(database)
    assert (letter.attempts, letter.retryable) == (10, False)
    why = "its worker ended while it was done, also when no other began beside it"
    assert letter.error_message == f"Given up after 10 tries: {why}."
    assert await depth(database) == 0


async def test_worker_poisoned_job_takes_no_other_along(database: Database, clock: Clock) -> None:
    """The worker completes the jobs that ran beside it each time."""
    await put(database, "a", "b", "poison", "c", "d")
    lives = [await live_and_let_poison_kill(database, clock, life) for life in range(20)]
    assert sorted(name for handler in lives for name in handler.ended) == ["a", "b", "c", "d"]
    assert [letter.payload["name"] for letter in await dead(database)] == ["poison"]


async def met_nine_deaths(database: Database, clock: Clock, name: str) -> None:
    """Put a job whose workers end nine times, whatever ends them; it is due after another lease."""
    await put(database, name)
    for life in range(9):
        clock.time += LEASE
        died = worker_of(database, clock, {"k": RecordedHandler()}, owner=f"dies-{life}")
        await died.start_due()
        await died.cancel()


async def test_worker_runs_a_job_that_met_nine_deaths_alone_and_it_is_done(database: Database, clock: Clock) -> None:
    """P2: another job had ended its workers. Those under way end first; others wait half a minute for it at most."""
    handler = RecordedHandler()
    worker = worker_of(database, clock, {"k": handler}, owner="lives")
    await met_nine_deaths(database, clock, "suspect")
    clock.time += LEASE / 2
    await put(database, "before")
    await worker.start_due()
    await handler.until_begun("before")
    clock.time += LEASE / 2
    await put(database, "later")
    assert not await worker.start_due()
    assert await worker.next_due() == clock.time + MINUTE / 2
    assert handler.begun == ["before"]
    handler.end("before")
    await worker.drain()
    assert await worker.start_due()
    await handler.until_begun("suspect")
    assert not await worker.start_due()
    assert await worker.next_due() == clock.time + MINUTE / 2
    clock.time += MINUTE / 2
    assert await worker.start_due()
    await handler.until_begun("later")
    handler.end("suspect", "later")
    await worker.drain()
    assert (sorted(handler.ended), await dead(database)) == (["before", "later", "suspect"], ())


async def test_worker_that_does_a_long_job_holds_up_others_for_a_minute_at_most(
    database: Database, clock: Clock
) -> None:
    """P5: neither a job under way that does not end, nor one that met nine deaths and does not end, stops the rest."""
    handler = RecordedHandler()
    worker = worker_of(database, clock, {"k": handler}, owner="lives")
    await met_nine_deaths(database, clock, "suspect")
    await put(database, "long")
    await worker.start_due()
    await handler.until_begun("long")
    clock.time += LEASE
    await put(database, "later")
    for begins in (["long"], ["long", "suspect"], ["long", "suspect", "later"]):
        await worker.start_due()
        await handler.until_begun(begins[-1])
        assert handler.begun == begins
        clock.time += MINUTE / 2
    handler.end(*handler.begun)
    await worker.drain()
    assert (len(handler.ended), await dead(database)) == (3, ())


async def test_worker_begins_nothing_beside_a_job_that_runs_alone_until_it_ends(
    database: Database, clock: Clock
) -> None:
    """The others are done as soon as it has ended, with no death on their account."""
    await met_nine_deaths(database, clock, "suspect")
    clock.time += LEASE
    await put(database, "a", "b")
    under_way: list[tuple[str, int, bool]] = []
    others = set[str]()

    async def handle(job: Job) -> None:
        name = str(job.request["name"])
        others.add(name)
        await asyncio.sleep(0)
        under_way.append((name, job.deaths, others == {name}))
        others.discard(name)

    await worker_of(database, clock, {"k": handle}, owner="lives").run_due()
    assert under_way[0] == ("suspect", 9, True)
    assert [each[:2] for each in under_way[1:]] == [("a", 0), ("b", 0)]


async def test_worker_starts_no_second_suspect_beside_the_first(database: Database, clock: Clock) -> None:
    """Not even later, while the first still runs; but at once when it has ended, and others are not kept waiting."""
    await put(database, "a", "b")
    for life in range(3):
        died = worker_of(database, clock, {"k": RecordedHandler()}, owner=f"w{life}")
        await died.start_due()
        await died.cancel()
        clock.time += LEASE
    handler = RecordedHandler()
    worker = worker_of(database, clock, {"k": handler}, owner="lives")
    await worker.start_due()
    await handler.until_begun("a")
    clock.time += LEASE / 2
    assert not await worker.start_due()
    await put(database, "c")
    assert await worker.start_due()
    handler.end("a", "b", "c")
    await worker.drain()
    assert sorted(handler.ended) == ["a", "c"]
    await worker.run_due()
    assert handler.ended[2:] == ["b"]


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
    handler = RecordedHandler()
    handler.end("known")
    await put(database, "unknown", kind="of the future")
    await put(database, "known")
    with capture_logs():
        await worker_of(database, clock, {"k": handler}).run_due()
    assert handler.ended == ["known"]
    assert await depth(database) == 1
