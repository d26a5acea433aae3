"""A run is stored with its entry, or on a branch by itself; no writer overwrites another."""

from dataclasses import fields, replace

from sqlalchemy import func, select, update

from queue_engine.domain.model import EntryStatus
from queue_engine.domain.run import NOT_BEGUN, OF_ENTRY, CandidateTrigger, CheckTiming, Run, RunMember, RunState
from queue_engine.store import Transaction
from queue_engine.store.tables import entries, runs
from tests.store.examples import NOW, SOON, changed, queue, stand

WHOLE = Run(
    started_at=NOW,
    base_tip="base",
    state=RunState.TESTING,
    candidate="head",
    tested_tree="tree",
    new_head="new",
    new_head_is_ours=True,
    pending_checks=("build", "tests / 3.11"),
    completed_checks=("build",),
    started_checks=("build", "lint"),
    timings=(
        CheckTiming("build", "https://ci.example/1", NOW, NOW + SOON, passed=True),
        CheckTiming("lint"),
    ),
    checks_started_at=NOW + SOON,
    former_checks=("10:build",),
    check_limits={"ci": 60},
    reruns=1,
    rerun_checks=("1:build",),
    rerun_at=NOW,
    polls=2,
    next_poll_at=NOW + SOON,
    merge_requested_at=NOW,
    merge_refusals=3,
    refused_since=NOW,
    github_failures=4,
    github_failing_since=NOW,
)
CHECKING = EntryStatus.CHECKING
MINUTE = 6 * SOON


async def stored_runs(t: Transaction) -> int:
    return (await t.connection.execute(select(func.count()).select_from(runs))).scalar_one()


def test_runs_table_holds_every_field() -> None:
    """A field added to the model without a column would be lost at the first read."""
    names = {field.name for field in fields(Run)} - {"base_branch"}
    assert names == {*runs.c.keys(), *OF_ENTRY}
    assert {*OF_ENTRY} <= {*entries.c.keys()}


async def test_run_is_read_with_its_member_as_it_was_written(t: Transaction) -> None:
    """An entry that waits has a run that has not begun, which is stored nowhere."""
    waiting = await stand(t, await queue(t), 1)
    assert (waiting.run, await stored_runs(t)) == (NOT_BEGUN, 0)
    saved = await t.entries.save(replace(waiting, run=WHOLE))
    assert saved.run == replace(WHOLE, id=saved.run.id, version=1)
    assert await t.entries.get(waiting.id) == saved
    again = await t.entries.save(changed(saved, former_checks=None, polls=0))
    assert (again.run.id, again.run.version, again.version) == (saved.run.id, 2, saved.version + 1)
    assert await t.entries.of_queue(waiting.queue_id) == (again,)


async def test_run_ends_when_its_member_waits_again_or_leaves(t: Transaction) -> None:
    """P4: the head that IMQ made, and what has to be proved of it, stay with the entry."""
    main = await queue(t)
    first, second = [await stand(t, main, number) for number in (1, 2)]
    begun = await t.entries.save(replace(first, run=WHOLE, head_sha="updated", head_proved=False))
    trouble = await t.entries.save(replace(second, run=Run(github_failures=1)))
    assert await t.entries.get(second.id) == trouble
    assert await stored_runs(t) == 1
    back = await t.entries.save(replace(begun, run=begun.run.ended()))
    assert back == await t.entries.get(first.id)
    assert (back.run, back.head_sha, back.head_proved) == (NOT_BEGUN, "updated", False)
    assert await stored_runs(t) == 0
    leaving = await t.entries.save(replace(trouble, run=WHOLE))
    assert await stored_runs(t) == 1
    await t.entries.remove(leaving)
    assert await stored_runs(t) == 0


async def test_members_name_their_run_and_each_has_what_was_asked_for_it_alone(t: Transaction) -> None:
    """P1: each lands with the tree after it. A save of a member writes no run that others have, and removes none."""
    main = await queue(t)
    first, second = [await stand(t, main, number) for number in (1, 2)]
    members = (
        RunMember(1, first.id, first.head_sha, commit="c1", tree="t1"),
        RunMember(2, second.id, second.head_sha, commit="c2", tree="t2"),
    )
    testing = Run(queue_id=main.id, state=RunState.TESTING, trigger=CandidateTrigger.PUSH, members=members)
    run = await t.runs.add(replace(testing, started_at=NOW, base_tip="base", candidate="c2", polls=3))
    first = await t.entries.save(replace(first, run=run.of_member(first.id, first.head_sha)))
    second = await t.entries.save(replace(second, run=run.of_member(second.id, second.head_sha)))
    first = await t.entries.save(changed(first, merge_requested_at=NOW, candidate="not-stored"))
    run = await t.runs.save(replace(run, candidate="c3"))
    first, second = await t.entries.of_queue(main.id)
    assert {first.run.id, second.run.id} == {run.id}
    assert (first.run.base_tip, first.run.tested_tree, second.run.base_tip, second.run.tested_tree) == (
        "base",
        "t1",
        "c1",
        "t2",
    )
    assert (first.run.merge_requested_at, second.run.merge_requested_at, second.run.polls) == (NOW, None, 0)
    assert (first.run.candidate, run.polls) == ("c3", 3)
    await t.entries.save(replace(first, run=first.run.ended()))
    await t.entries.remove(second)
    assert await t.runs.of_queue(main.id) == (replace(run, base_branch="main"),)


async def test_status_of_an_entry_is_that_of_its_stored_run(t: Transaction) -> None:
    """No other record of it exists: whatever is written to the run alone changes what every read says."""
    entry = await stand(t, await queue(t), 1)
    for state, status in {
        RunState.BUILDING: EntryStatus.UPDATING,
        RunState.TESTING: EntryStatus.CHECKING,
        RunState.PASSED: EntryStatus.READY,
    }.items():
        await t.entries.save(replace(entry, run=replace(entry.run, state=state)))
        (entry,) = await t.entries.of_queue(entry.queue_id)
        assert (entry.status, entry.run.state) == (status, state)
    await t.connection.execute(update(entries).values(run_id=None))
    (entry,) = await t.entries.of_queue(entry.queue_id)
    assert entry.status is EntryStatus.PENDING
