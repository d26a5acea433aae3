"""When a queue in trains is tested one entry after the other, and what is left once trains are off."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.config.model import TrainRules
from queue_engine.core.database.database import Database
from queue_engine.domain.errors import Forbidden, GitHubError, Invalid, RateLimitError, Refused, StaleRead, Unavailable
from queue_engine.domain.facts import CheckState
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.policy import Candidates
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import RunState
from queue_engine.executor.queue_pass import QueuePass
from queue_engine.executor.run_store import TrainState
from queue_engine.planner.trains.memory import SequentialMode
from queue_engine.store import Store
from tests.unit.queue_engine.examples import HOUR, NOW, POLICY, report
from tests.unit.queue_engine.executor.train_states import TrainGitHub, a_state


@pytest.fixture
def store(sqlite_database: Database) -> Store:
    return Store(sqlite_database)


def a_github(**answers: Any) -> TrainGitHub:
    """Its check has not ended, so that an entry which is tested alone waits."""
    github = TrainGitHub(**answers)
    github.reports = (report("ci", CheckState.PENDING),)
    return github


def a_pass(state: TrainState, candidates: Candidates = Candidates.AUTO) -> QueuePass:
    """A new pass over the queue of this state."""
    return QueuePass(state.engine, state.queue, lambda: True, replace(POLICY, trains=TrainRules(candidates)))


@pytest.mark.parametrize(
    ("ago", "later_rules", "is_off"),
    [(23 * HOUR, 0, True), (24 * HOUR, 0, False), (HOUR, 1, False)],
)
async def test_trains_are_off_for_a_day_or_until_rules_change(
    store: Store, ago: timedelta, later_rules: int, is_off: bool
) -> None:
    """P7: what GitHub refused is not tried with each pass; P5: a rule that was taken back is noticed."""
    github = a_github(branch_tip=Unavailable("down"))
    state, run = await a_state(store, github, (1,))
    await state.cancel(run, why="trains_off")
    off = SequentialMode("candidates_refused", "no", NOW - ago, state.queue.generation - later_rules)
    await state.remember(replace(state.memory, off=off, base_tip=None))
    assert await a_pass(state).run() is not None
    await state.load()
    assert bool(github.named("branch_tip")) is not is_off
    assert (state.entries[0].status is EntryStatus.CHECKING) is is_off


async def test_run_to_whose_branch_somebody_pushed_is_ended(store: Store) -> None:
    """P1: the checks of the branch may be those of another commit."""
    state, run = await a_state(store, a_github(branch_tip=Unavailable("down")), (1,))
    await state.save_run(replace(run, new_head="pushed"))
    await state.remember(replace(state.memory, base_tip=None))
    await a_pass(state).run()
    async with store.reading() as tx:
        ended = await tx.runs.get(run.id or 0)
    assert ended is not None
    assert ended.state is RunState.ENDED


async def test_queue_whose_trains_were_switched_off_costs_no_more_than_one_that_had_none(store: Store) -> None:
    """P7: its runs end, and neither memory nor mark is left."""
    state, run = await a_state(store, a_github(), (1,))
    await a_pass(state, Candidates.OFF).run()
    async with store.reading() as tx:
        ended = await tx.runs.get(run.id or 0)
        queue = await tx.queues.get(state.queue.id)
        assert (await tx.trains.get(state.queue.id)).version == 0
    assert ended is not None
    assert ended.state is RunState.ENDED
    assert queue is not None
    assert not queue.in_trains


@pytest.mark.parametrize("is_late", [False, True])
async def test_outage_while_a_candidate_is_built_has_trains_off_after_its_limit(store: Store, is_late: bool) -> None:
    """P5: until then the run waits, longer each time; no plan begins another run once trains are off."""
    state, run = await a_state(store, a_github(create_branch=Unavailable("down")), (1,))
    since = NOW - POLICY.outage_timeout if is_late else NOW
    await state.save_run(replace(run, github_failures=1, github_failing_since=since, next_poll_at=NOW))
    due = await a_pass(state).run()
    assert due is not None
    assert due > NOW
    await state.load()
    assert (state.memory.off is not None, state.runs == ()) == (is_late, is_late)


@pytest.mark.parametrize("hours", [5, 6])
async def test_landing_in_doubt_waits_for_six_hours_and_then_lands_one_by_one(store: Store, hours: int) -> None:
    """P5: as long as after any other lost answer to a merge."""
    state, run = await a_state(store, a_github(branch_tip=Unavailable("down")), (1,), candidate="c1")
    failing = replace(run, github_failures=9, github_failing_since=NOW - hours * HOUR, next_poll_at=NOW)
    await state.save_run(replace(failing, state=RunState.LANDING))
    await a_pass(state).run()
    await state.load()
    off = state.memory.off
    assert (None if off is None else off.reason) == (None if hours == 5 else "candidate_landing_refused")


async def test_read_that_github_answers_with_422_is_no_rule_for_the_member(store: Store) -> None:
    """P5: no parameter of a read can be wrong, so the member stays queued."""
    state, run = await a_state(store, a_github(branch_tip=Invalid("no", status=422)), (1,))
    await state.cancel(run, why="left")
    await state.remember(replace(state.memory, base_tip=None))
    assert await a_pass(state).run() is not None
    await state.load()
    assert [each.run.github_failures for each in state.entries] == [1]


@pytest.mark.parametrize("minutes", [0, 1])
async def test_run_that_github_refuses_for_a_minute_pauses_its_queue(store: Store, minutes: int) -> None:
    """P6: all who are queued read what GitHub refuses; a shorter refusal is over before."""
    state, run = await a_state(store, a_github(create_branch=Refused("no", status=403)), (1,))
    since = NOW - timedelta(minutes=minutes)
    await state.save_run(replace(run, github_failures=1, github_failing_since=since, next_poll_at=NOW))
    await a_pass(state).run()
    await state.load()
    assert (state.queue.pause(Reason.GITHUB_REFUSES) is not None) is bool(minutes)


async def test_rate_limit_makes_the_queue_wait_and_counts_against_no_run(store: Store) -> None:
    """P7: the limit concerns every run of the queue, so the pass ends with it."""
    state, run = await a_state(store, a_github(create_branch=RateLimitError("slow", retry_after=HOUR)), (1,))
    assert await a_pass(state).run() == NOW + HOUR
    await state.load()
    assert state.runs == (run,)


async def test_pass_that_an_event_wakes_asks_no_sooner_than_the_entry_waits_for_github(store: Store) -> None:
    """P7: webhooks wake a queue in trains, because its other runs go on; the wait of an entry is stored with it."""
    github = a_github(branch_tip=Unavailable("down"))
    state, run = await a_state(store, github, (1,))
    await state.cancel(run, why="left")
    await state.remember(replace(state.memory, base_tip=None))
    due = await a_pass(state).run()
    assert due is not None
    assert due > NOW
    assert await a_pass(state).run() == due
    assert len(github.named("branch_tip")) == 1


@pytest.mark.parametrize("error", [Forbidden, Invalid, StaleRead])
async def test_run_whose_checks_github_does_not_show_waits_and_keeps_its_trains(
    store: Store, error: type[GitHubError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5: what GitHub refuses of a run as a whole is no fault of its members, and may pass."""

    async def fails(*_: object) -> None:
        raise error("no")

    github = a_github()
    monkeypatch.setattr(github, "check_reports", fails)
    state, run = await a_state(store, github, (1,), candidate="c1", state=RunState.TESTING, published_at=NOW)
    await state.save_run(replace(run, next_poll_at=NOW))
    due = await a_pass(state).run()
    assert due is not None
    assert due > NOW
    await state.load()
    assert state.memory.off is None
    assert [each.github_failures for each in state.runs] == [1]
    assert (state.runs[0].github_failing_since is None) is (error is StaleRead)
