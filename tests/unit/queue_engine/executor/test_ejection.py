"""What the author of an ejected member reads, and what the queue learns from it."""

from dataclasses import replace

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.facts import CheckState
from queue_engine.domain.run import CandidateTrigger
from queue_engine.executor.run_checks import eject, kept
from queue_engine.planner.trains.memory import FailingChecks
from queue_engine.store import Store
from tests.unit.queue_engine.examples import report
from tests.unit.queue_engine.executor.train_states import TrainGitHub, a_state


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


@pytest.mark.parametrize(
    ("draft", "own", "left"),
    [(True, CheckState.PASSED, False), (True, CheckState.FAILED, True), (False, CheckState.PASSED, True)],
    ids=["another_app_on_a_draft", "red_on_its_own_head", "proved_by_a_push"],
)
async def test_failure_of_two_ejects_one_of_them_only_by_a_check_that_tests_the_tree(
    sqlite_database: Database, draft: bool, own: CheckState, left: bool
) -> None:
    """P5: the other one landed since. No member leaves for what is not known: its own branch decides, once."""
    github = TrainGitHub()
    state, run = await a_state(Store(sqlite_database), github, (1, 2))
    run = replace(run, trigger=CandidateTrigger.PULL_REQUEST if draft else CandidateTrigger.PUSH)
    failing = kept(run, [report("words", CheckState.FAILED)])
    entry = next(each for each in state.entries if each.number == 2)
    github.reports_of[entry.head_sha] = (report("words", own),)
    memory = state.memory.with_failure(FailingChecks(run.id or 0, (1, 2), failing))
    await state.remember(replace(memory, green=(failing[0]["key"],)))
    await eject(state, 2)
    await state.load()
    assert [each.number for each in state.entries] == ([1] if left else [1, 2])
    off = state.memory.off
    assert (off is None) if left else (off is not None and off.once and off.suspect == 2)
