"""Looks at a base branch: one that a push by hand left untested, and failed jobs of a red one, run again once."""

from dataclasses import replace

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.errors import Forbidden, GitHubError, Unavailable
from queue_engine.domain.facts import Branch, CheckReport, CheckState, Commit, RequiredCheck
from queue_engine.domain.model import Pause, Queue, RedBase
from queue_engine.domain.reasons import Reason
from queue_engine.executor.base import poll_untested_tip
from queue_engine.executor.landing import land
from queue_engine.rules.blockers import failed_jobs, untested_checked
from queue_engine.store import Store
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import CHECKING, NOW, POLICY, READY, REPOSITORY, comparison, report
from tests.unit.queue_engine.queues import entries, pause, second, stored, take

CI = RequiredCheck("ci", 10)
UNTESTED = RedBase("", "tip-1", NOW, 0, NOW, untested=True)
RED = RedBase("ci", "base-1", NOW, 0, NOW, 10)
FAILED_JOB = report("ci", CheckState.FAILED, run=1, workflow=7)


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


@pytest.mark.parametrize(
    ("required", "reports", "after"),
    [
        ([CI], [report("ci")], None),
        ([CI], [report("ci"), report("lint", CheckState.FAILED)], None),
        ([CI], [], "untested"),
        ([CI], [report("ci", CheckState.PENDING)], "untested"),
        ([CI], [report("ci", app_id=11)], "untested"),
        ([CI], [report("ci", CheckState.FAILED)], "red"),
        ([], [report("ci", completed_at=NOW - POLICY.checks.first_report)], None),
        ([], [report("ci")], "untested"),
        ([], [report("ci"), report("lint", CheckState.FAILED)], "red"),
        ([], [], "untested"),
    ],
)
def test_untested_tip_is_what_its_checks_say(
    required: list[RequiredCheck], reports: list[CheckReport], after: str | None
) -> None:
    """P1: green lets the queue go on, red makes it a red base, and silence leaves it to a person."""
    known = untested_checked(UNTESTED, "tip-2", required, reports, POLICY, NOW)
    if after is None:
        assert known is None
        return
    assert known is not None
    assert (known.tip, known.untested) == ("tip-2", after == "untested")
    assert known.next_poll_at > NOW or after == "red"


@pytest.mark.parametrize(
    ("red", "reports", "again"),
    [
        (RED, [FAILED_JOB], True),
        (replace(RED, rerun="base-0"), [FAILED_JOB], True),
        (replace(RED, rerun="base-1"), [FAILED_JOB], False),
        (RED, [report("ci", CheckState.FAILED, run=1)], False),
        (RED, [FAILED_JOB, report("ci", CheckState.PENDING, run=2, workflow=8)], False),
        (RED, [replace(FAILED_JOB, name="other")], False),
        (UNTESTED, [replace(FAILED_JOB, name="")], False),
    ],
)
def test_failed_jobs_of_a_red_base_are_run_again_once_for_each_tip(
    red: RedBase, reports: list[CheckReport], again: bool
) -> None:
    """Only those of Actions that have ended, by which the base is red; none where nothing is ever run again."""
    assert bool(failed_jobs(red, "base-1", reports, POLICY)) == again
    assert failed_jobs(red, "base-1", reports, replace(POLICY, checks=replace(POLICY.checks, reruns=0))) == ()


@pytest.mark.parametrize("error", [None, Forbidden("already running"), Unavailable("502")])
async def test_poll_of_a_red_base_runs_its_failed_jobs_again_and_not_twice(
    scene: Setup, error: GitHubError | None
) -> None:
    """What GitHub refuses, or loses, is not asked for again on this tip."""
    queue = await scene.front(status=CHECKING, base_tip="base-1")
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)
    scene.github.base_reports = (FAILED_JOB,)
    if error is not None:

        async def refuse() -> None:
            raise error

        scene.github.meanwhile["rerun"] = refuse
    await take(scene, queue)
    known = (await stored(scene, queue)).red
    assert known is not None
    assert (scene.github.reruns, known.rerun) == ([7], "base-1")
    async with scene.store.transaction() as tx:
        await tx.red_bases.reported(REPOSITORY.id, "base-1", NOW)
    await take(scene, queue)
    assert scene.github.reruns == [7]


async def test_poll_whose_read_of_runs_fails_requests_the_rerun_at_the_next_poll(scene: Setup) -> None:
    """P5: without the rerun, a check of the base that flaked would hold the queue."""
    queue = await scene.front(status=CHECKING, base_tip="base-1")
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)
    scene.github.base_reports = (FAILED_JOB,)

    async def fail() -> None:
        raise Unavailable("502")

    scene.github.meanwhile["workflow_runs"] = fail
    await take(scene, queue)
    assert scene.github.reruns == []
    async with scene.store.transaction() as tx:
        await tx.red_bases.reported(REPOSITORY.id, "base-1", NOW)
    await take(scene, queue)
    assert scene.github.reruns == [7]


@pytest.mark.parametrize(("parents", "watched"), [(("base-9", "head-1"), True), (("base-1", "head-1"), False)])
async def test_landing_on_a_tip_that_was_pushed_by_hand_is_left_to_its_checks(
    scene: Setup, parents: tuple[str, ...], watched: bool
) -> None:
    """P1: loud all the same; a tree that differs without such a push is for a person."""
    queue = await scene.front(status=READY, base_tip="base-1", tested_tree="tree-of-head-1", merge_requested_at=NOW)
    async with scene.store.reading() as tx:
        (front,) = await tx.entries.of_queue(queue.id)
    await land(scene.engine, queue, front, Commit("landed-1", "another tree", parents), POLICY)
    after = await stored(scene, queue)
    assert [pause.reason for pause in after.pauses] == [Reason.TREE_MISMATCH]
    assert (after.red is not None and after.red.untested and after.red.tip == "landed-1") == watched


@pytest.mark.parametrize("state", [CheckState.PASSED, CheckState.FAILED])
@pytest.mark.parametrize("reason", [Reason.PAUSED_BY_HAND, Reason.FROZEN, Reason.INVARIANT_BROKEN])
async def test_checks_of_an_untested_tip_lift_no_pause_but_the_one_for_its_tree(
    scene: Setup, reason: Reason, state: CheckState
) -> None:
    """What a person stopped, and what is broken, is for a person to resume."""
    queue = await untested(scene, state)
    await pause(scene, queue, reason)
    await poll_untested_tip(scene.engine, queue, UNTESTED, POLICY)
    after = await stored(scene, queue)
    assert [pause.reason for pause in after.pauses] == [reason]


@pytest.mark.parametrize("others", [(), (Reason.FROZEN,), (Reason.INVARIANT_BROKEN, Reason.PAUSED_BY_HAND)])
async def test_checks_of_an_untested_tip_lift_the_pause_for_its_tree_alone(
    scene: Setup, others: tuple[Reason, ...]
) -> None:
    """IMQ lifts no other pause, whichever came first."""
    queue = await untested(scene, CheckState.PASSED)
    async with scene.store.transaction() as tx:
        for reason in (Reason.TREE_MISMATCH, *others):
            await tx.pauses.put(queue.id, Pause(reason, "why", NOW))
    await poll_untested_tip(scene.engine, queue, UNTESTED, POLICY)
    after = await stored(scene, queue)
    assert after.red is None
    assert tuple(pause.reason for pause in after.pauses) == others


async def test_poll_of_a_red_base_that_moved_leaves_a_merge_under_way_alone(scene: Setup) -> None:
    """P1: whether that merge happened is judged by the tip that it was asked for on."""
    queue = await scene.front(status=READY, base_tip="base-1", merge_requested_at=NOW)
    await second(scene, queue)
    scene.github.compared = comparison(base_tip="base-2")
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, RED)
    await take(scene, queue)
    behind = [(entry.newer_tip, entry.run.base_tip) for entry in await entries(scene, queue)]
    assert behind == [(None, "base-1"), ("base-2", None)]


async def untested(scene: Setup, state: CheckState) -> Queue:
    """A queue whose base was pushed to by hand, and how the check on its tip ended."""
    queue = await scene.front()
    scene.github.tip = Branch("base-2", protected=True)
    scene.github.base_reports = (report("ci", state),)
    async with scene.store.transaction() as tx:
        await tx.red_bases.note(queue.id, UNTESTED)
    return queue
