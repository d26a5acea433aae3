"""When a queue in trains is tested one entry after the other, and what is left once trains are off."""

from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.candidate_run import CandidateState
from queue_engine.domain.errors import Unavailable
from queue_engine.executor.trains.state import TrainState
from queue_engine.executor.trains.train_pass import TrainPass, TrainsUnavailable
from queue_engine.planner.trains.memory import SequentialMode
from queue_engine.store import Store
from tests.unit.queue_engine.examples import HOUR, NOW, POLICY
from tests.unit.queue_engine.executor.trains.train_states import TrainGitHub, a_state


@pytest.fixture
def store(sqlite_database: Database) -> Store:
    return Store(sqlite_database)


def a_pass(state: TrainState) -> TrainPass:
    """A new pass over the queue of this state."""
    return TrainPass(state.engine, state.queue, lambda: True, POLICY)


@pytest.mark.parametrize(
    ("ago", "later_rules", "is_off"),
    [(23 * HOUR, 0, True), (24 * HOUR, 0, False), (HOUR, 1, False)],
)
async def test_trains_are_off_for_a_day_or_until_rules_change(
    store: Store, ago: timedelta, later_rules: int, is_off: bool
) -> None:
    """P7: what GitHub refused is not tried with each pass; P5: a rule that was taken back is noticed."""
    github = TrainGitHub(branch_tip=Unavailable("down"))
    state, run = await a_state(store, github, (1,))
    await state.cancel(run, why="trains_off")
    off = SequentialMode("candidates_refused", "no", NOW - ago, state.queue.generation - later_rules)
    await state.remember(replace(state.memory, off=off, base_tip=None))
    if is_off:
        with pytest.raises(TrainsUnavailable) as unavailable:
            await a_pass(state).run()
        assert not unavailable.value.once
    else:
        assert await a_pass(state).run() is not None
        await state.load()
    assert bool(github.named("branch_tip")) is not is_off


async def test_queue_whose_trains_were_switched_off_costs_no_more_than_one_that_had_none(store: Store) -> None:
    """P7: its runs end, and neither memory nor mark is left."""
    state, run = await a_state(store, TrainGitHub(), (1,))
    assert await a_pass(state).leave() is None
    async with store.reading() as tx:
        ended = await tx.candidate_runs.get(run.id or 0)
        queue = await tx.queues.get(state.queue.id)
        assert (await tx.trains.get(state.queue.id)).version == 0
    assert ended is not None
    assert ended.state is CandidateState.ENDED
    assert queue is not None
    assert not queue.in_trains


@pytest.mark.parametrize("is_late", [False, True])
async def test_outage_while_a_candidate_is_built_has_trains_off_after_its_limit(store: Store, is_late: bool) -> None:
    """P5: until then the run waits, longer each time; no plan begins another run once trains are off."""
    state, run = await a_state(store, TrainGitHub(create_branch=Unavailable("down")), (1,))
    since = NOW - POLICY.outage_timeout if is_late else NOW
    test = replace(run.test, github_failures=1, github_failing_since=since, next_poll_at=NOW)
    await state.save_run(replace(run, test=test))
    if is_late:
        with pytest.raises(TrainsUnavailable):
            await a_pass(state).run()
    else:
        due = await a_pass(state).run()
        assert due is not None
        assert due > NOW
    await state.load()
    assert (state.memory.off is not None, state.runs == ()) == (is_late, is_late)
