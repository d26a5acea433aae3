"""Bulk work: one after another or as a batch, through deaths, errors and takeovers, each job is settled once.

Covers `queue_engine/core/jobs/batch.py`.
"""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.batch import BatchKind, BatchRejection, BatchState, BatchStatus
from queue_engine.core.jobs.batch_jobs import BatchSettings
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.core.timing.backoff import MONITOR, Backoff
from tests.support.claims import claim_one
from tests.unit.queue_engine.core.bulk_worker import (
    ENDED,
    LEASE,
    PROCESS,
    RUNNING,
    START,
    BulkWorker,
    Died,
    Provider,
)


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[Any]]:
    """The lines of the log, without the pictures of every frame that errors come with."""
    with capture_logs() as lines:
        yield lines


ALL_DONE = [("a", {"did": "a"}, None), ("b", {"did": "b"}, None), ("c", {"did": "c"}, None)]


async def test_bulk_sync_does_one_after_the_other_and_reports_each(database: Database) -> None:
    """The provider gets no request."""
    provider = Provider()
    office = BulkWorker(database, provider, strategy=lambda job: BatchKind.SYNC)
    await office.enqueue("a", "b", "c")
    await office.run()
    assert office.alone == ["a", "b", "c"]
    assert office.progress.counts == [(1, 3), (2, 3), (3, 3)]
    assert [event.status.value for event in office.progress.events] == ["in_progress", "in_progress", "completed"]
    assert await office.results() == ALL_DONE
    assert provider.batches == {}


async def test_bulk_sync_failing_job_is_reported_and_kept_with_its_error(database: Database) -> None:
    """The others are done all the same; its tries end."""
    office = BulkWorker(database, None)
    await office.enqueue("a", "bad", "c")
    await office.run()
    assert office.progress.counts[-1] == (3, 3)
    assert office.progress.events[-1].status.value == "failed"
    assert await office.results() == [ALL_DONE[0], ("bad", None, "ValueError: red"), ALL_DONE[2]]


async def test_bulk_batch_submits_all_at_once_and_every_poll_is_progress(database: Database) -> None:
    """One batch, polled with the monitor's waits, none of them slept."""
    provider = Provider(*[BatchStatus(BatchState.RUNNING, done, 3) for done in (0, 1, 1, 2)], ENDED)
    office = BulkWorker(database, provider)
    await office.enqueue("a", "b", "c")
    await office.run()
    assert provider.batches == {PROCESS: ["a", "b", "c"]}
    assert provider.polls == [1, 2.2, 3.64, 5.368, 7.442]
    assert office.progress.counts == [(0, 3), (1, 3), (1, 3), (2, 3), (3, 3)]
    assert office.alone == []
    assert await office.results() == ALL_DONE


async def test_bulk_batch_id_is_stored_with_every_job_before_any_poll(database: Database) -> None:
    """A worker that takes over knows which batch to ask for."""
    office = BulkWorker(database, Provider(RUNNING))
    await office.enqueue("a", "b", "c")
    await office.step()
    async with database.reading() as connection:
        found = await Jobs(connection).unfinished(PROCESS)
    assert [job.batch_job_id for job in found] == [f"batch-of-{PROCESS}"] * 3
    assert office.provider is not None
    assert office.provider.polls == []


async def test_bulk_batch_results_and_errors_go_to_their_jobs(database: Database) -> None:
    """The driving job's own error as well; a job without a result has failed, and its error says so."""
    provider = Provider()
    provider.lost = {"c"}
    office = BulkWorker(database, provider)
    await office.enqueue("bad-1", "b", "c", "bad-2")
    await office.run()
    assert await office.results() == [
        ("bad-1", None, "red"),
        ALL_DONE[1],
        ("c", None, "the batch ended without a result for this job"),
        ("bad-2", None, "red"),
    ]
    assert office.progress.events[-1].message == "4 of 4 jobs are done, 3 of them failed"


async def test_bulk_batch_that_failed_as_a_whole_fails_each_job_with_its_words(database: Database) -> None:
    """Once it is known to be over nothing waits."""
    provider = Provider(RUNNING, BatchStatus(BatchState.FAILED, 0, 3, "out of credit"))
    office = BulkWorker(database, provider)
    await office.enqueue("a", "b", "c")
    await office.run()
    assert [error for _, _, error in await office.results()] == ["out of credit"] * 3


async def test_bulk_falls_back_to_sync_where_no_batch_is_to_be_had_and_says_so_once(
    database: Database, lines: list[Any]
) -> None:
    """One line of the log for three jobs, with the reason."""
    provider = Provider()
    provider.at_submit = [BatchRejection("too small a model")] * 3
    office = BulkWorker(database, provider)
    await office.enqueue("a", "b", "c")
    await office.run()
    assert [line["reason"] for line in lines if line["event"] == "batch_unsupported"] == ["too small a model"]
    assert len(provider.at_submit) == 2
    assert office.progress.counts == [(1, 3), (2, 3), (3, 3)]
    assert await office.results() == ALL_DONE


async def test_bulk_killed_between_submission_and_noting_it_submits_nothing_twice(database: Database) -> None:
    """The batch is found again by its process."""
    provider = Provider()
    provider.at_submit = [Died()]
    office = BulkWorker(database, provider)
    await office.enqueue("a", "b", "c")
    await office.step()
    assert provider.batches == {PROCESS: ["a", "b", "c"]}
    office.come_back()
    await office.run()
    assert len(provider.batches) == 1
    assert await office.results() == ALL_DONE


async def test_bulk_killed_while_the_batch_runs_continues_its_waits(database: Database) -> None:
    """Waits and their growth are in the database, not in the process that ended."""
    provider = Provider(RUNNING)
    office = BulkWorker(database, provider)
    await office.enqueue("a", "b", "c")
    await office.step(4)
    office.come_back()
    await office.step(2)
    assert provider.polls == [1, 2.2, 3.64, 5.368, 7.442]
    assert len(provider.batches) == 1


async def test_bulk_killed_between_the_results_of_others_and_its_own_loses_none(database: Database) -> None:
    """The first job stands until all others are settled."""
    provider = Provider()
    office = BulkWorker(database, provider)
    await office.enqueue("a", "b", "c")
    await office.step()
    async with database.transaction() as connection:
        driver = await claim_one(Jobs(connection), owner="dying", now=START + LEASE, lease=LEASE)
    assert driver is not None
    await office.bulk.do(driver)
    async with database.reading() as connection:
        assert len(await Jobs(connection).get_results(PROCESS)) == 2
    office.come_back()
    await office.run()
    assert await office.results() == ALL_DONE


async def test_bulk_that_lost_its_claim_settles_nothing(database: Database) -> None:
    """Somebody else drives the batch by now, and may know better."""
    provider = Provider(OSError("away"))
    office = BulkWorker(database, provider, is_retryable=lambda error: False)
    await office.enqueue("a", "b", "c")
    await office.step()
    async with database.transaction() as connection:
        late = await claim_one(Jobs(connection), owner="late", now=START + LEASE, lease=LEASE)
        newer = await claim_one(Jobs(connection), owner="newer", now=START + LEASE * 3, lease=LEASE)
    assert late is not None
    assert newer is not None
    with pytest.raises(Exception, match="no longer held"):
        await office.bulk.do(late)
    async with database.reading() as connection:
        assert len(await Jobs(connection).unfinished(PROCESS)) == 3


@pytest.mark.parametrize("errors", [4, 5, 8, 9])
async def test_bulk_bears_errors_in_a_row_for_an_hour(database: Database, errors: int) -> None:
    """First in the monitor's waits, after five in those of a redelivery; an answer forgets them."""
    provider = Provider(*[OSError("away")] * errors, RUNNING, *[OSError("away")] * errors, ENDED)
    office = BulkWorker(database, provider)
    await office.enqueue("a", "b", "c")
    await office.run()
    assert await office.results() == ALL_DONE
    assert provider.polls[:5] == [1, 2.2, 3.64, 5.368, 7.442][: len(provider.polls)]
    if errors > 5:
        assert provider.polls[5] - provider.polls[4] == 120


async def test_bulk_gives_a_batch_up_after_an_hour_of_errors(database: Database) -> None:
    """It is cancelled, and every job says why."""
    provider = Provider(OSError("away"))
    office = BulkWorker(database, provider)
    await office.enqueue("a", "b", "c")
    await office.run()
    assert provider.cancelled == [f"batch-of-{PROCESS}"]
    assert timedelta(minutes=50) < office.clock.time - START < timedelta(minutes=90)
    assert [error for _, _, error in await office.results()] == ["OSError: away"] * 3


async def test_bulk_does_not_ask_again_what_will_never_be_answered(database: Database) -> None:
    """What is no passing error ends it at once, at the submission as well."""
    provider = Provider()
    provider.at_submit = [ValueError("no such model")]
    office = BulkWorker(database, provider, is_retryable=lambda error: not isinstance(error, ValueError))
    await office.enqueue("a", "b", "c")
    await office.step()
    assert [error for _, _, error in await office.results()] == ["ValueError: no such model"] * 3


async def test_bulk_waits_as_long_as_the_provider_asks(database: Database) -> None:
    """A wait that the server directs is no error, and wins over the monitor's own."""
    provider = Provider(*[OSError("slow down")] * 30, ENDED)
    office = BulkWorker(database, provider, asked_delay=lambda error: timedelta(seconds=90))
    await office.enqueue("a", "b", "c")
    await office.run()
    assert {b - a for a, b in zip(provider.polls, provider.polls[1:], strict=False)} == {90}
    assert await office.results() == ALL_DONE


async def test_bulk_cancelled_leaves_neither_jobs_nor_a_batch(database: Database) -> None:
    """Also while the batch is being submitted, and its id is not known yet."""
    provider = Provider(RUNNING)
    office = BulkWorker(database, provider)
    await office.enqueue("a", "b", "c")
    await office.step(2)
    await office.bulk.cancel(PROCESS)
    assert (provider.cancelled, await office.results()) == ([f"batch-of-{PROCESS}"], [])

    await office.enqueue("d")
    provider.meanwhile = lambda: office.bulk.cancel(PROCESS)
    provider.cancelled.clear()
    await office.step()
    assert (provider.cancelled, await office.results()) == ([f"batch-of-{PROCESS}"], [])


@pytest.mark.parametrize("strategy", BatchKind)
async def test_bulk_of_several_workers_is_carried_by_one_at_a_time(database: Database, strategy: BatchKind) -> None:
    """Each job is done once and in its order, the batch is submitted once, whichever worker is quicker."""
    provider = Provider(RUNNING, RUNNING, RUNNING, ENDED)
    office = BulkWorker(database, provider, strategy=lambda job: strategy)
    await office.enqueue("a", "b", "c")
    first = office.worker
    office.come_back()
    while (due := await office.due()) is not None:
        office.clock.time = max(due, office.clock.time)
        await asyncio.gather(first.run_due(), office.worker.run_due())
    assert office.alone == (["a", "b", "c"] if strategy is BatchKind.SYNC else [])
    assert len(provider.polls) == (0 if strategy is BatchKind.SYNC else 4)
    assert await office.results() == ALL_DONE


def test_bulk_refuses_to_poll_for_ever() -> None:
    """Every retry has a bound (P5)."""
    endless = Backoff(base=MONITOR.base, maximum=MONITOR.maximum)
    with pytest.raises(ValueError, match="for ever"):
        BatchSettings(Provider(), polling=endless)


@pytest.mark.parametrize("seed", range(12))
async def test_bulk_amid_deaths_and_errors_does_everything_once(database: Database, seed: int) -> None:
    """Whatever happens in whatever order: one batch, every result with its job, and progress that never goes back."""
    random = Random(seed)
    names = [f"{random.choice(['job', 'bad'])}-{number}" for number in range(random.randint(1, 6))]
    says: list[BatchStatus | BaseException] = []
    for done in range(len(names)):
        says += random.choices([OSError("away"), Died(), BatchStatus(BatchState.RUNNING, done, len(names))], k=2)
    provider = Provider(*says, BatchStatus(BatchState.ENDED, len(names), len(names)))
    provider.at_submit = random.choices([OSError("away"), Died()], k=random.randint(0, 2))
    provider.at_results = random.choices([OSError("away"), Died()], k=random.randint(0, 2))
    office = BulkWorker(database, provider)
    await office.enqueue(*names)
    while await office.due() is not None:
        await office.step()
        office.come_back()
    assert provider.batches == {PROCESS: names}
    expected = [(n, None, "red") if n.startswith("bad") else (n, {"did": n}, None) for n in names]
    assert await office.results() == expected
    assert office.progress.counts == sorted(office.progress.counts)
    assert office.progress.counts[-1] == (len(names), len(names))
    assert provider.cancelled == []
