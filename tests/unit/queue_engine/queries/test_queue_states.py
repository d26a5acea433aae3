"""Queues at a glance: what runs, what landed last, since when blockers hold, and figures against their limits."""

from dataclasses import replace
from typing import Any

import pytest

from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.model import EntryStatus, Pause, RedBase, Stall, TimelineEvent
from queue_engine.domain.reasons import Reason
from queue_engine.queries.check_view import group_runs
from queue_engine.queries.pull_request_history import SHOWN, load_history, runs_of
from queue_engine.queries.queue_states import (
    FEWEST,
    WEEK,
    BlockerState,
    QueueState,
    QueueStates,
    StateKind,
    blocker_states,
    health_of_last,
    load_health,
    load_overview,
    next_landing,
    run_tree,
)
from queue_engine.queries.queue_status import EntryView, Position, QueueView, load_summaries
from queue_engine.queries.train_status import FailingMembers
from queue_engine.store import Transaction, timeline
from tests.store.examples import changed, stand
from tests.store.examples import queue as stored_queue
from tests.store.test_departures import departure
from tests.unit.queue_engine.examples import CHECKING, HOUR, MINUTE, NOW, REPOSITORY
from tests.unit.queue_engine.queries.examples import entries, happened, queue
from tests.unit.queue_engine.queries.test_train_status import run


def test_each_blocker_has_its_own_beginning() -> None:
    """A pause knows who set it; what a pass found began with its announcement."""
    announced = BlockerNotices.of([Blocker(Reason.MISCONFIGURED, "line 3")], (), NOW - HOUR).to_json()
    stored = queue(
        pauses=(Pause(Reason.PAUSED_BY_HAND, "disk", NOW, None, "rhea"),),
        red=RedBase("ci", "tip", NOW - MINUTE, 0, NOW),
        stall=Stall(NOW - 2 * MINUTE, "head", "ci"),
        announced=announced,
    )
    reasons = (Reason.BASE_RED, Reason.CHECKS_NOT_STARTING, Reason.MISCONFIGURED, Reason.FROZEN)
    others = tuple(Blocker(reason, "line 3") for reason in reasons)
    states = blocker_states(stored, (Blocker(Reason.PAUSED_BY_HAND, "disk", recorded=True), *others))
    assert [each.since for each in states] == [NOW, NOW - MINUTE, NOW - 2 * MINUTE, NOW - HOUR, None]
    assert [each.by for each in states] == ["rhea", None, None, None, None]


async def test_overview_has_what_runs_and_what_landed_of_each_queue(t: Transaction) -> None:
    """Of each queue its own, and the sums of all."""
    first, second = await stored_queue(t), await stored_queue(t, "dev")
    entry = await stand(t, first, 1)
    await t.entries.save(changed(entry, status=CHECKING, started_at=NOW))
    await happened(t, 8, "landed")
    await happened(t, 9, "landed")
    kinds: tuple[dict[str, Any], ...] = (
        {},
        {"left_at": NOW - 24 * HOUR},
        {"outcome": EntryStatus.FAILED},
        {"base_branch": "dev"},
    )
    for index, others in enumerate(kinds):
        await t.departures.put(departure(index, number=index, **others))
    found = await load_overview(t, await load_summaries(t, NOW), NOW)
    shown = {
        state.view.queue.id: (
            [each.numbers for each in state.runs],
            state.landed and state.landed.number,
            state.week[-2:],
        )
        for state in found.states
    }
    assert shown == {first.id: ([(1,)], 9, (1, 1)), second.id: ([], None, (0, 1))}
    assert [each.condition for each in found.states] == [StateKind.TESTING, StateKind.IDLE]
    assert (found.queued, found.landed_today, found.failed_today, found.median_wait) == (1, 2, 1, 10.0)
    assert found.needing == ()
    nothing = await load_overview(t, (), NOW)
    assert (nothing.states, nothing.queued, nothing.next_landing) == ((), 0, None)


def test_queue_that_a_person_paused_comes_after_those_with_a_fault() -> None:
    """Both need a person; only the fault is one."""
    by_hand = (BlockerState(Blocker(Reason.PAUSED_BY_HAND, ""), None),)
    red = (BlockerState(Blocker(Reason.BASE_RED, "ci"), None),)
    frozen = (BlockerState(Blocker(Reason.FROZEN, ""), None),)
    states = tuple(
        QueueState(QueueView(queue(id=number), 1, 0, ()), blockers, (), (), None, (0,) * WEEK, None)
        for number, blockers in enumerate((by_hand, red, frozen, ()))
    )
    found = QueueStates(states, 0, 0, None)
    assert [each.view.queue.id for each in found.needing] == [1, 0]
    assert [each.condition for each in states] == [
        StateKind.PAUSED,
        StateKind.BASE_RED,
        StateKind.FROZEN,
        StateKind.WAITING,
    ]


def test_overview_lists_queues_that_need_a_person_first_and_idle_ones_last() -> None:
    """A queue that works stands between them, whatever their repositories are called."""
    red = (BlockerState(Blocker(Reason.BASE_RED, "ci"), None),)
    rows = (("a", 0, ()), ("B", 1, ()), ("d", 1, red), ("C", 0, red), ("e", 0, ()))
    states = []
    for name, depth, blockers in rows:
        one = queue()
        one = replace(one, repository=replace(one.repository, name=name))
        states.append(QueueState(QueueView(one, depth, 0, ()), blockers, (), (), None, (0,) * WEEK, None))
    found = QueueStates(tuple(states), 0, 0, None)
    assert [each.view.queue.repository.name for each in found.ordered] == ["C", "d", "B", "a", "e"]


def test_tree_has_each_run_beneath_the_smallest_failed_one_that_it_bisects() -> None:
    """And each failed part beneath the failed whole; what no run tests yet is next."""
    runs = group_runs((), [run(33, 9, 3, tested={3}), run(31, 4, 5), run(32, 1)], {}, NOW)
    failed = (FailingMembers((1, 2, 3, 6), frozenset({1, 2, 3, 6}), 7), FailingMembers((1, 2), frozenset({1, 2}), 8))
    (whole, other) = run_tree(runs, failed)
    assert whole.failed is not None
    assert (whole.failed.run, whole.rest) == (7, (6,))
    part, of_whole = whole.children
    assert part.failed is not None
    assert of_whole.run is not None
    assert other.run is not None
    assert (part.failed.run, [each.run and each.run.id for each in part.children], part.rest) == (8, [32], (2,))
    assert (of_whole.run.id, other.run.id) == (33, 31)


def test_nothing_lands_next_while_nothing_may() -> None:
    """A pause stops what is tested; at a red base only its fix lands."""
    front, fix = entries(2)
    fix = changed(fix, fixes_base=True, run=replace(front.run, id=9, pending_checks=("ci",)), status=CHECKING)
    front = replace(front, run=replace(front.run, id=8))
    runs = group_runs((front, fix), (), {"ci": 60.0}, NOW)
    tens = [10 * MINUTE] * FEWEST
    assert next_landing(runs, (front, fix), (), (), NOW) == NOW + MINUTE
    assert next_landing(runs, (front, fix), (Blocker(Reason.PAUSED_BY_HAND, ""),), tens, NOW) is None
    assert next_landing(runs[:1], (front,), (Blocker(Reason.BASE_RED, "ci"),), tens, NOW) is None
    assert next_landing(runs, (front, fix), (Blocker(Reason.BASE_RED, "ci"),), tens, NOW) == NOW + MINUTE
    assert next_landing((), (front,), (), tens, NOW + MINUTE) == NOW + 10 * MINUTE, "by the landings before"
    assert next_landing((), (front,), (), tens[1:], NOW) is None


async def test_history_is_read_in_parts(t: Transaction) -> None:
    """Thousands of events of one pull request are never read at once, and none is missing or shown twice."""
    for number in range(SHOWN * 2 + 1):
        await happened(t, 1, f"event {number}")
    await happened(t, 2, "queued")
    shown, before, parts = [], None, 0
    while parts == 0 or before is not None:
        part = await load_history(t, REPOSITORY.id, 1, before=before)
        assert len(part.events) <= SHOWN
        shown += [event.event for event in part.events]
        before, parts = part.older, parts + 1
    assert shown == [f"event {number}" for number in reversed(range(SHOWN * 2 + 1))]
    assert parts == 3


async def test_tests_of_a_pull_request_are_those_of_its_commits(t: Transaction) -> None:
    """Of several events for one commit the newest counts; other data are left alone."""
    await happened(t, 1, "checking", data={"head": "a"})
    await happened(t, 1, "ready", data={"tested": "a", "check_seconds": {"ci": 5.0}})
    await happened(t, 1, "failed", reason=Reason.CONFLICT, data={"tested": "a", "check_seconds": {"ci": 5.0, "x": 1}})
    await happened(t, 1, "updating", data={"tested": "b", "check_seconds": {"ci": 7.0}})
    await happened(t, 1, "ready", data={"tested": "c", "check_seconds": "broken"})
    runs = (await load_history(t, REPOSITORY.id, 1)).runs
    assert [(run.commit, run.event, run.reason, run.began) for run in runs] == [
        ("b", "updating", None, None),
        ("a", "failed", Reason.CONFLICT, NOW),
    ]
    assert runs[1].seconds == (("ci", 5.0), ("x", 1.0))
    assert runs_of(()) == ()


async def test_test_in_a_run_of_a_train_has_the_outcome_of_the_run(t: Transaction) -> None:
    """The member is pending again, and its page says that checks failed."""
    await happened(t, 1, "checking", data={"head": "a"})
    await happened(t, 1, "pending", data={"tested": "candidate", "check_seconds": {"ci": 5.0}})
    await happened(t, 0, "run_ended", data={"run": 6, "members": [1, 2], "outcome": "failed"})
    later = {"run": 7, "members": [1], "outcome": "base_moved"}
    await t.timeline.append(TimelineEvent(NOW + HOUR, "run_ended", REPOSITORY.id, "main", 0, data=later))
    (run,) = (await load_history(t, REPOSITORY.id, 1)).runs
    assert run.outcome == "failed"


def test_entry_rests_only_while_its_queue_is_blocked_and_no_check_runs() -> None:
    """Else readers would wait for a queue that is not blocked."""
    (shown,) = entries(1, completed_checks=("ci",))
    view = EntryView(shown, Position(0, 1, (), None), None, (Blocker(Reason.BASE_RED, ""),), (), None, None)
    assert view.rests
    assert not replace(view, blockers=()).rests
    assert not replace(view, pending_checks=("lint",)).rests
    assert not replace(view, entry=entries(1)[0]).rests


async def test_health_is_that_of_the_last_departures_of_each_queue(t: Transaction) -> None:
    """Pull requests that people dequeued do not count, nor departures of a week ago, nor those of another queue."""
    first, second = await stored_queue(t), await stored_queue(t, "dev")
    cancelled = {"outcome": EntryStatus.CANCELLED, "waited": 9e9}
    ejected = {"outcome": EntryStatus.FAILED, "reason": Reason.CONFLICT}
    kinds: list[dict[str, Any]] = [*[{}] * 4, ejected, cancelled, {"left_at": NOW - 169 * HOUR}, {"base_branch": "dev"}]
    for index, others in enumerate(kinds):
        await t.departures.put(departure(index, number=index, **others))
    health = await load_health(t, [first, second], NOW)
    assert health[first.id] == health_of_last([10.0] * 4, failed=1)
    assert (health[first.id].failures.figure, health[second.id].counted, health[second.id].is_known) == (0.2, 1, False)


@pytest.mark.parametrize("count", [0, 1, 2, 11, 60])
async def test_health_of_any_number_of_queues_takes_few_statements_built_once(t: Transaction, count: int) -> None:
    """The overview built a statement for each request, which took longer than the database."""
    some = [await stored_queue(t, f"branch-{number}") for number in range(count)]
    for number in range(count):
        of_it = {"base_branch": f"branch-{number}", "waited": float(number + 1)}
        for index in range(FEWEST):
            await t.departures.put(departure(number * FEWEST + index, number=index, **of_it))
    built = timeline._waits.cache_info().misses
    for _ in range(2):
        health = await load_health(t, some, NOW)
    assert [health[queue.id].median_wait.figure for queue in some] == [float(number + 1) for number in range(count)]
    assert timeline._waits.cache_info().misses - built <= 2
    assert timeline._waits.cache_info().currsize <= len(timeline._SIZES)
