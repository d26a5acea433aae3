"""The line outside of a full queue, step by step, on both databases."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from queue_engine.admission.admit import handle_enqueue_request
from queue_engine.admission.case import Case
from queue_engine.admission.dequeue import DequeuePermission, NotQueued, dequeue_by_user
from queue_engine.admission.enqueue_request import EnqueueRequest
from queue_engine.admission.held import HeldPullRequests
from queue_engine.core.jobs.job_store import Job
from queue_engine.core.jobs.outcomes import Hold
from queue_engine.domain.errors import NotFound, RateLimitError, StaleRecord, Unavailable
from queue_engine.domain.facts import Permission, PullRequest, Snapshot
from queue_engine.domain.policy import Policy
from queue_engine.domain.port import GitHub as Port
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.effects.queue_depth import HELD_JOB
from queue_engine.effects.record import ADMIT_WAITING_JOB
from queue_engine.store import Store
from queue_engine.store.outbox.outbox import OutboxKind
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import Clock, GitHub
from tests.unit.queue_engine.examples import NOW, REPOSITORY, pull

MINUTE = timedelta(minutes=1)
TICK = timedelta(microseconds=1)


class Door(GitHub):
    """Every pull request exists and may be queued by everybody, unless `failing` says otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: dict[int, Exception] = {}
        self.read: list[int] = []
        self.heads: dict[int, str] = {}
        """The heads of those that somebody pushed to."""

    async def pull_request(self, *asked: object) -> PullRequest:
        number = cast(int, asked[1])
        self.read.append(number)
        if number in self.failing:
            raise self.failing[number]
        return await self._answer("pull", pull(number=number, head_sha=self.heads.get(number, f"head-{number}")))

    async def snapshot(self, *asked: object, login: str | None = None, head_sha: str | None = None) -> Snapshot:
        return Snapshot(await self.pull_request(*asked), Permission.WRITE if login else None)

    async def permission(self, *_: object) -> Permission:
        return await self._answer("permission", Permission.WRITE)


class Outside:
    """One queue of one place, with a line before it."""

    def __init__(self, store: Store) -> None:
        self.github = Door()
        self.engine = Engine(
            store, cast(Port, self.github), Clock(), StaticPolicies(Policy(max_depth=1)), random=lambda: 0.5, owner="w"
        )
        self.line = HeldPullRequests(self.engine)

    def allow(self, hold_timeout: timedelta) -> None:
        """The repository's limit for waiting outside."""
        policies = StaticPolicies(Policy(max_depth=1, hold_timeout=hold_timeout))
        self.engine = replace(self.engine, policies=policies)
        self.line = HeldPullRequests(self.engine)

    async def label(self, *numbers: int) -> None:
        """These are labelled, one after the other."""
        for number in numbers:
            await handle_enqueue_request(self.engine, EnqueueRequest(Case(REPOSITORY, number), "max", f"head-{number}"))

    async def leave(self) -> None:
        """The front leaves, and nobody is told of it."""
        async with self.engine.store.transaction() as tx:
            for entry in await tx.entries.of_repository(REPOSITORY.id):
                await tx.entries.remove(entry)
        self.github.read.clear()

    async def retry(self, number: int, *, claims: int = 1) -> Hold | None:
        """The job of a held one is done for the how-manieth time."""
        return await self.line.retry_enqueue(a_job({"repository_id": REPOSITORY.id, "number": number}, claims))

    async def fill(self) -> None:
        """A place is told to be free."""
        async with self.engine.store.reading() as tx:
            (queue,) = await tx.queues.all()
        await self.line.admit_waiting(a_job({"queue_id": queue.id}, 1))

    async def standing(self) -> tuple[list[int], list[int]]:
        """Who stands in the queue, and who waits, in order."""
        async with self.engine.store.reading() as tx:
            (queue,) = await tx.queues.all()
            waiting = [n for n in range(10) if await tx.held.find(REPOSITORY.id, n)]
            ranked = sorted([(await tx.held.ahead(queue.id, REPOSITORY.id, n), n) for n in waiting])
            return [entry.number for entry in await tx.entries.of_queue(queue.id)], [n for _, n in ranked]

    async def kinds(self) -> list[str]:
        """The kinds of the jobs that are stored, and after how many seconds each is due."""
        async with self.engine.store.transaction() as tx:
            claimed = await tx.jobs.claim_some(99, owner="w", now=NOW + timedelta(days=1), lease=MINUTE)
            return sorted(f"{job.kind} {(job.not_before - NOW).total_seconds():.0f}" for job in claimed)


def a_job(request: dict[str, Any], claims: int) -> Job:
    """A job as a worker hands it over."""
    return cast(Job, type("AJob", (), {"request": request, "claims": claims, "kind": HELD_JOB})())


@pytest.fixture
def outside(store: Store) -> Outside:
    return Outside(store)


async def test_label_on_a_full_queue_waits_and_retries_after_thirty_seconds(outside: Outside) -> None:
    """The retry is a stored job: it outlives the process."""
    await outside.label(1, 2)
    assert await outside.standing() == ([1], [2])
    assert await outside.kinds() == [f"{HELD_JOB} 30"]


@pytest.mark.parametrize(("claims", "seconds"), [(1, 60), (2, 120), (3, 240), (4, 300), (5, 300), (500, 300)])
async def test_retries_without_a_place_follow_the_overload_series_and_ask_nothing(
    outside: Outside, claims: int, seconds: int
) -> None:
    """Seed 004's figures; the first thirty seconds lie before the first retry."""
    await outside.label(1, 2)
    outside.github.read.clear()
    assert await outside.retry(2, claims=claims) == Hold(timedelta(seconds=seconds))
    assert outside.github.read == []


async def test_retry_of_the_first_fills_the_place_and_ends(outside: Outside) -> None:
    """No event reported the free place; the retry of one that has joined, or left, is done."""
    await outside.label(1, 2, 3)
    await outside.leave()
    assert await outside.retry(2) is None
    assert await outside.standing() == ([2], [3])
    assert await outside.retry(2) is None


async def test_retry_of_a_later_one_leaves_the_place_to_the_first_and_asks_nothing(outside: Outside) -> None:
    """P3, P7: only the first in line speaks for it."""
    await outside.label(1, 2, 3)
    await outside.leave()
    assert isinstance(await outside.retry(3), Hold)
    assert outside.github.read == []
    assert await outside.standing() == ([], [2, 3])


async def test_label_on_a_place_that_somebody_waits_for_goes_to_the_end_of_the_line(outside: Outside) -> None:
    """P3: the place is free, but not for a new request."""
    await outside.label(1, 2)
    await outside.leave()
    await outside.label(3)
    assert await outside.standing() == ([], [2, 3])
    await outside.fill()
    assert await outside.standing() == ([2], [3])


async def test_labels_at_the_same_time_get_no_more_places_than_there_are(outside: Outside) -> None:
    """Counting and giving a place are one step, also where transactions run side by side."""
    await outside.label(9)
    await outside.leave()
    await asyncio.gather(*(outside.label(number) for number in range(1, 6)))
    standing, waiting = await outside.standing()
    assert (len(standing), sorted(standing + waiting)) == (1, [1, 2, 3, 4, 5])


async def test_place_goes_to_the_next_when_the_first_cannot_be_judged(outside: Outside) -> None:
    """P5: trouble with one pull request is nobody else's; it waits on, behind the others."""
    await outside.label(1, 2, 3)
    outside.github.failing[2] = Unavailable("502", status=502)
    await outside.leave()
    await outside.fill()
    assert await outside.standing() == ([3], [2])


async def test_place_goes_to_the_next_when_the_first_is_gone_from_github(outside: Outside) -> None:
    """One that GitHub knows no more waits for nothing."""
    await outside.label(1, 2, 3)
    outside.github.failing[2] = NotFound("404", status=404)
    await outside.leave()
    await outside.fill()
    assert await outside.standing() == ([3], [])


async def test_rate_limit_ends_the_round_and_nobody_loses_the_place_in_line(outside: Outside) -> None:
    """It concerns all of them: the job is held for as long as GitHub asks."""
    await outside.label(1, 2, 3)
    outside.github.failing[2] = RateLimitError("slow down", retry_after=MINUTE)
    await outside.leave()
    with pytest.raises(RateLimitError):
        await outside.fill()
    assert await outside.standing() == ([], [2, 3])
    assert outside.github.read == [2]


async def test_refusal_of_a_held_one_calls_the_next(outside: Outside) -> None:
    """Its place in the line is free for those behind, who are told in the same transaction."""
    await outside.label(1, 2, 3)
    await outside.leave()
    outside.github.heads[2] = "other"
    assert await outside.line.revalidate(REPOSITORY, 2)
    assert await outside.standing() == ([], [3])
    assert f"{ADMIT_WAITING_JOB} 0" in await outside.kinds()


async def test_held_that_has_waited_for_as_long_as_it_may_leaves_with_a_word(outside: Outside) -> None:
    """P5: every wait has a limit; those behind it are called, and its retries end."""
    await outside.label(1, 2, 3)
    outside.allow(TICK)
    assert isinstance(await outside.retry(2), Hold), "not yet"
    outside.allow(timedelta(0))
    assert await outside.retry(2) is None
    assert await outside.standing() == ([1], [3])
    async with outside.engine.store.reading() as tx:
        notice = await tx.outbox.wanted(OutboxKind.COMMENT, REPOSITORY.id, 2)
        refusal = await tx.refusals.find(REPOSITORY.id, 2)
    assert (notice and notice.reason, refusal and refusal.head_sha) == (Reason.HOLD_TIMED_OUT, "head-2")
    assert f"{ADMIT_WAITING_JOB} 0" in await outside.kinds()


async def test_held_that_has_waited_too_long_and_cannot_be_read_waits_on(outside: Outside) -> None:
    """GitHub's trouble is no reason to let it go without a word."""
    await outside.label(1, 2)
    outside.allow(timedelta(0))
    outside.github.failing[2] = Unavailable("502", status=502)
    assert isinstance(await outside.retry(2), Hold)
    assert await outside.standing() == ([1], [2])


async def test_held_that_gets_its_place_at_its_limit_joins(outside: Outside) -> None:
    """The place comes first."""
    await outside.label(1, 2)
    await outside.leave()
    outside.allow(timedelta(0))
    assert await outside.retry(2) is None
    assert await outside.standing() == ([2], [])


async def test_held_that_is_called_off_in_the_moment_of_its_place_does_not_join(outside: Outside) -> None:
    """P4: its label is still there, and what was read of it says that it is wanted."""
    await outside.label(1, 2, 3)
    await outside.leave()

    async def call_off() -> None:
        async with outside.engine.change() as change:
            assert await dequeue_by_user(
                change, REPOSITORY, 2, DequeuePermission(Policy(max_depth=1), unlabelled=False, by="max")
            )

    outside.github.meanwhile["rules"] = call_off
    await outside.fill()
    assert await outside.standing() == ([3], [])
    async with outside.engine.store.reading() as tx:
        notice = await tx.outbox.wanted(OutboxKind.COMMENT, REPOSITORY.id, 2)
        refusal = await tx.refusals.find(REPOSITORY.id, 2)
        assert await tx.outbox.wanted_labels(REPOSITORY.id, 2) == {"merge-queue": False}
    assert (notice and notice.reason, refusal and refusal.head_sha) == (Reason.UNQUEUED, "head-2")


async def test_one_that_neither_waits_nor_stands_cannot_be_taken_out(outside: Outside) -> None:
    """Nor can one whose merge is asked for by somebody who did not know that; nothing is changed by either."""
    await outside.label(1)
    leave = DequeuePermission(Policy(max_depth=1), unlabelled=False, by="max")
    async with outside.engine.store.transaction() as tx:
        entry = await tx.entries.find(REPOSITORY.id, 1)
        assert entry is not None
        await tx.entries.save(replace(entry, merge_requested_at=NOW))
    with pytest.raises(NotQueued):
        async with outside.engine.change() as change:
            await dequeue_by_user(change, REPOSITORY, 9, leave)
    with pytest.raises(StaleRecord):
        async with outside.engine.change() as change:
            await dequeue_by_user(change, REPOSITORY, 1, leave)
    assert await outside.standing() == ([1], [])


async def test_held_that_is_requested_again_at_its_limit_keeps_its_retries(outside: Outside) -> None:
    """The job that retries is its only one."""
    await outside.label(1, 2)
    outside.allow(timedelta(0))

    async def ask_again() -> None:
        await handle_enqueue_request(outside.engine, EnqueueRequest(Case(REPOSITORY, 2), "eve", "head-2"))

    outside.github.meanwhile["pull"] = ask_again
    assert isinstance(await outside.retry(2), Hold)
    assert await outside.standing() == ([1], [2])
