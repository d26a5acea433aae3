"""What the author of an ejected member reads, and what the queue learns from it."""

import pytest

from queue_engine.core.database.database import Database
from queue_engine.executor.trains.dequeue import eject
from queue_engine.planner.trains.memory import FailingChecks
from queue_engine.store import Store
from tests.unit.queue_engine.executor.trains.train_states import TrainGitHub, a_state


@pytest.mark.parametrize("reason", ["checks_failed", "checks_timed_out"])
async def test_ejected_member_leaves_for_the_reason_of_its_run_and_counts_once(
    sqlite_database: Database, reason: str
) -> None:
    """A check that never ended is no failed check; the rate of failures follows."""
    store = Store(sqlite_database)
    state, run = await a_state(store, TrainGitHub(), (1, 2))
    await state.remember(state.memory.with_failure(FailingChecks(run.id or 0, (1,), (), "ci", reason)))
    before = state.memory.trains.estimates.fails
    await eject(state, 1)
    await state.load()
    assert [each.number for each in state.entries] == [2]
    assert [each.id for each in state.memory.trains.queue] == [2]
    after = state.memory.trains.estimates.fails
    assert (after.weight, after.share > before.share) == (before.weight + 1, True)
    async with store.reading() as tx:
        assert reason in [each.reason for each in await tx.timeline.latest(9)]
