"""Counts and ages of everything that is stored."""

from dataclasses import replace
from datetime import datetime, timedelta

from queue_engine.core.jobs.dead_letters import DeadLetters
from queue_engine.domain.model import EntryStatus, Pause, UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store, Transaction
from queue_engine.store.outbox.items import OutboxKind
from tests.store.examples import LEASE, NOW, OTHER, REPOSITORY, SOON, changed, queue, stand
from tests.store.outbox.outbox_examples import notice
from tests.support.claims import claim_one

HOUR = timedelta(hours=1)


async def _dead(tx: Transaction, kind: str, *, retryable: bool, at: timedelta) -> None:
    await tx.jobs.enqueue(kind=kind, request={}, process_id=kind, now=NOW, priority=9)
    job = await claim_one(tx.jobs, owner="w", now=NOW, lease=LEASE)
    assert job is not None
    await DeadLetters(tx.connection).add(job, "broken", NOW + at, attempts=3, retryable=retryable)


async def test_figures_of_an_empty_database_are_nothing(store: Store) -> None:
    """A new installation has no age and no count that is missing."""
    async with store.reading() as tx:
        figures = await tx.figures.of_jobs(NOW) | await tx.figures.of_queues(NOW) | await tx.figures.of_outbox(NOW)
    statuses = {(each,): 0 for each in ("pending", "updating", "checking", "ready")}
    by_label = {"jobs": {}, "dead_letters": {}, "queue_entries": statuses}
    assert figures == dict.fromkeys(figures, 0) | by_label


async def test_figures_of_jobs_show_kinds_states_and_the_longest_wait(store: Store) -> None:
    """Neither a job under way nor one that is due later waits to be taken."""
    async with store.transaction() as tx:
        for number, wait in enumerate((timedelta(0), SOON, 2 * SOON, HOUR)):
            process = f"hint:{number}"
            await tx.jobs.enqueue(kind="webhook", request={}, process_id=process, now=NOW, not_before=NOW + wait)
        assert await claim_one(tx.jobs, owner="w", now=NOW, lease=LEASE) is not None
        await tx.jobs.enqueue(kind="sweep", request={}, process_id="sweep", now=NOW + 3 * SOON)
    async with store.reading() as tx:
        figures = await tx.figures.of_jobs(NOW + 3 * SOON)
    stored = {("webhook", "pending"): 3, ("webhook", "in_progress"): 1, ("sweep", "pending"): 1}
    assert figures["jobs"] == stored
    assert figures["jobs_oldest_due_seconds"] == (2 * SOON).total_seconds()


async def test_figures_of_dead_letters_show_kinds_age_and_the_last_hour(store: Store) -> None:
    """More than ten within an hour is an alarm: one that is exactly an hour old is not of them."""
    async with store.transaction() as tx:
        await _dead(tx, "webhook", retryable=True, at=timedelta(0))
        await _dead(tx, "webhook", retryable=False, at=SOON)
        await _dead(tx, "sweep", retryable=True, at=2 * SOON)
    async with store.reading() as tx:
        figures = await tx.figures.of_jobs(NOW + HOUR)
    names = ("dead_letters", "dead_letters_retryable", "dead_letters_last_hour", "dead_letters_oldest_seconds")
    assert [figures[each] for each in names] == [{("webhook",): 2, ("sweep",): 1}, 2, 2, HOUR.total_seconds()]


async def test_figures_of_queues_show_all_together_and_the_longest(store: Store) -> None:
    """One in somebody's hands is not waiting for a pass; paused are those that a person has to resume."""
    async with store.transaction() as tx:
        main, release, other = await queue(tx), await queue(tx, "release"), await queue(tx, "main", OTHER)
        for number in (1, 2, 3):
            await stand(tx, main, number)
        await stand(tx, release, 4)
        await stand(tx, main, 5, held_since=NOW)
        await stand(tx, main, 6, unmet=[UnmetRequirement(Reason.DRAFT).as_data()])
        await tx.pauses.put(release.id, Pause(reason=Reason.TREE_MISMATCH, detail="", since=NOW))
        await tx.queues.wake(main.id, NOW)
        claimed = await tx.queues.claim_due(owner="w", now=NOW, lease=LEASE, limit=2)
        assert {each.id for each in claimed} == {main.id, release.id}
        await tx.pauses.put(other.id, Pause(Reason.FROZEN, "", NOW + SOON, NOW + LEASE))
    async with store.reading() as tx:
        figures = await tx.figures.of_queues(NOW + SOON)
        later = await tx.figures.of_queues(NOW + LEASE)
    names = ("queues", "queues_paused", "queue_depth_max", "held_pull_requests", "not_ready_pull_requests")
    assert [figures[each] for each in names] == [3, 1, 3, 1, 1]
    assert figures["queue_entries"] == {("pending",): 4, ("updating",): 0, ("checking",): 0, ("ready",): 0}
    assert (figures["queues_oldest_due_seconds"], figures["front_oldest_seconds"]) == (0, SOON.total_seconds())
    assert later["queues_oldest_due_seconds"] == LEASE.total_seconds(), "its holder died"


async def _age_of_front(tx: Transaction, now: datetime) -> timedelta:
    seconds = (await tx.figures.of_queues(now))["front_oldest_seconds"]
    assert isinstance(seconds, float)
    return timedelta(seconds=seconds)


async def test_age_of_the_front_counts_from_the_start_of_its_run(store: Store) -> None:
    """Those behind the front wait as long as they must; the oldest front of all queues counts."""
    async with store.transaction() as tx:
        main, release = await queue(tx), await queue(tx, "release")
        front = await stand(tx, main, 1, at=NOW - HOUR)
        await stand(tx, main, 2, at=NOW - HOUR)
        assert await _age_of_front(tx, NOW) == HOUR, "no run has begun, as one should"
        await tx.entries.save(changed(front, status=EntryStatus.UPDATING, started_at=NOW - LEASE))
        assert await _age_of_front(tx, NOW) == LEASE
        other = await stand(tx, release, 3, at=NOW - HOUR)
        await tx.entries.save(changed(other, status=EntryStatus.UPDATING, started_at=NOW - 2 * LEASE))
        assert await _age_of_front(tx, NOW) == 2 * LEASE


async def test_age_of_the_front_leaves_out_what_people_know_to_wait(store: Store) -> None:
    """Comments name a blocker or a missing permission, and an entry without room is no front."""
    async with store.transaction() as tx:
        main, release, stable = await queue(tx), await queue(tx, "release"), await queue(tx, "stable")
        await stand(tx, main, 1)
        await tx.queues.note_announced(main.id, "{}")
        blocked = await stand(tx, release, 2)
        await tx.entries.save(replace(blocked, blocked_since=NOW, blocked_until=NOW + SOON))
        await stand(tx, stable, 3, held_since=NOW)
        assert await _age_of_front(tx, NOW + SOON / 2) == timedelta(0)
        assert await _age_of_front(tx, NOW + SOON) == SOON, "its next try is due"


async def test_figures_of_the_outbox_show_what_waits_and_since_when(store: Store) -> None:
    """An outbox item under way is still unsent, but is late only when its dispatcher is."""
    async with store.transaction() as tx:
        for number, wait in ((1, timedelta(0)), (2, SOON), (3, HOUR)):
            await tx.outbox.want_label(REPOSITORY, number, "merge-queue", on=False, due=NOW + wait)
        assert await tx.outbox.claim(owner="w", now=NOW, lease=LEASE) is not None
    async with store.reading() as tx:
        figures = [await tx.figures.of_outbox(NOW + wait) for wait in (SOON, 2 * SOON, LEASE)]
    assert [each["outbox_waiting"] for each in figures] == [3, 3, 3]
    ages = [each["outbox_oldest_due_seconds"] for each in figures]
    assert ages == [0, SOON.total_seconds(), LEASE.total_seconds()]


async def test_figures_of_words_that_are_late_are_those_held_or_left_for_over_a_minute(store: Store) -> None:
    """The alert stands on them. A label is no word, and one sent in time is not late, although a limit held it."""
    minute = timedelta(minutes=1)
    async with store.transaction() as tx:
        for number, kind in ((1, OutboxKind.COMMENT), (2, OutboxKind.CHECK_RUN)):
            await tx.outbox.want(kind, REPOSITORY, number, due=NOW, notice=notice())
        held = await tx.outbox.claim(owner="w", now=NOW, lease=LEASE)
        assert held is not None
        await tx.outbox.hold(held, at=NOW + HOUR, since=NOW)
        await tx.outbox.want_label(REPOSITORY, 3, "merge-queue", on=False, due=NOW)
    async with store.reading() as tx:
        late = [(await tx.figures.of_outbox(NOW + wait))["outbox_late"] for wait in (minute, minute + SOON)]
    assert late == [0, 2]


async def test_figures_of_what_is_due_later_only_show_no_wait(store: Store) -> None:
    """A job, a queue or an outbox item that is due later counts no wait."""
    async with store.transaction() as tx:
        await tx.jobs.enqueue(kind="webhook", request={}, process_id="p", now=NOW, not_before=NOW + SOON)
        await tx.queues.wake((await queue(tx)).id, NOW + SOON)
        await tx.outbox.want_label(REPOSITORY, 1, "merge-queue", on=False, due=NOW + SOON)
    async with store.reading() as tx:
        figures = await tx.figures.of_jobs(NOW) | await tx.figures.of_queues(NOW) | await tx.figures.of_outbox(NOW)
    assert [figures[f"{each}_oldest_due_seconds"] for each in ("jobs", "queues", "outbox")] == [0, 0, 0]
