"""How candidates are built: members that do not merge, or that the base contains, leave the run or the queue."""

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.errors import HeadConflict
from queue_engine.domain.facts import Branch, Commit
from queue_engine.domain.run import RunMember, RunState
from queue_engine.executor.candidate import build
from queue_engine.store import Store
from tests.unit.queue_engine.executor.train_states import TrainGitHub, a_state

CONFLICT = HeadConflict("Merge conflict", status=409)


@pytest.fixture
def store(sqlite_database: Database) -> Store:
    return Store(sqlite_database)


async def test_member_that_does_not_merge_waits_for_those_ahead_of_it(store: Store) -> None:
    """The others are tested without it; it is tried again when one of these has landed or left."""
    state, run = await a_state(store, TrainGitHub(**{"head-2": CONFLICT}))
    await build(state, run)
    await state.load()
    (left,) = state.runs
    assert (left.numbers, left.candidate) == ((1, 3), None)
    assert left.tested == {1, 3}
    assert state.memory.conflicts == {2: (1,)}
    assert state.memory.trains.runs[0].tested == {1, 3}
    await build(state, left)
    assert state.runs[0].state is RunState.TESTING
    assert state.runs[0].candidate == "merge-of-head-3"


async def test_run_ends_where_the_only_member_to_test_does_not_merge(store: Store) -> None:
    """No CI run is spent on what another run tests."""
    state, run = await a_state(store, TrainGitHub(**{"head-2": CONFLICT}), (1, 2), tested=(2,))
    await build(state, run)
    assert (state.runs, state.memory.trains.runs, state.memory.conflicts) == ((), (), {2: (1,)})


@pytest.mark.parametrize(("answer", "reason"), [(CONFLICT, "conflict"), (None, "merged_elsewhere")])
async def test_first_member_that_adds_nothing_or_conflicts_leaves_the_queue(
    store: Store, answer: Exception | None, reason: str
) -> None:
    """On the base itself no other member is the cause, and a plan must not choose it again and again."""
    state, run = await a_state(store, TrainGitHub(**{"head-1": answer}))
    await build(state, run)
    await state.load()
    assert [each.number for each in state.entries] == [2, 3]
    assert (state.runs, state.memory.trains.runs) == ((), ())
    async with store.reading() as tx:
        assert reason in [each.reason for each in await tx.timeline.latest(9)]


async def test_branch_on_which_a_conflict_was_found_is_deleted_with_the_run(store: Store) -> None:
    """All other members were merged for another run, and IMQ made the branch for this one."""
    members = [RunMember(1, "", "head-1", commit="c1", tree="t1", reused=True), RunMember(2, "", "head-2")]
    state, run = await a_state(store, TrainGitHub(**{"head-2": CONFLICT}), (1, 2), members=members)
    await build(state, run)
    await state.load()
    assert state.runs[0].build_branch in state.runs[0].branches


@pytest.mark.parametrize(
    ("parents", "is_own"),
    [
        (("base-1", "head-1"), True),
        (("base-1",), False),
        (("base-1", "head-9"), False),
        (("other", "head-1"), False),
    ],
)
async def test_commit_on_the_build_branch_counts_only_as_the_merge_of_the_member(
    store: Store, parents: tuple[str, ...], is_own: bool
) -> None:
    """P4: a killed pass may have merged the member, and somebody else may have pushed."""
    github = TrainGitHub(branch_tip=Branch("found", False), commit=Commit("found", "tree", parents))
    state, run = await a_state(store, github, (1,))
    await build(state, run)
    assert [each.candidate for each in state.runs] == (["found"] if is_own else [])
    assert github.named("merge_into") == []
