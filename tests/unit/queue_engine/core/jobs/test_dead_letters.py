"""Dead letters: what failed for good is kept whole, seen, done again or forgotten, each exactly once."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.dead_letters import DeadLetter, DeadLetters
from queue_engine.core.jobs.job import Job, JobStatus, LeaseLost
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.core.observability.trace import continued
from tests.support.claims import claim_one
from tests.support.unfinished_jobs import unfinished_jobs

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(seconds=30)
LATER = NOW + timedelta(days=3)


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[AsyncConnection]:
    async with database.transaction() as connection:
        yield connection


class Counted:
    """A meter that remembers its counts."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counts[name, labels["kind"]] += int(amount)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        raise AssertionError(name)


async def take(connection: AsyncConnection, now: datetime = NOW) -> Job:
    job = await claim_one(Jobs(connection), owner="w", now=now, lease=LEASE)
    assert job is not None
    return job


async def bury(connection: AsyncConnection, name: str, *, at: datetime = NOW, retryable: bool = True) -> str:
    """A job that was done in vain; its id."""
    jobs = Jobs(connection)
    await jobs.enqueue(kind=name, request={"name": name}, process_id=f"of {name}", now=NOW, priority=3)
    job = await take(connection)
    await DeadLetters(connection).add(job, "no luck", at, attempts=9, retryable=retryable)
    return job.id


async def names(letters: DeadLetters, *, job_type: str | None = None, retryable: bool | None = None) -> list[str]:
    return [letter.job_type for letter in await letters.list(100, job_type=job_type, retryable=retryable)]


async def test_bury_moves_the_job_with_all_that_is_needed_to_do_it_again(connection: AsyncConnection) -> None:
    """A maintainer reads in the dead letter what it was about and why it failed."""
    with continued(None):
        job_id = await bury(connection, "a", at=NOW + LEASE, retryable=False)
    letter = await DeadLetters(connection).get(job_id)
    assert letter is not None
    assert letter.trace is not None
    assert letter == DeadLetter(
        id=job_id,
        process_id="of a",
        job_type="a",
        error_message="no luck",
        payload={"name": "a"},
        failed_at=NOW + LEASE,
        retryable=False,
        attempts=9,
        priority=3,
        created_at=NOW,
        trace=letter.trace,
    )
    assert await unfinished_jobs(Jobs(connection)) == 0
    assert await Jobs(connection).get_results("of a") == ()


async def test_bury_after_the_lease_was_lost_is_refused(connection: AsyncConnection) -> None:
    """A worker that lost a job cannot bury it while another worker holds it."""
    await Jobs(connection).enqueue(kind="k", request={}, process_id="p", now=NOW)
    lost = await take(connection)
    await take(connection, NOW + LEASE)
    with pytest.raises(LeaseLost):
        await DeadLetters(connection).add(lost, "late", NOW, attempts=1, retryable=True)
    assert await DeadLetters(connection).count() == 0
    assert await unfinished_jobs(Jobs(connection)) == 1


async def test_reprocess_gives_the_job_back_as_if_it_had_never_been_tried(connection: AsyncConnection) -> None:
    """With the same id, process, priority and trace, so that its trace continues; once."""
    with continued(None):
        job_id = await bury(connection, "a")
    letters = DeadLetters(connection)
    letter = await letters.get(job_id)
    assert letter is not None
    assert await letters.reprocess(job_id, LATER)
    assert not await letters.reprocess(job_id, LATER)
    assert await letters.count() == 0
    assert await Jobs(connection).next_due() == LATER
    job = await take(connection, LATER)
    assert (job.id, job.process_id, job.kind, job.request) == (job_id, "of a", "a", {"name": "a"})
    assert (job.priority, job.trace, job.created_at) == (3, letter.trace, NOW)
    assert (job.attempt, job.claims, job.error_message, job.status) == (0, 1, None, JobStatus.IN_PROGRESS)


async def test_reprocess_leaves_nothing_to_settle_for_a_worker_of_its_first_life(connection: AsyncConnection) -> None:
    """Same id, same worker, same count of claims: it is another claim all the same."""
    jobs, letters = Jobs(connection), DeadLetters(connection)
    await jobs.enqueue(kind="k", request={}, process_id="p", now=NOW)
    slow = await take(connection)
    await letters.add(await take(connection, NOW + LEASE), "no luck", NOW, attempts=2, retryable=True)
    await letters.reprocess(slow.id, NOW)
    again = await take(connection)
    assert (again.id, again.owner, again.claims) == (slow.id, slow.owner, slow.claims)
    assert not await jobs.renew(slow, LATER)
    await jobs.finish([slow])
    with pytest.raises(LeaseLost):
        await jobs.complete(slow, None, NOW)
    await jobs.complete(again, None, NOW)


async def test_reprocess_all_gives_back_the_retryable_ones_in_the_order_in_which_they_failed(
    connection: AsyncConnection,
) -> None:
    """What nothing but a person can judge stays."""
    await bury(connection, "second", at=NOW + LEASE)
    await bury(connection, "first", at=NOW)
    await bury(connection, "refused", retryable=False)
    letters = DeadLetters(connection)
    assert await letters.reprocess(None, LATER) == 2
    assert await letters.reprocess(None, LATER) == 0
    assert [(await take(connection, LATER)).kind for _ in range(2)] == ["first", "second"]
    assert await names(letters) == ["refused"]


async def test_reprocess_of_what_is_on_its_way_already_does_it_once(connection: AsyncConnection) -> None:
    """A dead letter is known by its content, so the job may fail again while its first retry waits."""
    job_id = await bury(connection, "a")
    letters = DeadLetters(connection)
    letter = await letters.get(job_id)
    assert letter is not None
    assert await letters.reprocess(job_id, LATER)
    await letters.put(letter)
    assert await letters.reprocess(job_id, LATER)
    assert await letters.count() == 0
    assert await unfinished_jobs(Jobs(connection)) == 1


async def test_keep_of_what_died_again_replaces_what_was_kept(connection: AsyncConnection) -> None:
    """One dead letter for one piece of work, with its latest error."""
    job_id = await bury(connection, "a")
    letters = DeadLetters(connection)
    assert await letters.reprocess(job_id, NOW)
    await letters.add(await take(connection), "still no luck", LATER, attempts=2, retryable=True)
    letter = await letters.get(job_id)
    assert letter is not None
    await letters.put(letter)
    assert (letter.error_message, letter.failed_at) == ("still no luck", LATER)
    assert await letters.count() == 1


async def test_discard_deletes_for_good(connection: AsyncConnection) -> None:
    """One by its id, or all of a kind whose work is done in another way."""
    letters = DeadLetters(connection)
    one = await bury(connection, "a")
    assert await letters.discard(one)
    assert not await letters.discard(one)
    assert await letters.get(one) is None
    for name in ("sweep", "sweep", "a"):
        await bury(connection, name)
    await letters.discard_all("sweep", "never seen")
    assert await names(letters) == ["a"]
    assert await unfinished_jobs(Jobs(connection)) == 0


async def test_list_goes_from_page_to_page_without_losing_or_doubling_one(connection: AsyncConnection) -> None:
    """The latest first; those of one instant too, and ones that die meanwhile do not shift the pages."""
    for minute in (1, 0, 1, 2, 1):
        await bury(connection, f"at {minute}", at=NOW + timedelta(minutes=minute))
    letters = DeadLetters(connection)
    everything = await letters.list(100)
    assert [letter.job_type for letter in everything] == ["at 2", "at 1", "at 1", "at 1", "at 0"]
    paged, after = list(await letters.list(2)), None
    await bury(connection, "newer", at=LATER)
    while page := await letters.list(2, after=(after := paged[-1].place)):
        assert len(page) <= 2
        paged += page
    assert after == everything[-1].place
    assert tuple(paged) == everything


async def test_list_and_count_are_of_what_is_asked_for(connection: AsyncConnection) -> None:
    """By type, and by whether a retry may help."""
    letters = DeadLetters(connection)
    assert await letters.count() == 0
    await bury(connection, "a", at=LATER)
    await bury(connection, "b", at=NOW + LEASE, retryable=False)
    await bury(connection, "a", at=LATER + LEASE, retryable=False)
    assert await names(letters, retryable=False) == ["a", "b"]
    assert await names(letters, job_type="a") == ["a", "a"]
    assert await names(letters, job_type="a", retryable=True) == ["a"]
    assert [await letters.count(), await letters.count(job_type="a"), await letters.count(retryable=True)] == [3, 2, 1]


async def test_dead_letters_count_what_died_and_what_was_done_again(connection: AsyncConnection) -> None:
    """For the alerts: how many give up, and how many a person had to start again."""
    meter = Counted()
    woken: list[bool] = []
    letters = DeadLetters(connection, lambda: woken.append(True), meter=meter)
    await Jobs(connection).enqueue(kind="k", request={}, process_id="p", now=NOW)
    job = await take(connection)
    await letters.add(job, "no luck", NOW, attempts=1, retryable=True)
    assert meter.counts == {("jobs_dead", "k"): 1}
    assert woken == []
    await letters.reprocess(job.id, NOW)
    assert meter.counts == {("jobs_dead", "k"): 1, ("jobs_reprocessed", "k"): 1}
    assert woken == [True]
