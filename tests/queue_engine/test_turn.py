"""Whose turn it is in a stored queue, and what is told and done before anybody gets it."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from queue_engine.core.database import Database
from queue_engine.errors import GitHubError, RateLimited, Unavailable
from queue_engine.facts import CheckState, Commit, Labelling
from queue_engine.landing import land
from queue_engine.model import Entry, EntryStatus, Pause, Queue, RedBase
from queue_engine.notice import NoticeKind
from queue_engine.policies import Fixed
from queue_engine.policy import DatedFreeze, Policy
from queue_engine.reasons import Reason
from queue_engine.standing import Told
from queue_engine.store import Store
from queue_engine.store.outbox import LetterKind
from queue_engine.turn import Rest, Turn, turn
from tests.queue_engine.examples import (
    CHECKING,
    HOUR,
    MINUTE,
    NOW,
    PENDING,
    POLICY,
    READY,
    REPOSITORY,
    SECOND,
    comparison,
    report,
)
from tests.queue_engine.scene import Scene
from tests.queue_engine.store.examples import stand

WINDOW = Policy(freezes=(DatedFreeze(NOW - HOUR, NOW + HOUR, "the fair"),))
RED = RedBase("ci", "base-1", NOW - HOUR, 2, NOW, 10)
HOTFIX = {"first": True, "interrupts": True}


@pytest.fixture
def scene(sqlite_database: Database) -> Scene:
    return Scene(Store(sqlite_database))


async def second(scene: Scene, queue: Queue, number: int = 2, **standing: Any) -> Entry:
    async with scene.store.transaction() as tx:
        return await stand(tx, queue, number, **standing)


async def entries(scene: Scene, queue: Queue) -> list[Entry]:
    async with scene.store.reading() as tx:
        return list(await tx.entries.of_queue(queue.id))


async def stored(scene: Scene, queue: Queue) -> Queue:
    async with scene.store.reading() as tx:
        found = await tx.queues.get(queue.id)
    assert found is not None
    return found


async def shown(scene: Scene, number: int) -> NoticeKind | None:
    """What the comment of a pull request is to show."""
    async with scene.store.reading() as tx:
        notice = await tx.outbox.wanted(LetterKind.COMMENT, REPOSITORY.id, number)
    return None if notice is None else notice.kind


async def events(scene: Scene) -> list[tuple[int, str, Reason | None]]:
    async with scene.store.reading() as tx:
        return [(e.number, e.event, e.reason) for e in reversed(await tx.timeline.latest(20))]


async def pause(scene: Scene, queue: Queue, reason: Reason, until: datetime | None = None) -> None:
    async with scene.store.transaction() as tx:
        await tx.queues.pause(queue.id, Pause(reason, "why", NOW - HOUR, until))


async def take(scene: Scene, queue: Queue, policy: Policy | None = POLICY) -> int | Rest:
    """The number of the entry whose turn it is."""
    found = await turn(scene.engine, queue.id, policy)
    return found.entry.number if isinstance(found, Turn) else found


async def test_turn_of_a_queue_that_goes_on_is_the_fronts_and_writes_nothing(scene: Scene) -> None:
    """Nothing is told, and nothing asked."""
    queue = await scene.front()
    await second(scene, queue)
    before = await entries(scene, queue)
    assert await turn(scene.engine, queue.id, POLICY) == Turn(before[0], 2)
    assert await entries(scene, queue) == before
    assert (await events(scene), scene.github.asked) == ([], [])


async def test_turn_in_a_freeze_is_nobodys_until_it_ends_and_everybody_is_told_once(scene: Scene) -> None:
    """Who joins later is told, too; nobody else is again."""
    queue = await scene.front()
    await second(scene, queue)
    assert await take(scene, queue, WINDOW) == Rest(NOW + HOUR)
    assert [await shown(scene, n) for n in (1, 2)] == [NoticeKind.PAUSED] * 2
    assert await take(scene, queue, WINDOW) == Rest(NOW + HOUR)
    versions = await letters(scene)
    await second(scene, queue, 3)
    assert await take(scene, queue, WINDOW) == Rest(NOW + HOUR)
    assert await shown(scene, 3) is NoticeKind.PAUSED
    after = await letters(scene)
    assert {n: after[n] for n in versions} == versions
    assert await events(scene) == [(0, "paused", Reason.FROZEN)]
    assert scene.github.asked == []


async def letters(scene: Scene) -> dict[int, int]:
    """Versions of the comments, by pull request."""
    async with scene.store.transaction() as tx:
        rows = await tx.connection.exec_driver_sql("SELECT number, version FROM outbox WHERE kind = 'comment'")
        return {row.number: row.version for row in rows}


async def test_turn_after_a_standstill_is_told_to_everybody_and_holds_nothing_against_the_front(scene: Scene) -> None:
    """A freeze of days is no trouble of GitHub's, and no base that keeps moving."""
    queue = await scene.front(status=CHECKING, started_at=NOW - 9 * HOUR, trouble=2, trouble_since=NOW - 9 * HOUR)
    await second(scene, queue)
    await take(scene, queue, WINDOW)
    told = Told.read((await stored(scene, queue)).told)
    assert told is not None
    assert told.since == NOW.isoformat()
    async with scene.store.transaction() as tx:
        await tx.queues.note_told(queue.id, replace(told, since=(NOW - 5 * HOUR).isoformat()).written())
    assert await take(scene, queue) == 1
    front = (await entries(scene, queue))[0]
    assert (front.status, front.trouble, front.trouble_since) == (CHECKING, 0, None)
    assert front.started_at == NOW - 4 * HOUR, "five of its nine hours were no time that it had"
    assert [await shown(scene, n) for n in (1, 2)] == [NoticeKind.CHECKING, NoticeKind.QUEUED]
    assert [event for _, event, _ in await events(scene)] == ["paused", "resumed"]
    assert (await stored(scene, queue)).told is None


async def test_turn_that_finds_a_pause_at_its_end_lifts_it(scene: Scene) -> None:
    """Whether anybody waits or not."""
    queue = await scene.front()
    await pause(scene, queue, Reason.FROZEN, NOW + HOUR)
    assert await take(scene, queue) == Rest(NOW + HOUR)
    await pause(scene, queue, Reason.FROZEN, NOW)
    assert await take(scene, queue) == 1
    assert (await stored(scene, queue)).paused is None
    assert await events(scene) == [(0, "resumed", Reason.FROZEN)], "who paused it has noted that"


async def test_turn_in_a_paused_queue_that_is_empty_waits_for_the_end(scene: Scene) -> None:
    """Who comes later finds it as it is then."""
    queue = await scene.front()
    async with scene.store.transaction() as tx:
        await tx.entries.remove((await tx.entries.of_queue(queue.id))[0])
    assert await take(scene, queue) == Rest(None)
    await pause(scene, queue, Reason.FROZEN, NOW + HOUR)
    assert await take(scene, queue) == Rest(NOW + HOUR)


async def test_turn_of_a_hotfix_sets_the_front_back_with_its_head(scene: Scene) -> None:
    """P4: queued is what was consented to, and bound is the update of it that was made for it."""
    bound = {"head": "head-2", "updated_from": "head-1", "head_proved": False, "base_tip": "base-1"}
    queue = await scene.front(status=READY, started_at=NOW, refusals=1, awaited_checks=("ci",), **bound)
    await second(scene, queue, **HOTFIX)
    assert await take(scene, queue) == 2
    hotfix, front = await entries(scene, queue)
    assert (hotfix.number, front.status, front.started_at) == (2, PENDING, None)
    assert (front.queued_head, front.awaited_checks, front.refusals) == ("head-1", (), 0)
    assert {name: getattr(front, name) for name in bound} == bound
    assert await events(scene) == [(1, "pending", None)]
    async with scene.store.reading() as tx:
        notice = await tx.outbox.wanted(LetterKind.COMMENT, REPOSITORY.id, 1)
    assert notice is not None
    assert (notice.kind, notice.position, notice.ahead) == (NoticeKind.QUEUED, 1, (2,)), "it is told who came before it"


async def test_interrupted_head_is_proved_before_it_is_updated_again(scene: Scene) -> None:
    """P4: else the parents of the second update would prove whatever the first one was."""
    bound = {"head": "head-2", "updated_from": "head-1", "head_proved": False, "known_behind": True}
    queue = await scene.front(base_tip="base-2", **bound)
    scene.github.compared = comparison("head-2", behind=1, merge_base="base-1", parents=("head-1", "base-1"))
    entry = await scene.advance(queue)
    assert scene.github.asked[:2] == ["comparison", "update"]
    assert entry is not None
    assert (entry.status, entry.head_proved) == (EntryStatus.UPDATING, True)


async def test_interrupted_head_that_is_not_ours_leaves(scene: Scene) -> None:
    """P4: a stranger's merge with other parents is found out before anything is made of it."""
    bound = {"head": "head-2", "updated_from": "head-1", "head_proved": False, "known_behind": True}
    queue = await scene.front(base_tip="base-2", **bound)
    scene.github.compared = comparison("head-2", behind=1, merge_base="base-1", parents=("evil-1", "base-1"))
    assert await scene.advance(queue) is None
    assert "update" not in scene.github.asked


@pytest.mark.parametrize(
    ("state", "tip", "red"),
    [(CheckState.FAILED, "base-1", True), (CheckState.PENDING, "base-2", True), (CheckState.PASSED, "base-2", False)],
)
async def test_turn_with_a_red_base_looks_at_it_when_it_is_time(
    scene: Scene, state: CheckState, tip: str, red: bool
) -> None:
    """It goes on when the check passes; a base that moved unheard of is noticed, and everybody known to be behind."""
    queue = await scene.front(status=CHECKING, base_tip="base-1")
    await second(scene, queue)
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)
    scene.github.compared = comparison(base_tip=tip)
    scene.github.base_reports = (report("ci", state),)
    found = await take(scene, queue)
    known = (await stored(scene, queue)).red
    assert scene.github.asked == ["comparison", "base_reports", *(["labelled"] if red else [])]
    assert (known is not None) == red
    assert found == (1 if known is None else Rest(known.look_at))
    assert known is None or (known.tip, known.look_at > NOW) == (tip, True)
    behind = [(entry.known_behind, entry.base_tip) for entry in await entries(scene, queue)]
    assert behind == ([(True, "base-1"), (True, "base-2")] if tip == "base-2" else [(False, "base-1"), (False, None)])


@pytest.mark.parametrize(
    ("label", "by", "at", "is_fix"),
    [
        ("merge-queue-fix", "mona", NOW + MINUTE, True),
        ("merge-queue-fix", "tria", NOW + MINUTE, False),
        ("merge-queue-fix", "tria", NOW - MINUTE, True),
        ("merge-queue-fix", None, NOW + MINUTE, False),
        ("another", "mona", NOW + MINUTE, False),
    ],
)
async def test_turn_finds_the_fix_of_a_red_base_whose_label_meant_nothing_when_it_was_set(
    scene: Scene, label: str, by: str | None, at: datetime, is_fix: bool
) -> None:
    """Its webhook passed unheeded; whoever queued it saw an older label, a later one counts if its setter may queue."""
    queue = await scene.front(status=CHECKING, base_tip="base-1")
    await second(scene, queue)
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)
    scene.github.compared = comparison(base_tip="base-2")
    scene.github.base_reports = (report("ci", CheckState.FAILED),)
    scene.github.labelled = {label: (7, 2)}
    scene.github.labellings = {2: Labelling(by, at)}
    found = await take(scene, queue)
    assert (found == 2) == is_fix
    assert {e.number: e.fixes_base for e in await entries(scene, queue)} == {1: False, 2: is_fix}
    assert ((2, "priority", None) in await events(scene)) == is_fix


async def test_turn_lets_those_go_who_waited_for_a_red_base_as_long_as_anybody_does(scene: Scene) -> None:
    """P5: each from when it joined; the fix stays, and who came later until its own time is up. Nothing is asked."""
    queue = await scene.front()
    await second(scene, queue, 2, at=NOW - 9 * HOUR)
    await second(scene, queue, 3, at=NOW - 9 * HOUR, fixes_base=True)
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, replace(RED, since=NOW - 2 * HOUR, look_at=NOW + 9 * HOUR))
    policy = replace(POLICY, hold_timeout=2 * HOUR)
    assert await take(scene, queue, replace(policy, hold_timeout=2 * HOUR + SECOND)) == 3
    assert [entry.number for entry in await entries(scene, queue)] == [1, 2, 3]
    assert await take(scene, queue, policy) == 3
    first, fix = await entries(scene, queue)
    assert (first.number, fix.number, await shown(scene, 2)) == (1, 3, NoticeKind.FAILED)
    assert (2, "failed", Reason.BASE_STAYS_RED) in await events(scene)
    assert scene.github.asked == []
    async with scene.store.transaction() as tx:
        await tx.entries.remove(fix)
    assert await take(scene, queue, policy) == Rest(NOW + 2 * HOUR), "the end of its time, not the next look"
    assert (await stored(scene, queue)).red is not None


async def test_turn_looks_at_a_red_base_before_it_lets_anybody_go(scene: Scene) -> None:
    """One that is green by now lets everybody go on, whatever time has passed; so does a pause that hid it."""
    queue = await scene.front(status=CHECKING, base_tip="base-1")
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, replace(RED, since=NOW - 9 * HOUR))
    scene.github.base_reports = (report("ci", CheckState.PASSED),)
    policy = replace(POLICY, hold_timeout=timedelta(0))
    await pause(scene, queue, Reason.PAUSED_BY_HAND)
    assert await take(scene, queue, policy) == Rest(None)
    async with scene.store.transaction() as tx:
        await tx.queues.resume(queue.id, NOW)
    assert await take(scene, queue, policy) == 1


@pytest.mark.parametrize(
    ("error", "waits"), [(Unavailable("502"), 30 * MINUTE), (RateLimited("slow", retry_after=2 * HOUR), 2 * HOUR)]
)
async def test_look_at_a_red_base_that_fails_is_made_again_later(
    scene: Scene, error: GitHubError, waits: timedelta
) -> None:
    """GitHub in trouble neither mends a base nor holds anything up for good."""
    queue = await scene.front()
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)

    async def fails() -> None:
        raise error

    scene.github.meanwhile["comparison"] = fails
    found = await take(scene, queue)
    assert isinstance(found, Rest)
    assert found.until is not None
    assert found.until - NOW >= waits
    known = (await stored(scene, queue)).red
    assert known is not None
    assert (known.tip, known.look_at) == ("base-1", found.until)


async def test_report_that_comes_while_a_red_base_is_looked_at_is_not_lost(scene: Scene) -> None:
    """What was read before it tells nothing of it: the base is looked at again, now and not hours later."""
    queue = await scene.front(status=CHECKING)
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, replace(RED, look_at=NOW - MINUTE))
    scene.github.base_reports = (report("ci", CheckState.PENDING),)

    async def passes() -> None:
        scene.github.base_reports = (report("ci", CheckState.PASSED),)
        async with scene.store.transaction() as tx:
            await tx.red_bases.reported(REPOSITORY.id, RED.tip, NOW)

    scene.github.meanwhile["base_reports"] = passes
    assert await take(scene, queue) == 1
    assert scene.github.asked == ["comparison", "base_reports", "labelled", "comparison", "base_reports"]


async def test_resuming_while_a_red_base_is_looked_at_is_not_undone(scene: Scene) -> None:
    """A person's word counts for more than a look that began before it."""
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


async def test_turn_in_a_frozen_queue_looks_at_no_base(scene: Scene) -> None:
    """It would help nobody now."""
    queue = await scene.front()
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)
    assert await take(scene, queue, WINDOW) == Rest(NOW + HOUR)
    assert scene.github.asked == []


@pytest.mark.parametrize(("until", "expected"), [(None, Rest(None)), (NOW + HOUR, Rest(NOW + HOUR)), (NOW - MINUTE, 1)])
async def test_turn_while_the_rules_cannot_be_read_says_nothing_of_freezes(
    scene: Scene, until: datetime | None, expected: int | Rest
) -> None:
    """What is stored is known: a pause that stands. The rest is for the pass that can read them."""
    queue = await scene.front()
    await pause(scene, queue, Reason.FROZEN, until)
    assert await take(scene, queue, None) == expected
    assert await events(scene) == []


async def test_pass_over_a_frozen_queue_asks_nothing_and_comes_back_at_its_end(scene: Scene) -> None:
    """P7: a standing queue costs no request; P5: it holds up no other."""
    queue = await scene.front(status=CHECKING)
    scene.engine = replace(scene.engine, policies=Fixed(WINDOW))
    entry = await scene.advance(queue)
    assert entry is not None
    assert (entry.status, scene.github.asked) == (CHECKING, [])


async def test_landing_through_the_queue_proves_the_base_green(scene: Scene) -> None:
    """Its tree has passed: the others go on at once, whether the base itself is checked or not."""
    queue = await scene.front(status=READY, tested_tree="tree", merge_requested_at=NOW, fixes_base=True)
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)
        front = (await tx.entries.of_queue(queue.id))[0]
    assert await land(scene.engine, queue, front, Commit("landed-1", "tree", ("base-1", "head-1")), POLICY)
    assert (await stored(scene, queue)).red is None
