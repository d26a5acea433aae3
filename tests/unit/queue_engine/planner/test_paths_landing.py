"""The ways of an entry to the base, with the requests that each costs, and its restarts."""

import pytest

from queue_engine.domain.facts import CheckState
from queue_engine.planner.actions import Wait
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    READY,
    UPDATING,
    entry,
    rules,
)
from tests.unit.queue_engine.planner.paths import Walk, behind, checking, landed, ready, updating
from tests.unit.queue_engine.planner.scripted_github import GitHub

PASSED, PENDING = CheckState.PASSED, CheckState.PENDING


def test_walk_of_a_green_and_up_to_date_entry_lands_in_one_pass() -> None:
    """No new CI run, five requests."""
    walk = ready()
    assert landed(walk.go())
    assert walk.asked == ["snapshot", "rules", "checks", "merge"]
    assert walk.ways == ["checking", "ready"]
    assert walk.entry.run.merge_requested_at == NOW
    assert walk.entry.run.tested_tree == "tree-of-head-1"


def test_walk_with_reports_that_came_before_the_update_was_bound_polls_at_once() -> None:
    """A check may be quicker than the webhook of the head that it checked."""
    walk = updating()
    walk.updated()
    walk.change_entry(completed_checks=("head-2:ci", "elsewhere:ci"))
    walk.github.say(PASSED)
    assert landed(walk.go())


def test_walk_with_reports_on_another_head_does_not_poll() -> None:
    """Others' reports are no reason for a request."""
    walk = updating()
    walk.updated()
    walk.change_entry(completed_checks=("elsewhere:ci",))
    walk.go()
    assert "checks" not in walk.asked
    assert walk.due == NOW + POLICY.check_poll.base


def test_walk_without_webhooks_lands_all_the_same() -> None:
    """The slow looks find the update and the checks; the update found so is proved before it is bound."""
    walk = behind()
    walk.go()
    walk.github.update("head-2")
    assert isinstance(walk.wait(), Wait)
    # If IMQ missed the webhook of the head, it may have missed those of its checks.
    assert walk.asked == ["snapshot", "update", "pull", "comparison", "rules", "checks", "workflow_runs"]
    assert walk.entry.head_proved
    walk.github.say(PASSED)
    assert landed(walk.wait())
    assert walk.now == NOW + POLICY.update_poll.base + POLICY.check_poll.base


def test_walk_while_long_checks_run_polls_ever_more_rarely() -> None:
    """Two hours of CI without a webhook cost a handful of polls."""
    walk = checking()
    walk.github.say(PENDING)
    before, waits = len(walk.asked), 0
    while isinstance(walk.wait(), Wait):
        waits += 1
    assert NOW + POLICY.checks.fallback_timeout <= walk.now <= NOW + 1.5 * POLICY.checks.fallback_timeout
    assert walk.asked[before:] == ["checks"] * (waits + 1)
    assert waits <= 5


@pytest.mark.parametrize("required", [("ci",), ()])
def test_walk_woken_while_checks_run_asks_nothing(required: tuple[str, ...]) -> None:
    """A queue is woken by everything that happens in it; only reports and time are reasons to look."""
    walk = checking()
    walk.github.rules = rules(*required)
    walk.reported(PENDING)
    walk.go()
    asked = list(walk.asked)
    for minute in (1, 5, 9):
        assert isinstance(walk.go_at(NOW + minute * MINUTE), Wait)
    assert walk.asked == asked
    walk.wait()
    asked = list(walk.asked)
    for minute in (1, 5, 9):
        assert isinstance(walk.go_at(walk.now + minute * MINUTE), Wait)
    assert walk.asked == asked


def test_walk_whose_base_moves_while_checking_is_updated_at_once() -> None:
    """What runs can no longer land; the new update starts from the proved one."""
    walk = checking()
    walk.github.move_base("base-3")
    walk.change_entry(newer_tip="base-3")
    assert isinstance(walk.go(), Wait)
    assert (walk.entry.status, walk.entry.head_sha, walk.entry.head_proved) == (UPDATING, "head-2", True)
    walk.updated("head-3")
    walk.go()
    walk.reported()
    assert landed(walk.go())
    assert walk.merged_heads == ["head-3"]
    assert walk.ways == ["updating", "checking", "updating", "checking", "ready"]


@pytest.mark.parametrize("hinted", [True, False])
def test_walk_whose_base_moves_before_the_merge_never_merges_what_was_not_tested(hinted: bool) -> None:
    """P1: with or without a webhook, the comparison of this pass decides."""
    walk = checking()
    walk.reported()
    walk.github.move_base("base-3")
    walk.meanwhile["checks"] = lambda: walk.change_entry(newer_tip="base-3" if hinted else None)
    assert isinstance(walk.go(), Wait)
    assert walk.entry.status is UPDATING
    assert walk.merged_heads == []


def test_walk_restarted_hours_after_the_intent_to_update_asks_before_it_gives_up() -> None:
    """Killed between intent and request: the call may not have been made, and the entry did not cause that."""
    walk = updating()
    assert isinstance(walk.go_at(NOW + 5 * HOUR), Wait)
    assert walk.asked.count("update") == 2
    walk.updated()
    walk.go()
    assert walk.entry.status is CHECKING


def test_walk_restarted_hours_after_the_checks_began_polls_before_it_gives_up() -> None:
    """Green while IMQ was away is green."""
    walk = checking()
    walk.github.say(PASSED)
    assert landed(walk.go_at(NOW + 5 * HOUR))


def test_walk_restarted_hours_after_the_checks_passed_compares_again() -> None:
    """What was ready may be behind by now."""
    walk = Walk(GitHub(), entry(status=READY, base_tip="base-1", tested_tree="tree-of-head-1"))
    walk.github.move_base("base-9")
    walk.go_at(NOW + 5 * HOUR)
    assert walk.entry.status is UPDATING
    assert walk.merged_heads == []
