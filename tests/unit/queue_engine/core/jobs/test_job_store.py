"""Jobs are stored, claimed by one worker at a time, and finished once."""

from collections.abc import Awaitable, Callable

import pytest

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job import Job, JobStatus, LeaseLost
from queue_engine.core.jobs.job_store import Jobs
from tests.support.claims import claim_one
from tests.support.unfinished_jobs import unfinished_jobs
from tests.unit.queue_engine.core.jobs.job_examples import HOUR, LEASE, NOW, SOON, put, take


async def test_job_that_waits_already_is_not_stored_again(jobs: Jobs) -> None:
    """A job that reads its input when it runs does for both; not one under way, nor one that failed and waits."""

    async def enqueue(request: dict[str, int]) -> int:
        await jobs.enqueue(once=True, kind="k", request=request, process_id="p", now=NOW)
        return await unfinished_jobs(jobs)

    assert [await enqueue({"a": 1}), await enqueue({"a": 1}), await enqueue({"a": 2})] == [1, 1, 2]
    first = await take(jobs)
    assert [await enqueue({"a": 1}), await enqueue({"a": 1})] == [3, 3]
    await jobs.retry(first, at=NOW + SOON, error="no", now=NOW)
    await jobs.finish([await take(jobs)])
    await jobs.finish([await take(jobs)])
    assert [await unfinished_jobs(jobs), await enqueue({"a": 1})] == [1, 2]


async def test_finish_deletes_what_is_still_held_and_nothing_else(jobs: Jobs) -> None:
    """A worker that lost a job cannot delete it while another worker holds it."""
    await put(jobs)
    lost = await take(jobs, owner="late")
    holder = await take(jobs, owner="other", now=NOW + LEASE)
    await put(jobs)
    other = await take(jobs, owner="late", now=NOW + LEASE)
    await jobs.finish([lost, other])
    assert await unfinished_jobs(jobs) == 1
    await jobs.finish([holder])
    assert await unfinished_jobs(jobs) == 0


@pytest.mark.parametrize("owner", ["died", "other"])
async def test_settling_after_the_lease_was_lost_is_refused(jobs: Jobs, owner: str) -> None:
    """A worker that lost a job cannot settle it under its new holder, be it the same worker in a second claim."""
    await put(jobs)
    died = await take(jobs, owner="died")
    holder = await take(jobs, owner=owner, now=NOW + LEASE)
    for settling in (
        jobs.complete(died, {}, NOW),
        jobs.retry(died, at=NOW, error="e", now=NOW),
        jobs.hold(died, at=NOW, now=NOW),
        jobs.fail(died, "e", NOW),
    ):
        with pytest.raises(LeaseLost):
            await settling
    await jobs.complete(holder, None, NOW)


async def test_renew_prolongs_only_the_claim_that_stands(jobs: Jobs) -> None:
    """A long job keeps its lease; an older claim cannot prolong it, not even one of the same worker."""
    await put(jobs)
    late = await take(jobs)
    job = await take(jobs, now=NOW + LEASE)
    assert await jobs.renew(job, NOW + 3 * LEASE)
    assert not await jobs.renew(late, NOW + 9 * LEASE)
    assert await jobs.next_due() == NOW + 3 * LEASE
    await jobs.complete(job, None, NOW)
    assert not await jobs.renew(job, NOW + 9 * LEASE)


async def test_complete_keeps_the_result_until_it_is_deleted(jobs: Jobs) -> None:
    """A result waits for its process, and is gone for good once that has it."""
    await put(jobs, process_id="p")
    job = await take(jobs)
    await jobs.complete(job, {"answer": 42}, NOW + SOON)
    (result,) = await jobs.get_results("p")
    assert (result.status, result.response) == (JobStatus.COMPLETED, {"answer": 42})
    assert await jobs.get_results("another") == ()
    assert await unfinished_jobs(jobs) == 0
    assert await jobs.next_due() is None
    assert await jobs.take_results("another") == ()
    assert await jobs.take_results("p") == (result,)
    assert await jobs.get_results("p") == ()


async def test_take_results_gives_them_back_when_their_consumer_cannot_store_them(database: Database) -> None:
    """They are deleted in the consumer's own transaction: stored there or still here, whatever happens."""
    async with database.transaction() as connection:
        await put(Jobs(connection), process_id="p")
        await Jobs(connection).complete(await take(Jobs(connection)), {"answer": 42}, NOW)
    async with database.transaction() as connection:
        assert len(await Jobs(connection).take_results("p")) == 1
        await connection.rollback()
    async with database.reading() as connection:
        assert len(await Jobs(connection).get_results("p")) == 1


async def test_delete_of_nothing_deletes_nothing(jobs: Jobs) -> None:
    """Jobs go by their ids, whatever became of them."""
    job_id = await put(jobs)
    assert await jobs.delete([]) == 0
    assert await jobs.delete([job_id, "another"]) == 1
    assert await unfinished_jobs(jobs) == 0


async def test_retry_counts_an_attempt_and_hold_does_not(jobs: Jobs) -> None:
    """Waiting for something else is no failure of the job."""
    await put(jobs)
    await jobs.hold(await take(jobs), at=NOW + SOON, now=NOW)
    held = await take(jobs, now=NOW + SOON)
    assert (held.attempt, held.error_message) == (0, None)
    await jobs.retry(held, at=NOW + 2 * SOON, error="no answer", now=NOW)
    assert await claim_one(jobs, owner="w", now=NOW + SOON, lease=LEASE) is None
    retried = await take(jobs, now=NOW + 2 * SOON)
    assert (retried.attempt, retried.error_message) == (1, "no answer")


async def test_hold_counts_its_reason_and_ends_the_deaths_in_a_row(jobs: Jobs) -> None:
    """P2: who holds a job has survived it, so that deaths before and after do not add up to a dead letter."""
    await put(jobs)
    for round_, why in enumerate(("limit", None, "limit", "early")):
        now = NOW + round_ * HOUR
        await take(jobs, owner="dies", now=now)
        survivor = await take(jobs, now=now + LEASE)
        assert survivor.deaths == 1
        await jobs.hold(survivor, at=now + LEASE, now=now + LEASE, why=why)
    held = await take(jobs, now=NOW + 4 * HOUR)
    assert (held.deaths, dict(held.holds)) == (0, {"limit": 2, "early": 1})


async def test_awaited_jobs_are_due_at_once_and_their_next_try_counts_as_none(jobs: Jobs) -> None:
    """Who waits for a job may hasten it as often as that is counted; the claim of one under way stays."""
    (failed,) = await jobs.enqueue_all(kind="k", requests=[("p:1", {"asks": "much"})], now=NOW)
    (running,) = await jobs.enqueue_all(kind="k", requests=[("p:2", {"asks": "much"})], now=NOW)
    await jobs.enqueue_all(kind="k", requests=[("p:3", {}), ("q:4", {"asks": "much"})], now=NOW)
    await jobs.retry(await take(jobs), at=NOW + HOUR, error="no", now=NOW)
    under_way = await take(jobs)
    for _ in range(2):
        await jobs.await_these([failed, running, "gone"], NOW + SOON, "landing")
    found = await jobs.unfinished_naming("asks", "k", "p:")
    assert [(each.id, each.attempt, each.holds) for each in found] == [
        (failed, 0, {"landing": 2}),
        (running, 0, {"landing": 2}),
    ]
    assert found[0].not_before == NOW + SOON
    await jobs.finish([under_way])
    assert [each.id for each in await jobs.unfinished_naming("asks", "k", "p:")] == [failed]


async def test_unanswered_jobs_come_some_at_a_time_without_those_behind_a_later_one(jobs: Jobs) -> None:
    """A job that failed is overtaken while it waits; one that was put off keeps those of its process behind it."""
    await put_off(jobs, "held", lambda job: jobs.hold(job, at=NOW + HOUR, now=NOW))
    await put_off(jobs, "failed", lambda job: jobs.retry(job, at=NOW + HOUR, error="no", now=NOW))
    await jobs.enqueue_all(kind="k", requests=[(f"{n}", {}) for n in range(5)], now=NOW)
    last = await jobs.newest()

    async def processes(after: int, before: int = last) -> list[str]:
        found = await jobs.unanswered_before(before, {"k": ""}, {}, due=NOW + SOON, after=after, most=3)
        return [job.process_id for job in found]

    assert [await processes(0), await processes(last - 4), await processes(last - 1)] == [
        ["failed", "0", "1"],
        ["1", "2", "3"],
        [],
    ]


async def put_off(jobs: Jobs, process: str, settle: Callable[[Job], Awaitable[None]]) -> None:
    """Store two jobs of a process, and settle the first."""
    await jobs.enqueue_all(kind="k", requests=[(process, {}), (process, {})], now=NOW)
    await settle(await take(jobs))


async def test_fail_ends_a_job_for_good_with_its_error(jobs: Jobs) -> None:
    """No worker claims a job again that failed for good, and its row has the error."""
    await put(jobs, process_id="p")
    await jobs.fail(await take(jobs), "no such repository", NOW)
    assert await claim_one(jobs, owner="w", now=NOW + 9 * LEASE, lease=LEASE) is None
    (failed,) = await jobs.get_results("p")
    assert (failed.status, failed.attempt, failed.error_message) == (JobStatus.FAILED, 1, "no such repository")


async def test_release_all_at_the_start_of_the_only_process_frees_what_the_last_one_held(jobs: Jobs) -> None:
    """After a restart no job waits for the lease of a process that is no more."""
    await put(jobs)
    await put(jobs)
    held = await take(jobs, owner="before")
    assert await jobs.release_all(NOW) == 1
    assert await unfinished_jobs(jobs) == 2
    assert (await take(jobs, owner="after")).id == held.id


@pytest.mark.postgres
async def test_jobs_on_postgresql_that_are_committed_in_another_order_do_not_wait_for_each_other(
    postgres_database: Database,
) -> None:
    """P2: a job that was numbered first appears after a worker has claimed the second, and died: both are done."""
    async with postgres_database.transaction() as slow:
        await put(Jobs(slow), "first", process_id="one")
        async with postgres_database.transaction() as quick:
            await put(Jobs(quick), "second", process_id="one")
        async with postgres_database.transaction() as dying:
            assert (await take(Jobs(dying))).kind == "second"
    async with postgres_database.transaction() as connection:
        jobs, later = Jobs(connection), NOW + LEASE
        assert await jobs.next_due() == later
        again = await take(jobs, now=later)
        assert await claim_one(jobs, owner="b", now=later, lease=LEASE) is None
        await jobs.finish([again])
        assert (again.kind, (await take(jobs, now=later)).kind) == ("second", "first")


async def test_prefix_of_processes_is_plain_text(jobs: Jobs) -> None:
    """What LIKE takes for a pattern, `_` and `%`, is a character of the prefix like any other; so is its escape."""
    for process in ("a_b:1", "axb:1", "a%b:1", "a/_b:1"):
        await jobs.enqueue(kind="k", request={"process": process}, process_id=process, now=NOW)

    async def found(prefix: str) -> list[str]:
        return [request["process"] for request in await jobs.unfinished_requests("k", prefix)]

    assert await found("a_b:") == ["a_b:1"]
    assert await found("a%b") == ["a%b:1"]
    assert await found("a/_") == ["a/_b:1"]
    assert await found("a") == ["a_b:1", "axb:1", "a%b:1", "a/_b:1"]
