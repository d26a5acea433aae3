"""Requests are known from the moment they are asked until days after they are done, and failed ones are retried."""

from datetime import timedelta
from typing import cast

from queue_engine.config.model import Policy
from queue_engine.control.dead_letter_retries import Actor, discard, retry_request
from queue_engine.core.jobs.job import Job
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.port import GitHub
from queue_engine.effects.context import Engine
from queue_engine.queries.request_status import RequestState, RequestStatus, load_request, load_requests
from queue_engine.store import Store, Transaction
from queue_engine.store.action_records import FIRST
from queue_engine.store.outbox.items import OutboxKind
from queue_engine.store.request_records import KEPT, RequestKind, RequestRecord, RequestStatusKind
from tests.store.examples import LEASE, NOW, OTHER, REPOSITORY
from tests.support.policies import StaticPolicies

SECOND = timedelta(seconds=1)


def engine_on(store: Store) -> Engine:
    """An engine that asks GitHub nothing."""
    return Engine(store, cast(GitHub, None), SystemClock(), StaticPolicies(Policy()), lambda: 0.5, "test")


async def ask(t: Transaction, number: int, *, repository: object = REPOSITORY, after: int = 0) -> str:
    """Store a job of a label, and its request; returns their id."""
    now = NOW + after * SECOND
    repository_ = OTHER if repository is OTHER else REPOSITORY
    job_id = await t.jobs.enqueue(
        kind="webhook", request={"repository_id": repository_.id, "number": number}, process_id=f"7:{number}", now=now
    )
    await t.requests.add([RequestRecord(job_id, repository_, number, RequestKind.LABEL, "merge-queue", "mona", now)])
    return job_id


async def claimed(t: Transaction) -> Job:
    """Claim the next job."""
    (job,) = await t.jobs.claim_some(1, owner="w", now=NOW + 60 * SECOND, lease=LEASE)
    return job


async def known(t: Transaction, request_id: str) -> RequestStatus:
    """Load a request that is known."""
    found = await load_request(t, request_id, NOW + 60 * SECOND)
    assert found is not None
    return found


async def test_request_waits_is_retried_and_is_done(t: Transaction) -> None:
    """A finished job is deleted, and its request stays known as done."""
    request = await ask(t, 1)
    waiting = await known(t, request)
    assert (waiting.state, waiting.pending, waiting.asked, waiting.asked_by) == ("waiting", True, "merge-queue", "mona")
    job = await claimed(t)
    working = await known(t, request)
    assert (working.state, working.pending, working.next_try_at) == ("processing", True, None)
    abandoned = await load_request(t, request, NOW + 60 * SECOND + LEASE)
    assert abandoned is not None
    assert abandoned.state == "waiting", "its worker died"
    await t.jobs.retry(job, at=NOW + 90 * SECOND, error="502", now=NOW)
    retrying = await known(t, request)
    assert (retrying.state, retrying.pending, retrying.attempts, retrying.error) == ("retrying", True, 1, "502")
    assert retrying.next_try_at == NOW + 90 * SECOND
    (job,) = await t.jobs.claim_some(1, owner="w", now=NOW + 95 * SECOND, lease=LEASE)
    await t.jobs.finish([job])
    done = await known(t, request)
    assert (done.state, done.pending, done.letter_id) == ("done", False, None)
    assert await load_request(t, "0" * 32, NOW + 60 * SECOND) is None


async def retried(engine: Engine, failed: RequestStatus) -> bool:
    """Retry a failed request as rhea; whether there was anything to retry."""
    async with engine.change() as change:
        return await retry_request(change.tx, failed, change.now, by="rhea")


async def who_did(t: Transaction) -> list[tuple[str, str | None, str | None, str | None]]:
    return [(each.action, each.by, each.via, each.subject) for each in await t.actions.page(FIRST, limit=9)]


async def test_failed_request_is_retried_once_by_a_person(store: Store) -> None:
    """Its dead letter becomes a job again; a second click finds nothing to retry."""
    engine = engine_on(store)
    async with store.transaction() as t:
        request = await ask(t, 1)
        await t.dead_letters.add(await claimed(t), "no permission", NOW, attempts=9, retryable=True)
    async with store.reading() as t:
        failed = await known(t, request)
    assert (failed.state, failed.error, failed.attempts, failed.is_retryable) == ("failed", "no permission", 9, True)
    assert await retried(engine, failed)
    assert not await retried(engine, failed)
    async with store.reading() as t:
        assert (await known(t, request)).state is RequestState.WAITING
        assert await who_did(t) == [("dead_letter_retried", "rhea", "page", request)]


async def test_retried_job_without_a_request_is_known_until_it_is_done(store: Store) -> None:
    """The retry is a request of the person who retried."""
    engine = engine_on(store)
    async with store.transaction() as t:
        await t.requests.add([])
        await ask(t, 2)
        job = await claimed(t)
        await t.requests.remove(job.id)
        await t.dead_letters.add(job, "no permission", NOW, attempts=1, retryable=True)
    async with store.reading() as t:
        failed = await known(t, job.id)
    assert (failed.kind, failed.repository, failed.number) == ("webhook", REPOSITORY, 2)
    await retried(engine, failed)
    async with store.transaction() as t:
        (job,) = await t.jobs.claim_some(1, owner="w", now=engine.clock.now() + SECOND, lease=LEASE)
        await t.jobs.finish([job])
        found = await known(t, job.id)
    assert (found.kind, found.state, found.asked_by) == (RequestKind.RETRY, RequestState.DONE, "rhea")


async def test_outbox_item_and_its_dead_letter_are_one_request(store: Store) -> None:
    """A label that GitHub refused is failed, waits once somebody retried it, and is gone once it is sent."""
    engine = engine_on(store)
    async with store.transaction() as t:
        await t.outbox.want_label(REPOSITORY, 5, "merge-queue", on=False, due=NOW)
        (waiting,) = await load_requests(t, 10, NOW + 60 * SECOND, of=[REPOSITORY.id])
        assert (waiting.state, waiting.asked, waiting.kind) == ("waiting", "remove merge-queue", OutboxKind.LABEL)
        item = await t.outbox.claim(owner="w", now=NOW, lease=LEASE)
        assert item is not None
        await t.outbox.dead(item, "refused", NOW, retryable=True)
        (failed,) = await load_requests(t, 10, NOW + 60 * SECOND, of=[REPOSITORY.id])
    assert (failed.id, failed.state, failed.error) == (waiting.id, RequestState.FAILED, "refused")
    assert await retried(engine, failed)
    async with store.reading() as t:
        assert (await known(t, waiting.id)).state is RequestState.WAITING
        assert await load_request(t, "label-99999999999999999999-5", NOW + 60 * SECOND) is None
        assert await load_request(t, "label-7-5-" + "0" * 16, NOW + 60 * SECOND) is None


async def test_discarded_request_has_no_retry(store: Store) -> None:
    """The request of a discarded dead letter counts as done: nothing more will happen."""
    async with store.transaction() as t:
        await t.outbox.want_label(REPOSITORY, 5, "merge-queue", on=True, due=NOW)
        item = await t.outbox.claim(owner="w", now=NOW, lease=LEASE)
        assert item is not None
        await t.outbox.dead(item, "refused", NOW, retryable=True)
        (failed,) = await load_requests(t, 10, NOW + 60 * SECOND, of=None)
    assert failed.letter_id is not None
    async with store.transaction() as t:
        assert await discard(t, failed.letter_id, Actor("rhea", "page"), NOW)
        assert not await discard(t, failed.letter_id, Actor("rhea", "page"), NOW)
        assert await who_did(t) == [("dead_letter_discarded", "rhea", "page", failed.letter_id)]
        left = await known(t, failed.id)
    assert (left.state, left.letter_id, left.is_retryable) == (RequestState.FAILED, None, False)


async def test_list_has_only_the_chosen_repositories_and_states_page_by_page(t: Transaction) -> None:
    """The latest first; each page begins where the one before ended."""
    first, hidden = await ask(t, 1), await ask(t, 1, repository=OTHER, after=1)
    second, third = await ask(t, 2, after=2), await ask(t, 3, after=3)
    own = [REPOSITORY.id]
    page = await load_requests(t, 2, NOW + 60 * SECOND, of=own)
    assert [each.id for each in page] == [third, second]
    assert [each.id for each in await load_requests(t, 2, NOW + 60 * SECOND, of=own, after=page[-1].place)] == [first]
    assert [each.id for each in await load_requests(t, 9, NOW + 60 * SECOND, of=None)] == [third, second, hidden, first]
    assert await load_requests(t, 9, NOW + 60 * SECOND, of=[]) == ()
    await t.jobs.finish([await claimed(t)])
    for wanted, ids in (("pending", [third, second]), ("done", [first]), ("failed", [])):
        found = await load_requests(t, 9, NOW + 60 * SECOND, of=own, wanted=RequestStatusKind(wanted))
        assert [each.id for each in found] == ids
    assert {each.id for each in await t.requests.repositories()} == {REPOSITORY.id, OTHER.id}


async def test_dead_letter_of_no_repository_is_for_operators(t: Transaction) -> None:
    """It is in the list of all, and in that of no repository."""
    await t.jobs.enqueue(kind="sweep", request={}, process_id="sweep", now=NOW)
    await t.dead_letters.add(await claimed(t), "broken", NOW, attempts=1, retryable=False)
    (found,) = await load_requests(t, 9, NOW + 60 * SECOND, of=None)
    assert (found.kind, found.repository, found.number, found.is_retryable) == ("sweep", None, None, False)
    assert await load_requests(t, 9, NOW + 60 * SECOND, of=[REPOSITORY.id, OTHER.id]) == ()


async def test_finished_requests_are_forgotten_after_days(t: Transaction) -> None:
    """One that is not finished stays, however old it is."""
    done, open_ = await ask(t, 1), await ask(t, 2)
    await t.jobs.finish([await claimed(t)])
    assert await t.requests.purge(NOW) == 0
    assert await t.requests.purge(NOW + SECOND) == 1
    assert await load_request(t, done, NOW + 60 * SECOND) is None
    assert (await known(t, open_)).pending
    assert timedelta(hours=72) <= KEPT
