"""How a run that passed lands by one move of the base: what is asked of GitHub, and what each answer means."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete

from queue_engine.core.database.database import Database
from queue_engine.domain.errors import HeadConflict, InvariantError, MergeError, RequestOrderError
from queue_engine.domain.facts import Branch, CheckState, MergeMethod, Permission, Snapshot
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.port import BranchUpdate
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import Run, RunMember, RunState
from queue_engine.domain.webhooks import WEBHOOK_JOB
from queue_engine.effects import record
from queue_engine.executor.cleanup import CLEAN_JOB, CLOSE_JOB
from queue_engine.executor.entry_steps import PassError
from queue_engine.executor.queue_pass import QueuePass
from queue_engine.executor.run_landing import begin_landing, continue_landing
from queue_engine.executor.run_store import TrainState
from queue_engine.executor.triggers import key_of
from queue_engine.known.own_writes import merged_by_imq
from queue_engine.planner.trains.memory import find_run, passed
from queue_engine.store import Store
from queue_engine.store.tables import consents
from tests.store.examples import changed
from tests.unit.queue_engine.examples import NOW, POLICY, comparison, pull, report
from tests.unit.queue_engine.executor.train_states import TrainGitHub, a_state
from tests.unit.queue_engine.known.answers import unqueue

RULED = MergeError("Changes must be made through a pull request.", status=422)
MOVED = HeadConflict("Ref cannot be updated", status=422)
BASE, LANDED, OTHER = Branch("base-1", False), Branch("c1", False), Branch("pushed", False)


@pytest.fixture
def store(sqlite_database: Database) -> Store:
    return Store(sqlite_database)


async def that_passed(store: Store, github: TrainGitHub, **member: Any) -> tuple[TrainState, Run]:
    """The state of a queue whose only member passed in the only run."""
    mine = replace(RunMember(1, "", "head-1", commit="c1", tree="t1"), **member)
    github.answers |= {"snapshots": {}, "refuses_outdated": False} | github.answers
    state, run = await a_state(store, github, (1,), members=[mine], candidate="c1", published_at=None)
    planned = find_run(state.memory.trains, run.id)
    assert planned is not None
    memory = passed(state.memory, planned, "key", state.seconds)
    run = await state.save_run(replace(run, state=RunState.PASSED, published_at=state.now), memory)
    return state, run


async def begun(store: Store, github: TrainGitHub, *, killed: bool = False) -> tuple[TrainState, Run]:
    """The state once the landing is stored; `killed`: the pass that stored it is gone."""
    state, run = await that_passed(store, github)
    assert await begin_landing(state, run, state.memory.trains.passed[0])
    if killed:
        state.landing.clear()
    await state.load()
    (run,) = state.runs
    assert run.state is RunState.LANDING
    assert await is_requested(store, state)
    return state, run


async def is_requested(store: Store, state: TrainState) -> bool:
    """Whether a merge that GitHub shows now would be IMQ's own."""
    (entry,) = state.entries
    async with store.reading() as tx:
        return await merged_by_imq(tx, changed(entry, status=EntryStatus.READY), state.now)


async def numbers(state: TrainState) -> list[int]:
    """The pull requests that are still queued."""
    await state.load()
    return [each.number for each in state.entries]


async def request(store: Store, kind: str) -> Mapping[str, Any]:
    """What the only job of this kind is to do."""
    async with store.reading() as tx:
        (found,) = await tx.jobs.unfinished_requests(kind, f"{kind}:")
    return found


@pytest.mark.parametrize("changes", [{"method": MergeMethod.SQUASH}, {"head_sha": "former"}])
async def test_member_that_changed_since_its_tests_does_not_begin_to_land(
    store: Store, changes: dict[str, Any]
) -> None:
    """P4, P1: another head has no consent, another method another tree."""
    state, run = await that_passed(store, TrainGitHub(), **changes)
    assert not await begin_landing(state, run, state.memory.trains.passed[0])
    assert (state.runs, state.memory.trains.passed, await numbers(state)) == ((), (), [1])


async def test_landing_does_not_begin_for_a_head_that_the_ledger_lacks(store: Store) -> None:
    """P4: no head lands without its consent. P5: the error counts on this member; its queue continues without it."""
    state, run = await that_passed(store, TrainGitHub())
    async with store.transaction() as tx:
        await tx.connection.execute(delete(consents))
    with pytest.raises(PassError) as counted:
        await begin_landing(state, run, state.memory.trains.passed[0])
    assert counted.value.entry is not None
    assert counted.value.entry.number == 1
    assert isinstance(counted.value.__cause__, InvariantError)
    await state.load()
    assert state.runs == (run,)


async def test_landing_does_not_begin_on_a_base_that_moved(store: Store) -> None:
    """P1: the snapshot of a member shows another tip than the one of the tests."""
    github = TrainGitHub()
    github.compared = comparison(base_tip="pushed")
    state, run = await that_passed(store, github)
    assert not await begin_landing(state, run, state.memory.trains.passed[0])
    assert (state.memory.base_tip, state.memory.trains.passed) == ("pushed", ())
    assert state.runs[0].state is RunState.PASSED


async def test_base_moves_from_the_tested_tip_alone_and_the_branches_go_with_it(store: Store) -> None:
    """P1: a compare-and-swap; then nothing is left to delete, and a later job looks whether GitHub shows the merge."""
    github = TrainGitHub()
    state, run = await begun(store, github)
    assert await continue_landing(state, run) is None
    gone = [BranchUpdate(each, before="c1", after=None) for each in run.branches]
    assert github.named("update_refs") == [([BranchUpdate("main", before="base-1", after="c1"), *gone],)]
    assert (await numbers(state), state.runs, state.memory.base_tip) == ([], (), "c1")
    cleaning, closing = await request(store, CLEAN_JOB), await request(store, CLOSE_JOB)
    assert (cleaning["branches"], cleaning["cancels"]) == (False, False)
    assert closing["members"] == [{"number": 1, "head": "head-1", "sha": "c1"}]


async def test_branches_that_a_rule_keeps_do_not_keep_the_base(store: Store) -> None:
    """The second request moves the base alone, and a job deletes the branches later."""
    github = TrainGitHub(update_refs=[RULED, None], branch_tip=BASE)
    state, run = await begun(store, github)
    assert await continue_landing(state, run) is None
    assert github.named("update_refs")[1] == ([BranchUpdate("main", before="base-1", after="c1")],)
    assert await numbers(state) == []
    assert (await request(store, CLEAN_JOB))["branches"]


async def test_refused_move_that_happened_all_the_same_has_landed(store: Store) -> None:
    """P2: an answer may be lost and the call repeated, which finds the base at the candidate."""
    github = TrainGitHub(update_refs=MOVED, branch_tip=LANDED)
    state, run = await begun(store, github)
    assert await continue_landing(state, run) is None
    assert len(github.named("update_refs")) == 1
    assert (await numbers(state), state.memory.base_tip) == ([], "c1")


@pytest.mark.parametrize("contains", [False, True])
async def test_refused_move_of_a_base_that_somebody_pushed_to(store: Store, contains: bool) -> None:
    """P1: the candidate is tested again on the push, unless the push is on top of the candidate."""
    github = TrainGitHub(update_refs=MOVED, branch_tip=OTHER)
    state, run = await begun(store, github)
    github.compared = comparison("c1", base_tip="pushed", merge_base="c1" if contains else "base-1")
    assert await continue_landing(state, run) is None
    assert len(github.named("update_refs")) == 1
    assert await numbers(state) == ([] if contains else [1])
    if not contains:
        assert (state.memory.base_tip, state.memory.trains.passed) == ("pushed", ())
        assert (state.runs[0].state, state.entries[0].run.merge_requested_at) == (RunState.PASSED, None)


@pytest.mark.parametrize(("tip", "left"), [(BASE, [1]), (LANDED, []), (OTHER, [1])])
async def test_landing_that_a_killed_pass_began_is_not_repeated_unverified(
    store: Store, tip: Branch, left: list[int]
) -> None:
    """P4: an author may have withdrawn a member meanwhile, so the run is given back unless it has landed."""
    github = TrainGitHub(branch_tip=tip)
    state, run = await begun(store, github, killed=True)
    github.compared = comparison("c1", base_tip=tip.sha, merge_base="base-1")
    assert await continue_landing(state, run) is None
    assert github.named("update_refs") == []
    assert await numbers(state) == left
    assert state.memory.base_tip == tip.sha
    if left:
        assert (state.runs[0].state, state.entries[0].run.merge_requested_at) == (RunState.PASSED, None)
        assert not await is_requested(store, state), "a merge from now on is a person's"


async def test_landing_under_way_ends_before_its_queue_leaves_the_trains(store: Store) -> None:
    """P1, P2: the base has the candidate, so that its members landed, whatever the configuration says since."""
    state, _ = await begun(store, TrainGitHub(branch_tip=LANDED), killed=True)
    await QueuePass(state.engine, state.queue, lambda: True, POLICY).run()
    assert await numbers(state) == []
    async with store.reading() as tx:
        (*_, last) = await tx.timeline.of_pull_request(state.queue.repository.id, 1)
    assert last.event == EntryStatus.LANDED


async def test_member_in_doubt_is_verified_before_the_base_moves(store: Store) -> None:
    """P4: a webhook said between verification and landing that consent may be lost."""
    github = TrainGitHub(branch_tip=BASE)
    state, run = await begun(store, github)
    async with store.transaction() as tx:
        await tx.entries.save(replace(state.entries[0], needs_refetch=True))
    await state.load()
    assert await continue_landing(state, state.runs[0]) is None
    assert github.named("update_refs") == []
    assert state.runs[0].id == run.id
    assert await numbers(state) == [1]


async def two_passed(store: Store, github: TrainGitHub, **run: Any) -> tuple[TrainState, Run]:
    """The state of a queue of two, both of whom passed in the only run."""
    both = [RunMember(each, "", f"head-{each}", commit=f"c{each}", tree=f"t{each}") for each in (1, 2)]
    state, made = await a_state(store, github, (1, 2), members=both, candidate="c2", **run)
    planned = find_run(state.memory.trains, made.id)
    assert planned is not None
    await state.remember(passed(state.memory, planned, "key", state.seconds))
    return state, made


async def test_train_does_not_land_without_a_member_that_left(store: Store) -> None:
    """P4: its candidate has that member, so nothing of it lands."""
    github = TrainGitHub(branch_tip=BASE)
    state, run = await two_passed(store, github, state=RunState.LANDING)
    state.landing.add(run.id or 0)
    async with store.transaction() as tx:
        await tx.entries.remove(state.entries[1])
    await state.load()
    assert await continue_landing(state, run) is None
    assert github.named("update_refs") == []
    assert await numbers(state) == [1]


async def test_landing_by_merges_that_meets_a_mismatch_ends_and_leaves_the_queue_to_a_maintainer(store: Store) -> None:
    """P1: the tip is not noted as one whose checks resume the queue."""
    state, run = await two_passed(store, TrainGitHub(), state=RunState.LANDING)
    async with state.engine.change() as change:
        await change.tx.entries.remove(state.entries[0])
        await change.tx.runs.note_landed(run.id or 0, 1, "not-c1")
        await record.pause(change, state.queue, Reason.TREE_MISMATCH, "the trees differ")
    await state.load()
    assert await continue_landing(state, state.runs[0]) is None
    await state.load()
    assert (state.runs, state.queue.red, state.memory.base_tip) == ((), None, "not-c1")
    assert await numbers(state) == [2]


async def test_landing_by_merges_that_a_killed_pass_began_has_all_members_verified_again(store: Store) -> None:
    """P4: nothing was requested yet, and the second member may have been withdrawn meanwhile."""
    github = TrainGitHub(branch_tip=BASE)
    state, run = await two_passed(store, github, state=RunState.LANDING, merges_onto="base-1")
    assert await continue_landing(state, run) is None
    assert github.named("merge") == []
    await state.load()
    assert [(each.state, each.numbers) for each in state.runs] == [(RunState.PASSED, (1, 2))]


async def merging(store: Store) -> tuple[TrainState, Run]:
    """The state of two members that passed, on a base that IMQ may not move."""
    heads = {number: comparison(f"head-{number}") for number in (1, 2)}
    read = {
        number: Snapshot(pull(number=number, head_sha=each.head.sha), Permission("write"), each, base_tip=each.base_tip)
        for number, each in heads.items()
    }
    github = TrainGitHub(snapshots=read, refuses_outdated=False)
    state, run = await two_passed(store, github, state=RunState.PASSED)
    await state.remember(replace(state.memory, by_api=RULED.message))
    return state, run


async def test_landing_by_merges_begins_on_the_tip_that_was_tested_and_requests_no_merge_yet(store: Store) -> None:
    """P1: each merge follows the one before. P4: a merge that a person makes meanwhile is the person's."""
    state, run = await merging(store)
    assert await begin_landing(state, run, state.memory.trains.passed[0])
    await state.load()
    assert [(each.state, each.merges_onto) for each in state.runs] == [(RunState.LANDING, "base-1")]
    assert [each.run.merge_requested_at for each in state.entries] == [None, None]


@pytest.mark.parametrize("number", [1, 2])
async def test_landing_by_merges_does_not_begin_before_a_command_on_any_member_is_judged(
    store: Store, number: int
) -> None:
    """P4: the command may withdraw the member."""
    state, run = await merging(store)
    async with store.transaction() as tx:
        command = unqueue(number=number)
        process, wanted = f"{command.repository_id}:{number}", command.model_dump(mode="json", exclude_none=True)
        await tx.jobs.enqueue_all(kind=WEBHOOK_JOB, requests=[(process, wanted)], now=NOW, traces=[None])
    with pytest.raises(RequestOrderError, match=f"#{number}"):
        await begin_landing(state, run, state.memory.trains.passed[0])
    await state.load()
    assert [each.state for each in state.runs] == [RunState.PASSED]


async def test_rest_of_a_train_lands_on_the_commit_of_the_part_that_landed(store: Store) -> None:
    """P1: the tree of its first member is compared on top of that part."""
    github = TrainGitHub(snapshots={}, refuses_outdated=False)
    state, run = await two_passed(store, github, state=RunState.PASSED)
    github.pull = pull(number=2, head_sha="head-2")
    rest = replace(state.memory.trains.passed[0], content=(2,))
    assert await begin_landing(state, run, rest)
    await state.load()
    assert (state.runs[0].numbers, state.runs[0].base_tip) == ((2,), "c1")


async def test_base_that_imq_may_not_move_has_members_merged_from_then_on(store: Store) -> None:
    """GitHub's words are kept, and nothing has left the queue."""
    github = TrainGitHub(update_refs=RULED, branch_tip=BASE)
    state, run = await begun(store, github)
    assert await continue_landing(state, run) is None
    assert len(github.named("update_refs")) == 2
    assert (state.memory.by_api, await numbers(state)) == (RULED.message, [1])
    assert (state.runs[0].state, state.entries[0].run.merge_requested_at) == (RunState.PASSED, None)


@pytest.mark.parametrize("times", [0, 3])
async def test_tree_whose_checks_fail_again_and_again_before_its_landing_counts_as_failed(
    store: Store, times: int
) -> None:
    """P5: no tree is tested for ever."""
    github = TrainGitHub()
    state, run = await that_passed(store, github)
    github.pull, github.reports = pull(head_sha="head-1"), (report("ci", CheckState.FAILED),)
    for _ in range(times):
        state.memory = state.memory.with_cancelled(await key_of(state, run))
    await state.remember(state.memory)
    assert not await begin_landing(state, run, state.memory.trains.passed[0])
    assert (state.memory.failure_of(1) is not None) is bool(times)
