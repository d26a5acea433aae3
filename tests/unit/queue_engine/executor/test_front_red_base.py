"""A red base: when it is looked at, who is let through, and who waits no longer."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.errors import GitHubError, RateLimitError, Unavailable
from queue_engine.domain.facts import CheckState, Commit, LabelEvent
from queue_engine.domain.model import RedBase
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.policy import FIX
from queue_engine.domain.reasons import Reason
from queue_engine.executor.base import find_fixes, mark_as_fix
from queue_engine.executor.landing import land
from queue_engine.planner.queue_plan import QueueWait
from queue_engine.store import Store
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    READY,
    REPOSITORY,
    SECOND,
    comparison,
    report,
)
from tests.unit.queue_engine.queues import WINDOW, entries, events, pause, second, shown, stored, take

RED = RedBase("ci", "base-1", NOW - HOUR, 2, NOW, 10)


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


@pytest.mark.parametrize(
    ("state", "tip", "red"),
    [(CheckState.FAILED, "base-1", True), (CheckState.PENDING, "base-2", True), (CheckState.PASSED, "base-2", False)],
)
async def test_front_polls_a_red_base_when_it_is_due(scene: Setup, state: CheckState, tip: str, red: bool) -> None:
    """The queue proceeds when the check passes; if the base moved, all entries count as behind."""
    queue = await scene.front(status=CHECKING, base_tip="base-1")
    await second(scene, queue)
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)
    scene.github.compared = comparison(base_tip=tip)
    scene.github.base_reports = (report("ci", state),)
    found = await take(scene, queue)
    known = (await stored(scene, queue)).red
    assert scene.github.asked == ["comparison", "base_reports", *(["labeled"] if red else [])]
    assert (known is not None) == red
    assert found == (1 if known is None else QueueWait(known.next_poll_at))
    assert known is None or (known.tip, known.next_poll_at > NOW) == (tip, True)
    behind = [(entry.newer_tip, entry.run.base_tip) for entry in await entries(scene, queue)]
    assert behind == ([("base-2", "base-1"), ("base-2", None)] if tip == "base-2" else [(None, "base-1"), (None, None)])


@pytest.mark.parametrize(
    ("label", "by", "at", "is_fix"),
    [
        ("merge-queue-fix", "mona", NOW + MINUTE, True),
        ("merge-queue-fix", "tria", NOW + MINUTE, False),
        ("merge-queue-fix", "tria", NOW - MINUTE, True),
        ("merge-queue-fix", "tria", NOW, True),
        ("merge-queue-fix", None, NOW + MINUTE, False),
        ("another", "mona", NOW + MINUTE, False),
    ],
)
async def test_front_finds_the_fix_of_a_red_base_by_a_label_that_meant_nothing_when_it_was_set(
    scene: Setup, label: str, by: str | None, at: datetime, is_fix: bool
) -> None:
    """Its webhook was missed; the requester saw an older label, a later one counts if its setter may queue."""
    queue = await scene.front(status=CHECKING, base_tip="base-1")
    await second(scene, queue)
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)
    scene.github.compared = comparison(base_tip="base-2")
    scene.github.base_reports = (report("ci", CheckState.FAILED),)
    scene.github.labeled = {label: (7, 2)}
    scene.github.label_events = {2: LabelEvent(by, at)}
    found = await take(scene, queue)
    assert (found == 2) == is_fix
    assert {e.number: e.fixes_base for e in await entries(scene, queue)} == {1: False, 2: is_fix}
    assert ((2, "priority", None) in await events(scene)) == is_fix


async def test_fix_is_found_by_the_first_of_its_labels_and_exempted_once(scene: Setup) -> None:
    """P7: one that is found is asked about no more; and its timeline says once who marked it."""
    queue = await scene.front()
    await second(scene, queue)
    scene.github.labeled = {"fix": (1, 3), "mend": (1, 2)}
    scene.github.label_events = {1: LabelEvent("mona", NOW), 2: LabelEvent(None, NOW + MINUTE)}
    policy = replace(
        POLICY, priority=replace(POLICY.priority, labels=tuple(replace(FIX, label=label) for label in ("fix", "mend")))
    )
    waiting = await entries(scene, queue)
    assert await find_fixes(scene.engine, queue, waiting, policy) == {waiting[0].id: "max"}
    assert scene.github.asked == ["labeled", "label_event", "labeled", "label_event"]
    for entry_id in (waiting[0].id, waiting[0].id, "f" * 32):
        async with scene.engine.change() as change:
            await mark_as_fix(change, entry_id, "max")
    assert await events(scene) == [(1, "priority", None)]


async def test_front_dequeues_entries_that_waited_for_a_red_base_for_the_longest_time(scene: Setup) -> None:
    """P5: the limit counts from when each entry joined, and does not hold for fixes. IMQ sends no request."""
    queue = await scene.front()
    await second(scene, queue, 2, at=NOW - 9 * HOUR)
    await second(scene, queue, 3, at=NOW - 9 * HOUR, fixes_base=True)
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, replace(RED, since=NOW - 2 * HOUR, next_poll_at=NOW + 9 * HOUR))
    policy = replace(POLICY, timeouts=replace(POLICY.timeouts, hold=2 * HOUR))
    assert await take(scene, queue, replace(policy, timeouts=replace(policy.timeouts, hold=2 * HOUR + SECOND))) == 3
    assert [entry.number for entry in await entries(scene, queue)] == [1, 2, 3]
    assert await take(scene, queue, policy) == 3
    first, fix = await entries(scene, queue)
    assert (first.number, fix.number, await shown(scene, 2)) == (1, 3, NoticeKind.FAILED)
    assert (2, "failed", Reason.BASE_STAYS_RED) in await events(scene)
    assert scene.github.asked == []
    async with scene.store.transaction() as tx:
        await tx.entries.remove(fix)
    assert await take(scene, queue, policy) == QueueWait(NOW + 2 * HOUR), "the end of its time, not the next look"
    assert (await stored(scene, queue)).red is not None


async def test_front_polls_a_red_base_before_it_dequeues_an_entry(scene: Setup) -> None:
    """A base that is green by now unblocks all entries, whatever time has passed; so does a pause that hid it."""
    queue = await scene.front(status=CHECKING, base_tip="base-1")
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, replace(RED, since=NOW - 9 * HOUR))
    scene.github.base_reports = (report("ci", CheckState.PASSED),)
    policy = replace(POLICY, timeouts=replace(POLICY.timeouts, hold=timedelta(0)))
    await pause(scene, queue, Reason.PAUSED_BY_HAND)
    assert await take(scene, queue, policy) == QueueWait(None)
    async with scene.store.transaction() as tx:
        await tx.pauses.lift(queue.id, Reason.PAUSED_BY_HAND, now=NOW)
    assert await take(scene, queue, policy) == 1


@pytest.mark.parametrize(
    ("error", "waits"), [(Unavailable("502"), 30 * MINUTE), (RateLimitError("slow", retry_after=2 * HOUR), 2 * HOUR)]
)
async def test_poll_of_a_red_base_that_fails_is_tried_again_later(
    scene: Setup, error: GitHubError, waits: timedelta
) -> None:
    """While GitHub fails the base stays red, and entries wait no longer than their limit."""
    queue = await scene.front()
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)

    async def fails() -> None:
        raise error

    scene.github.meanwhile["comparison"] = fails
    found = await take(scene, queue)
    assert isinstance(found, QueueWait)
    assert found.until is not None
    assert found.until - NOW >= waits
    known = (await stored(scene, queue)).red
    assert known is not None
    assert (known.tip, known.next_poll_at) == ("base-1", found.until)


async def test_report_that_comes_while_a_red_base_is_polled_is_not_lost(scene: Setup) -> None:
    """The poll began before the report, so IMQ polls the base again at once, and not hours later."""
    queue = await scene.front(status=CHECKING)
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, replace(RED, next_poll_at=NOW - MINUTE))
    scene.github.base_reports = (report("ci", CheckState.PENDING),)

    async def passes() -> None:
        scene.github.base_reports = (report("ci", CheckState.PASSED),)
        async with scene.store.transaction() as tx:
            await tx.red_bases.reported(REPOSITORY.id, RED.tip, NOW)

    scene.github.meanwhile["base_reports"] = passes
    assert await take(scene, queue) == 1
    assert scene.github.asked == ["comparison", "base_reports", "labeled", "comparison", "base_reports"]


async def test_resume_while_a_red_base_is_polled_is_kept(scene: Setup) -> None:
    """A command counts, and not a poll that began before it."""
    queue = await scene.front(status=CHECKING)
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)
    scene.github.base_reports = (report("ci", CheckState.FAILED),)

    async def resumes() -> None:
        async with scene.store.transaction() as tx:
            await tx.red_bases.note(queue.id, None)

    scene.github.meanwhile["base_reports"] = resumes
    assert await take(scene, queue) == 1
    assert (await stored(scene, queue)).red is None


async def test_front_of_a_frozen_queue_polls_no_base(scene: Setup) -> None:
    """No entry could land now."""
    queue = await scene.front()
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)
    assert await take(scene, queue, WINDOW) == QueueWait(NOW + HOUR)
    assert scene.github.asked == []


async def test_landing_through_the_queue_proves_the_base_green(scene: Setup) -> None:
    """Its tree has passed: the others go on at once, whether the base itself is checked or not."""
    queue = await scene.front(status=READY, tested_tree="tree", merge_requested_at=NOW, fixes_base=True)
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)
        front = (await tx.entries.of_queue(queue.id))[0]
    await land(scene.engine, queue, front, Commit("landed-1", "tree", ("base-1", "head-1")), POLICY)
    assert (await stored(scene, queue)).red is None
