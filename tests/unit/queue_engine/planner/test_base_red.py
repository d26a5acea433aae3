"""A check that fails on the base as well: no entry is ejected, and the front is held until the base is green."""

from dataclasses import replace

import pytest

from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Action, Dequeue, HoldBase, Wait
from queue_engine.planner.decide import decide
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    NOW,
    POLICY,
    UPDATING,
    entry,
    facts_with,
    pull,
    report,
    rules,
)
from tests.unit.queue_engine.planner.outcome_cases import a_job, failed
from tests.unit.queue_engine.planner.paths import checking, landed
from tests.unit.queue_engine.planner.scripted_github import Refusal


def test_base_red_holds_the_entry_and_gives_it_one_more_run_when_the_base_is_green() -> None:
    """The entry keeps its position and its head; a failure on a red base proves nothing."""
    walk = a_job()
    walk.github.say_on_base(CheckState.FAILED)
    walk.go()
    walk.reported(CheckState.FAILED)
    action = walk.go()
    assert isinstance(action, HoldBase)
    assert (action.check.name, action.tip, walk.entry.status) == ("ci", "base-2", CHECKING)
    walk.github.say_on_base(CheckState.PASSED)
    assert isinstance(walk.go_at(NOW + 9 * HOUR), Wait)
    assert (walk.asked.count("rerun"), walk.entry.run.checks_since) == (2, walk.now)
    walk.reported(CheckState.PASSED)
    walk.go()
    assert landed(walk.wait())


def test_base_red_found_after_failures_of_github_leaves_no_backoff_that_webhooks_do_not_shorten() -> None:
    """Otherwise the queue would learn of the repaired base only when the backoff is over."""
    walk = a_job(reruns=[Refusal("no")])
    walk.github.say_on_base(CheckState.FAILED)
    walk.change_entry(github_failures=2, github_failing_since=NOW)
    assert isinstance(walk.go(), HoldBase)
    assert (walk.entry.run.github_failures, walk.entry.run.github_failing_since) == (0, None)


def test_base_red_where_nothing_is_run_again_lets_the_failure_stand_when_the_base_is_green() -> None:
    """`checks.reruns: 0` means none, ever; while the base is red no entry is ejected, and its last poll decides."""
    walk = a_job()
    walk.policy = replace(walk.policy, checks=replace(walk.policy.checks, reruns=0))
    walk.github.say_on_base(CheckState.FAILED)
    assert isinstance(walk.go(), HoldBase)
    assert isinstance(walk.go_at(NOW + HOUR), HoldBase)
    walk.github.say_on_base(CheckState.PASSED)
    assert walk.left() is Reason.CHECKS_FAILED
    assert "rerun" not in walk.asked


def test_base_red_that_has_moved_is_followed_by_an_update() -> None:
    """The fix landed: what failed before it is tested on top of it."""
    walk = a_job(reruns=[Refusal("no")])
    walk.github.say_on_base(CheckState.FAILED)
    assert isinstance(walk.go(), HoldBase)
    walk.github.move_base("base-3")
    walk.change_entry(newer_tip="base-3")
    walk.go()
    assert (walk.entry.status, walk.entry.run.base_tip) == (UPDATING, "base-3")


def test_base_red_is_checked_on_the_tip_that_the_head_contains() -> None:
    """Not on a later tip of the branch."""
    walk = a_job(reruns=[Refusal("no")])
    walk.github.reports["base-3"] = (failed(),)
    walk.github.base_tip = "base-3"
    assert walk.left() is Reason.CHECKS_FAILED


def test_base_that_settles_while_it_is_waited_for_decides() -> None:
    """IMQ ejects no entry for a failure that the base may have, and polls the base ever less often."""
    walk = a_job(reruns=[Refusal("no")])
    walk.github.say_on_base(CheckState.PENDING)
    assert isinstance(walk.go(), Wait)
    assert isinstance(walk.wait(), Wait)
    walk.github.say_on_base(CheckState.FAILED)
    assert isinstance(walk.wait(), HoldBase)


def test_green_way_asks_nothing_of_the_base() -> None:
    """P7: what costs requests happens on failures only."""
    walk = checking()
    walk.reported(CheckState.PASSED)
    assert landed(walk.go())
    assert not {"base_reports", "rerun"} & set(walk.asked)


FAILED = report("ci", CheckState.FAILED, run=9)
FINE, RED = report("ci", run=1), report("ci", CheckState.FAILED, run=2)
RUNNING, STATUS = report("ci", CheckState.PENDING, run=3), report("ci", CheckState.FAILED)


@pytest.mark.parametrize(
    ("on_base", "kind"),
    [
        ((FINE,), Dequeue),
        ((FINE, RED), HoldBase),
        ((FINE, RUNNING), Wait),
        ((FINE, RUNNING, RED), HoldBase),
        ((FINE, STATUS), Dequeue),
    ],
)
def test_failure_is_compared_with_the_worst_report_on_the_base(
    on_base: tuple[CheckReport, ...], kind: type[Action]
) -> None:
    """A check may report on several events; a status of its name is another source. Red counts first, then running."""
    facts = facts_with(rules=rules("ci"), reports=(FAILED,), base_reports=on_base, pull=pull())
    assert isinstance(decide(entry(status=CHECKING, base_tip="base-1"), facts, POLICY, NOW), kind)
