"""Jobs are stored, claimed by one worker at a time, and finished once.

Covers `queue_engine/core/jobs/job_leases.py` and `queue_engine/core/jobs/job.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from queue_engine.core.database.database import Database
from queue_engine.core.jobs import job_leases
from queue_engine.core.jobs.job_store import Job, Jobs, JobStatus, LeaseLost
from queue_engine.core.jobs.job_table import FIRST_DUE
from tests.support.claims import claim_one

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(seconds=30)
SOON = timedelta(seconds=10)


HOUR = timedelta(hours=1)


@pytest.fixture
async def jobs(database: Database) -> AsyncIterator[Jobs]:
    async with database.transaction() as connection:
        yield Jobs(connection)


async def put(
    jobs: Jobs,
    kind: str = "k",
    *,
    priority: int = 0,
    not_before: datetime | None = None,
    process_id: str | None = None,
) -> str:
    """A job, of a process of its own unless one is named."""
    return await jobs.enqueue(
        kind=kind,
        request={"kind": kind},
        process_id=process_id or uuid4().hex,
        now=NOW,
        priority=priority,
        not_before=not_before,
    )


async def test_claim_takes_jobs_of_one_process_in_their_order_and_one_at_a_time(jobs: Jobs) -> None:
    """For any worker: the next is taken when the one before is finished, or has failed and waits for its next try."""
    for kind in ("first", "second", "third"):
        await put(jobs, kind, process_id="one")
    first = await take(jobs, owner="a")
    assert await claim_one(jobs, owner="b", now=NOW, lease=LEASE) is None
    assert await jobs.next_due() == NOW + LEASE
    await jobs.retry(first, at=NOW + HOUR, error="not now", now=NOW)
    second = await take(jobs, owner="b")
    assert (first.kind, second.kind) == ("first", "second")
    await jobs.hold(second, at=NOW + HOUR, now=NOW)
    assert await claim_one(jobs, owner="b", now=NOW, lease=LEASE) is None


async def test_claim_of_what_failed_waits_for_what_overtook_it(jobs: Jobs) -> None:
    """One at a time holds for both directions: the job that was overtaken does not join the one that overtook it."""
    for kind in ("first", "second"):
        await put(jobs, kind, process_id="one")
    await jobs.retry(await take(jobs), at=NOW + SOON, error="not now", now=NOW)
    second = await take(jobs)
    assert await claim_one(jobs, owner="b", now=NOW + SOON, lease=LEASE) is None
    assert await jobs.next_due() == NOW + LEASE
    await jobs.finish([second])
    assert (await take(jobs, now=NOW + SOON)).kind == "first"


async def test_claim_after_a_death_keeps_the_order_of_a_process(jobs: Jobs) -> None:
    """A worker that died has failed, not the job that it held: what comes behind does not overtake it."""
    for kind in ("first", "second"):
        await put(jobs, kind, process_id="one")
    await take(jobs)
    await jobs.release_all(NOW)
    again = await take(jobs)
    assert (again.kind, again.attempt, again.deaths) == ("first", 0, 1)
    await jobs.hold(again, at=NOW + SOON, now=NOW)
    assert await claim_one(jobs, owner="b", now=NOW, lease=LEASE) is None


async def test_job_that_waits_already_is_not_stored_once_more(jobs: Jobs) -> None:
    """One that reads what it needs when it runs does for both; not one under way, nor one that failed and waits."""

    async def wish(request: dict[str, int]) -> int:
        await jobs.enqueue_once(kind="k", request=request, process_id="p", now=NOW)
        return await jobs.depth()

    assert [await wish({"a": 1}), await wish({"a": 1}), await wish({"a": 2})] == [1, 1, 2]
    first = await take(jobs)
    assert [await wish({"a": 1}), await wish({"a": 1})] == [3, 3]
    await jobs.retry(first, at=NOW + SOON, error="no", now=NOW)
    await jobs.finish([await take(jobs)])
    await jobs.finish([await take(jobs)])
    assert [await jobs.depth(), await wish({"a": 1})] == [1, 2]


async def take(jobs: Jobs, *, owner: str = "w", now: datetime = NOW) -> Job:
    job = await claim_one(jobs, owner=owner, now=now, lease=LEASE)
    assert job is not None
    return job


async def test_claim_some_takes_in_order_as_many_as_asked_for_and_one_of_each_process(jobs: Jobs) -> None:
    """One transaction for many, with the promises of many: none beside another of its process, none out of order."""
    again = await put(jobs, "again", process_id="one")
    failed = await take(jobs)
    await jobs.retry(failed, at=NOW + SOON, error="not now", now=NOW)
    await put(jobs, "overtaking", process_id="one")
    expected = [await put(jobs, priority=3), again, *[await put(jobs) for _ in range(3)]]
    claimed = await jobs.claim_some(4, owner="w", now=NOW + SOON, lease=LEASE)
    assert [job.id for job in claimed][:1] == expected[:1]
    assert [job.process_id for job in claimed].count("one") == 1
    rest = await jobs.claim_some(9, owner="w", now=NOW + SOON, lease=LEASE)
    assert {job.id for job in (*claimed, *rest)} == set(expected)
    assert {(job.owner, job.status) for job in claimed} == {("w", JobStatus.IN_PROGRESS)}


async def test_finish_deletes_what_is_still_held_and_nothing_else(jobs: Jobs) -> None:
    """A worker that lost a job cannot delete it while another worker holds it."""
    await put(jobs)
    lost = await take(jobs, owner="late")
    holder = await take(jobs, owner="other", now=NOW + LEASE)
    await put(jobs)
    other = await take(jobs, owner="late", now=NOW + LEASE)
    await jobs.finish([lost, other])
    assert await jobs.depth() == 1
    await jobs.finish([holder])
    assert await jobs.depth() == 0


async def test_claim_takes_highest_priority_then_oldest(jobs: Jobs) -> None:
    """Higher priority first; first in, first out within one."""
    expected = [await put(jobs, priority=0), await put(jobs, priority=0)]
    expected.insert(0, await put(jobs, priority=5))
    assert [(await take(jobs)).id for _ in range(3)] == expected
    assert await claim_one(jobs, owner="w", now=NOW, lease=LEASE) is None


async def test_claim_hands_out_the_request_as_it_was_enqueued(jobs: Jobs) -> None:
    """A job carries its request, its process and its worker."""
    await jobs.enqueue(kind="k", request={"número": [1, None, {"é": True}]}, process_id="p7", now=NOW)
    job = await take(jobs, owner="w7")
    assert job.request == {"número": [1, None, {"é": True}]}
    assert (job.process_id, job.owner, job.status, job.attempt) == ("p7", "w7", JobStatus.IN_PROGRESS, 0)


async def test_claim_before_the_job_is_due_gets_nothing(jobs: Jobs) -> None:
    """A job is not touched before its time, and `next_due` tells it."""
    await put(jobs, not_before=NOW + SOON)
    assert await claim_one(jobs, owner="w", now=NOW, lease=LEASE) is None
    assert await jobs.next_due() == NOW + SOON
    await take(jobs, now=NOW + SOON)


async def test_claim_after_a_worker_died_takes_its_job_when_the_lease_ends(jobs: Jobs) -> None:
    """Nothing is lost with a worker, and nothing is done twice while it lives."""
    await put(jobs)
    died = await take(jobs, owner="died")
    assert await jobs.next_due() == NOW + LEASE
    assert await claim_one(jobs, owner="w", now=NOW + LEASE - timedelta(microseconds=1), lease=LEASE) is None
    again = await take(jobs, now=NOW + LEASE)
    assert (again.id, again.owner, again.claims) == (died.id, "w", 2)
    assert (again.attempt, again.deaths) == (0, 1), "a death is no failure of the job"


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
    assert (result.status, result.response, result.updated_at) == (JobStatus.COMPLETED, {"answer": 42}, NOW + SOON)
    assert await jobs.get_results("another") == ()
    assert await jobs.depth() == 0
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
    assert await jobs.depth() == 0


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


async def test_fail_ends_a_job_for_good_with_its_error(jobs: Jobs) -> None:
    """A job that failed for good is never claimed again, and tells why."""
    await put(jobs, process_id="p")
    await jobs.fail(await take(jobs), "no such repository", NOW)
    assert await claim_one(jobs, owner="w", now=NOW + 9 * LEASE, lease=LEASE) is None
    (failed,) = await jobs.get_results("p")
    assert (failed.status, failed.attempt, failed.error_message) == (JobStatus.FAILED, 1, "no such repository")


async def test_release_all_at_the_start_of_the_only_process_frees_what_the_last_one_held(jobs: Jobs) -> None:
    """After a restart nobody waits for the lease of a process that is no more."""
    await put(jobs)
    await put(jobs)
    held = await take(jobs, owner="before")
    assert await jobs.release_all(NOW) == 1
    assert await jobs.depth() == 2
    assert (await take(jobs, owner="after")).id == held.id


async def test_claim_by_many_workers_at_once_gives_each_job_to_one(database: Database) -> None:
    """However many workers ask at the same time, no job is claimed twice and none is left."""
    async with database.transaction() as connection:
        ids = {await put(Jobs(connection)) for _ in range(30)}

    async def work(owner: str) -> list[str]:
        claimed: list[str] = []
        while True:
            async with database.transaction() as connection:
                job = await claim_one(Jobs(connection), owner=owner, now=NOW, lease=LEASE)
            if job is None:
                return claimed
            claimed.append(job.id)

    claimed = [job for done in await asyncio.gather(*(work(f"w{n}") for n in range(8))) for job in done]
    assert len(claimed) == 30
    assert set(claimed) == ids


@pytest.mark.postgres
async def test_claim_on_postgresql_skips_what_another_worker_is_claiming(postgres_database: Database) -> None:
    """A claim does not wait for another that is still uncommitted: it takes the next job."""
    async with postgres_database.transaction() as connection:
        ids = [await put(Jobs(connection)) for _ in range(2)]
    async with postgres_database.transaction() as one, postgres_database.transaction() as other:
        assert [(await take(Jobs(one))).id, (await take(Jobs(other))).id] == ids
        async with postgres_database.transaction() as third:
            assert await claim_one(Jobs(third), owner="w", now=NOW, lease=LEASE) is None


@pytest.mark.postgres
async def test_claim_on_postgresql_never_gives_two_of_one_process_to_two_workers(postgres_database: Database) -> None:
    """Neither sees what the other is about to commit: one that failed is due, and so is one that overtakes it."""
    async with postgres_database.transaction() as connection:
        jobs = Jobs(connection)
        for kind in ("failed", "overtaking"):
            await put(jobs, kind, process_id="one")
        await jobs.retry(await take(jobs), at=NOW, error="not now", now=NOW)
    async with postgres_database.transaction() as one, postgres_database.transaction() as other:
        assert (await take(Jobs(one))).kind == "failed"
        assert await claim_one(Jobs(other), owner="b", now=NOW, lease=LEASE) is None
    async with postgres_database.transaction() as other:
        assert await claim_one(Jobs(other), owner="b", now=NOW, lease=LEASE) is None


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


@pytest.mark.postgres
async def test_claim_on_postgresql_looks_again_at_a_process_that_changed_meanwhile(
    postgres_database: Database,
) -> None:
    """A worker that chose before another committed, and got the lock after it, sees what the other took."""
    async with postgres_database.transaction() as connection:
        jobs = Jobs(connection)
        for kind in ("failed", "overtaking"):
            await put(jobs, kind, process_id="one")
        await jobs.retry(await take(jobs), at=NOW, error="not now", now=NOW)
    async with postgres_database.transaction() as one, postgres_database.transaction() as other:
        taken = await take(Jobs(one))
        chosen = await job_leases._first_due(other, FIRST_DUE, 1, NOW)
        assert [row.contested for row in chosen] == [True]
        await one.commit()
        by = {"claimed_at": NOW, "claimed_by": "b", "claimed_until": NOW + LEASE}
        assert await job_leases._claim(other, chosen, by) == {}
    assert taken.kind == "failed"
