"""Which jobs a worker claims, and how many workers claim at once."""

import asyncio
from datetime import timedelta

import pytest

from queue_engine.core.database.database import Database
from queue_engine.core.jobs import job_store
from queue_engine.core.jobs.job import FIRST_DUE, JobStatus
from queue_engine.core.jobs.job_store import Jobs
from tests.support.claims import claim_one
from tests.unit.queue_engine.core.jobs.job_examples import HOUR, LEASE, NOW, SOON, put, take


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
    """No worker claims a job before its time, and `next_due` has that time."""
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
async def test_claim_on_postgresql_reads_a_process_again_that_changed_meanwhile(
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
        chosen = await job_store._first_due(other, FIRST_DUE, 1, NOW)
        assert [row.contested for row in chosen] == [True]
        await one.commit()
        by = {"claimed_at": NOW, "claimed_by": "b", "claimed_until": NOW + LEASE}
        assert await job_store._claim_chosen(other, chosen, by) == {}
    assert taken.kind == "failed"
