"""Select the front of a stored queue, and announce its blockers before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime

import pytest

from queue_engine.config.model import TrainRules
from queue_engine.core.database.database import Database
from queue_engine.domain.blocker import BlockerNotices
from queue_engine.domain.model import EntryStatus, Pause, Queue
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import NOT_BEGUN
from queue_engine.effects.context import Change, Engine
from queue_engine.executor.queue_pass import find_members
from queue_engine.executor.run_store import TrainState
from queue_engine.planner.queue_plan import Front, QueueWait, front_without_policy
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.store.examples import changed
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    MINUTE,
    NOW,
    PENDING,
    POLICY,
    READY,
    REPOSITORY,
    comparison,
    entry,
)
from tests.unit.queue_engine.queues import WINDOW, entries, events, find, pause, second, shown, stored, take

HOTFIX = {"hotfix": True, "preempts": True}


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def test_front_of_a_queue_without_blockers_is_its_first_entry_and_writes_nothing(scene: Setup) -> None:
    """IMQ announces nothing, and sends no request."""
    queue = await scene.front()
    await second(scene, queue)
    before = await entries(scene, queue)
    assert await find(scene, queue, POLICY) == Front(before[0], 2)
    assert await entries(scene, queue) == before
    assert (await events(scene), scene.github.asked) == ([], [])


async def test_queue_whose_configuration_changed_since_it_was_read_has_no_front_and_is_due_at_once(
    scene: Setup,
) -> None:
    """P1: the policy that the pass has may require fewer checks than the present one."""
    queue = await scene.front()
    async with scene.store.transaction() as tx:
        await tx.repositories.renew_settings(REPOSITORY.id)
    state = TrainState(scene.engine, queue, POLICY, TrainRules(), lambda: True)
    await state.load()
    assert await find_members(state) == QueueWait(NOW)


async def test_front_is_none_in_a_freeze_which_is_announced_once_on_each_entry(scene: Setup) -> None:
    """IMQ announces the freeze on an entry that joins later, and not again on the others."""
    queue = await scene.front()
    await second(scene, queue)
    assert await take(scene, queue, WINDOW) == QueueWait(NOW + HOUR)
    assert [await shown(scene, n) for n in (1, 2)] == [NoticeKind.PAUSED] * 2
    assert await take(scene, queue, WINDOW) == QueueWait(NOW + HOUR)
    versions = await comment_versions(scene)
    await second(scene, queue, 3)
    assert await take(scene, queue, WINDOW) == QueueWait(NOW + HOUR)
    assert await shown(scene, 3) is NoticeKind.PAUSED
    after = await comment_versions(scene)
    assert {n: after[n] for n in versions} == versions
    assert await events(scene) == [(0, "paused", Reason.FROZEN)]
    assert scene.github.asked == []


async def comment_versions(scene: Setup) -> dict[int, int]:
    """Versions of the comments, by pull request."""
    async with scene.store.transaction() as tx:
        rows = await tx.connection.exec_driver_sql("SELECT number, version FROM outbox WHERE kind = 'comment'")
        return {row.number: row.version for row in rows}


async def test_front_after_a_blocker_is_announced_on_each_entry_and_starts_without_failures(
    scene: Setup,
) -> None:
    """A freeze of days is no trouble of GitHub's, and no base that keeps moving."""
    queue = await scene.front(
        status=CHECKING, started_at=NOW - 9 * HOUR, github_failures=2, github_failing_since=NOW - 9 * HOUR
    )
    await second(scene, queue)
    await take(scene, queue, WINDOW)
    notices = BlockerNotices.from_json((await stored(scene, queue)).announced)
    assert notices is not None
    (announced,) = notices.blockers
    assert announced.since == NOW
    async with scene.store.transaction() as tx:
        earlier = replace(notices, blockers=(replace(announced, since=NOW - 5 * HOUR),))
        await tx.queues.note_announced(queue.id, earlier.to_json())
    assert await take(scene, queue) == 1
    front = (await entries(scene, queue))[0]
    assert (front.status, front.run.github_failures, front.run.github_failing_since) == (CHECKING, 0, None)
    assert front.run.started_at == NOW - 4 * HOUR, "five of its nine hours were no time that it had"
    assert [await shown(scene, n) for n in (1, 2)] == [NoticeKind.CHECKING, NoticeKind.QUEUED]
    assert [event for _, event, _ in await events(scene)] == ["paused", "resumed"]
    assert (await stored(scene, queue)).announced is None


async def test_front_of_a_pause_at_its_end_lifts_it(scene: Setup) -> None:
    """Whether any entry waits or not."""
    queue = await scene.front()
    await pause(scene, queue, Reason.FROZEN, NOW + HOUR)
    assert await take(scene, queue) == QueueWait(NOW + HOUR)
    await pause(scene, queue, Reason.FROZEN, NOW)
    assert await take(scene, queue) == 1
    assert (await stored(scene, queue)).pauses == ()
    assert await events(scene) == [(0, "resumed", Reason.FROZEN)], "who paused it has noted that"


async def test_front_of_a_paused_queue_that_is_empty_waits_for_the_end(scene: Setup) -> None:
    """An entry that joins later finds the queue as it is then."""
    queue = await scene.front()
    async with scene.store.transaction() as tx:
        await tx.entries.remove((await tx.entries.of_queue(queue.id))[0])
    assert await take(scene, queue) == QueueWait(None)
    await pause(scene, queue, Reason.FROZEN, NOW + HOUR)
    assert await take(scene, queue) == QueueWait(NOW + HOUR)


async def test_front_that_a_hotfix_preempts_keeps_its_head(scene: Setup) -> None:
    """P4: the preempted entry keeps the head with consent, and IMQ's update of it."""
    bound = {"head_sha": "head-2", "updated_from": "head-1", "head_proved": False}
    queue = await scene.front(status=READY, started_at=NOW, base_tip="base-1", merge_refusals=1, **bound)
    await second(scene, queue, **HOTFIX)
    assert await take(scene, queue) == 2
    hotfix, front = await entries(scene, queue)
    assert (hotfix.number, front.status, front.queued_head, front.run) == (2, PENDING, "head-1", NOT_BEGUN)
    assert {name: getattr(front, name) for name in bound} == bound
    assert await events(scene) == [(1, "pending", None)]
    async with scene.store.reading() as tx:
        notice = await tx.outbox.wanted(OutboxKind.COMMENT, REPOSITORY.id, 1)
    assert notice is not None
    assert (notice.kind, notice.position, notice.ahead) == (NoticeKind.QUEUED, 1, (2,)), (
        "the comment shows which pull request preempted it"
    )


async def test_interrupted_head_is_proved_before_it_is_updated_again(scene: Setup) -> None:
    """P4: else the parents of the second update would prove whatever the first one was."""
    bound = {"head_sha": "head-2", "updated_from": "head-1", "head_proved": False, "newer_tip": "base-2"}
    queue = await scene.front(**bound)
    scene.github.compared = comparison("head-2", behind=1, merge_base="base-1", parents=("head-1", "base-1"))
    entry = await scene.advance(queue)
    assert scene.github.asked[:2] == ["comparison", "update"]
    assert entry is not None
    assert (entry.status, entry.head_proved) == (EntryStatus.UPDATING, True)


async def test_interrupted_head_that_is_not_ours_leaves(scene: Setup) -> None:
    """P4: a stranger's merge with other parents is found out before anything is made of it."""
    bound = {"head_sha": "head-2", "updated_from": "head-1", "head_proved": False, "newer_tip": "base-2"}
    queue = await scene.front(**bound)
    scene.github.compared = comparison("head-2", behind=1, merge_base="base-1", parents=("evil-1", "base-1"))
    assert await scene.advance(queue) is None
    assert "update" not in scene.github.asked


@pytest.mark.parametrize(
    ("until", "expected"), [(None, QueueWait(None)), (NOW + HOUR, QueueWait(NOW + HOUR)), (NOW - MINUTE, 1)]
)
async def test_front_while_the_rules_cannot_be_read_is_not_frozen(
    scene: Setup, until: datetime | None, expected: int | QueueWait
) -> None:
    """IMQ knows what is stored, such as a pause. The rest is for the pass that can read the rules."""
    queue = await scene.front()
    await pause(scene, queue, Reason.FROZEN, until)
    assert await take(scene, queue, None) == expected
    assert await events(scene) == []


def test_front_while_the_rules_cannot_be_read_is_the_first_that_is_not_blocked() -> None:
    """An entry that waits for a permission blocks no other; if all wait, the queue is due when the first one is."""
    blocked, free = entry(blocked_until=NOW + HOUR), entry(id="2", number=2, position=1)
    queue = Queue(1, REPOSITORY, "main", due_at=None, wake_count=0)
    assert front_without_policy(queue, (blocked, free), NOW) == Front(free, 2)
    assert front_without_policy(queue, (blocked,), NOW) == QueueWait(NOW + HOUR)
    assert front_without_policy(queue, (blocked,), NOW + HOUR) == Front(blocked, 1)
    assert front_without_policy(queue, (free, blocked), NOW) == QueueWait(None), (
        "what is stored is broken: the rules tell who reads of it"
    )
    assert front_without_policy(queue, (), NOW) == QueueWait(None)


async def test_front_of_a_queue_whose_stored_state_is_broken_pauses_it(scene: Setup) -> None:
    """P1: if two entries are past pending, IMQ pauses the queue, announces that on all, and sends no request."""
    queue = await scene.front(status=CHECKING)
    await second(scene, queue)
    async with scene.store.transaction() as tx:
        await tx.entries.save(changed((await tx.entries.of_queue(queue.id))[1], status=CHECKING))
    assert await take(scene, queue, None) == QueueWait(None)
    assert (await stored(scene, queue)).pauses == ()
    assert await take(scene, queue) == QueueWait(None)
    (paused,) = (await stored(scene, queue)).pauses
    assert (paused.reason, paused.detail) == (Reason.INVARIANT_BROKEN, "pull request 2 is checking at position 1")
    assert [await shown(scene, n) for n in (1, 2)] == [NoticeKind.PAUSED] * 2
    assert await take(scene, queue) == QueueWait(None)
    assert await events(scene) == [(0, "paused", Reason.INVARIANT_BROKEN)]
    assert scene.github.asked == []


async def test_pass_over_a_frozen_queue_asks_nothing_and_comes_back_at_its_end(scene: Setup) -> None:
    """P7: a standing queue costs no request; P5: it holds up no other."""
    queue = await scene.front(status=CHECKING)
    scene.engine = replace(scene.engine, policies=StaticPolicies(WINDOW))
    entry = await scene.advance(queue)
    assert entry is not None
    assert (entry.status, scene.github.asked) == (CHECKING, [])


async def test_pause_that_somebody_sets_while_an_ended_one_is_lifted_stays(
    scene: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing lands in a pause because an earlier one has ended."""
    queue = await scene.front()
    over, fresh = Pause(Reason.PAUSED_BY_HAND, "over", NOW - HOUR, NOW), Pause(Reason.PAUSED_BY_HAND, "fresh", NOW)
    async with scene.store.transaction() as tx:
        await tx.pauses.put(queue.id, over)
    change = Engine.change

    @asynccontextmanager
    async def overtaken(engine: Engine) -> AsyncIterator[Change]:
        monkeypatch.undo()
        async with scene.store.transaction() as tx:
            await tx.pauses.put(queue.id, fresh)
        async with change(engine) as changing:
            yield changing

    monkeypatch.setattr(Engine, "change", overtaken)
    assert await find(scene, queue, POLICY) == QueueWait(None)
    async with scene.store.reading() as tx:
        after = await tx.queues.get(queue.id)
    assert after is not None
    assert after.pauses == (fresh,)
