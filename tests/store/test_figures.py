"""Counts and ages of everything that is stored."""

from dataclasses import replace
from datetime import timedelta

from queue_engine.core.jobs.dead_letters import DeadLetters
from queue_engine.domain.model import EntryStatus, Pause, UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store, Transaction
from queue_engine.store.figures import JobFigures, OutboxFigures, QueueFigures
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
        assert await tx.figures.of_jobs(NOW) == JobFigures({}, None, {}, 0, 0, None)
        assert await tx.figures.of_queues(NOW) == QueueFigures(0, 0, None, {}, 0, 0, 0)
        assert await tx.figures.of_outbox(NOW) == OutboxFigures(0, None)


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
    assert figures.stored == {("webhook", "PENDING"): 3, ("webhook", "IN_PROGRESS"): 1, ("sweep", "PENDING"): 1}
    assert figures.due_since == NOW + SOON


async def test_figures_of_dead_letters_show_kinds_age_and_the_last_hour(store: Store) -> None:
    """More than ten within an hour is an alarm: one that is exactly an hour old is not of them."""
    async with store.transaction() as tx:
        await _dead(tx, "webhook", retryable=True, at=timedelta(0))
        await _dead(tx, "webhook", retryable=False, at=SOON)
        await _dead(tx, "sweep", retryable=True, at=2 * SOON)
    async with store.reading() as tx:
        figures = await tx.figures.of_jobs(NOW + HOUR)
    assert (figures.dead, figures.dead_retryable) == ({"webhook": 2, "sweep": 1}, 2)
    assert (figures.dead_lately, figures.dead_since) == (2, NOW)


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
    assert figures == QueueFigures(3, 1, NOW + SOON, {"pending": 4}, 3, 1, 1, NOW)
    assert later.due_since == NOW, "its holder died"


async def test_age_of_the_front_counts_from_the_start_of_its_run(store: Store) -> None:
    """Those behind the front wait as long as they must; the oldest front of all queues counts."""
    async with store.transaction() as tx:
        main, release = await queue(tx), await queue(tx, "release")
        front = await stand(tx, main, 1, at=NOW - HOUR)
        await stand(tx, main, 2, at=NOW - HOUR)
        assert (await tx.figures.of_queues(NOW)).front_since == NOW - HOUR, "no run has begun, as one should"
        await tx.entries.save(changed(front, status=EntryStatus.UPDATING, started_at=NOW))
        assert (await tx.figures.of_queues(NOW)).front_since == NOW
        other = await stand(tx, release, 3, at=NOW - HOUR)
        await tx.entries.save(changed(other, status=EntryStatus.UPDATING, started_at=NOW - SOON))
        assert (await tx.figures.of_queues(NOW)).front_since == NOW - SOON


async def test_age_of_the_front_leaves_out_what_people_know_to_wait(store: Store) -> None:
    """Comments name a blocker or a missing permission, and an entry without room is no front."""
    async with store.transaction() as tx:
        main, release, stable = await queue(tx), await queue(tx, "release"), await queue(tx, "stable")
        await stand(tx, main, 1)
        await tx.queues.note_announced(main.id, "{}")
        blocked = await stand(tx, release, 2)
        await tx.entries.save(replace(blocked, blocked_since=NOW, blocked_until=NOW + SOON))
        await stand(tx, stable, 3, held_since=NOW)
        assert (await tx.figures.of_queues(NOW)).front_since is None
        assert (await tx.figures.of_queues(NOW + SOON)).front_since == NOW, "its next try is due"


async def test_figures_of_the_outbox_show_what_waits_and_since_when(store: Store) -> None:
    """An outbox item under way is still unsent, but is late only when its dispatcher is."""
    async with store.transaction() as tx:
        for number, wait in ((1, timedelta(0)), (2, SOON), (3, HOUR)):
            await tx.outbox.want_label(REPOSITORY, number, "merge-queue", on=False, due=NOW + wait)
        assert await tx.outbox.claim(owner="w", now=NOW, lease=LEASE) is not None
    async with store.reading() as tx:
        assert await tx.figures.of_outbox(NOW + SOON) == OutboxFigures(3, NOW + SOON)
        assert await tx.figures.of_outbox(NOW + LEASE) == OutboxFigures(3, NOW)


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
        assert [(await tx.figures.of_outbox(NOW + wait)).late for wait in (minute, minute + SOON)] == [0, 2]


async def test_figures_of_what_is_due_later_only_show_no_wait(store: Store) -> None:
    """A job, a queue or an outbox item that is due later counts no wait."""
    async with store.transaction() as tx:
        await tx.jobs.enqueue(kind="webhook", request={}, process_id="p", now=NOW, not_before=NOW + SOON)
        await tx.queues.wake((await queue(tx)).id, NOW + SOON)
        await tx.outbox.want_label(REPOSITORY, 1, "merge-queue", on=False, due=NOW + SOON)
    async with store.reading() as tx:
        jobs, queues = await tx.figures.of_jobs(NOW), await tx.figures.of_queues(NOW)
        assert (jobs.due_since, queues.due_since, (await tx.figures.of_outbox(NOW)).due_since) == (None, None, None)
