"""Single decisions on the way to a ready entry: comparisons, updates, heads, and the wait for checks."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.facts import CheckState, Snapshot
from queue_engine.domain.model import Entry, EntryStatus, UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import RunState
from queue_engine.planner.actions import Action, Dequeue, FactKind, ReadFact, Save, Unmet, Update, Wait
from queue_engine.planner.decide import decide
from queue_engine.rules.transitions import enter
from tests.store.examples import changed
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    NOW,
    POLICY,
    READY,
    REPOSITORY,
    SECOND,
    UPDATING,
    comparison,
    entry,
    facts_with,
    pull,
    report,
    rules,
)


def test_entering_a_status_forgets_the_counters_of_the_one_before() -> None:
    """Bounds are per status; IMQ keeps the start of the run, and counts refused merges for the same head."""
    worn = entry(
        polls=5, next_poll_at=NOW, merge_refusals=2, github_failures=3, github_failing_since=NOW, started_at=NOW - HOUR
    )
    fresh = enter(worn, RunState.BUILDING, NOW)
    assert (
        fresh.run.polls,
        fresh.run.next_poll_at,
        fresh.run.merge_refusals,
        fresh.run.github_failures,
        fresh.run.github_failing_since,
    ) == (
        0,
        None,
        2,
        0,
        None,
    )
    assert (fresh.status, fresh.status_since, fresh.run.started_at) == (UPDATING, NOW, NOW - HOUR)
    assert enter(entry(), RunState.BUILDING, NOW).run.started_at == NOW


def test_update_forgets_what_was_known_of_the_head_before() -> None:
    """Nothing of one head's checks or candidates counts for the next."""
    stale = entry(
        status=CHECKING,
        newer_tip="base-2",
        tested_tree="tree",
        pending_checks=("ci",),
        completed_checks=("ci",),
        polls=3,
    )
    action = decide(stale, facts_with(comparison=comparison(behind=1, base_tip="base-2")), POLICY, NOW)
    assert isinstance(action, Update)
    updating = action.entry
    assert (updating.run.tested_tree, updating.run.pending_checks, updating.run.completed_checks) == (None, (), ())
    assert (updating.newer_tip, updating.run.base_tip, updating.run.polls) == (None, "base-2", 0)


def test_pending_head_that_the_comparison_finds_behind_is_updated() -> None:
    """Where the query does not tell how far it is behind, as without GraphQL, the comparison does."""
    untold = Snapshot(pull(), base_tip=None, behind=None)
    facts = facts_with(pull=pull(), snapshot=untold, comparison=comparison(behind=2, base_tip="base-2"))
    action = decide(entry(), facts, POLICY, NOW)
    assert isinstance(action, Update)
    assert (action.entry.status, action.entry.run.base_tip) == (UPDATING, "base-2")


@pytest.mark.parametrize(
    ("of_entry", "of_facts"),
    [
        ({}, {"snapshot": Snapshot(pull(), base_tip="base-2", behind=1, ahead=0)}),
        ({}, {"comparison": comparison(behind=1, merge_base="head-1")}),
        ({"status": UPDATING, "new_head": "head-2"}, {"comparison": comparison("head-2", merge_base="head-2")}),
        ({"status": CHECKING, "newer_tip": "head-1"}, {"comparison": comparison(merge_base="head-1")}),
        ({"status": READY}, {"snapshot": Snapshot(pull(), base_tip="base-2", behind=1, ahead=0)}),
    ],
)
def test_head_that_the_base_contains_is_dequeued_and_not_updated(
    of_entry: dict[str, Any], of_facts: dict[str, Any]
) -> None:
    """GitHub shows the pull request as merged later, and may close it unmerged if its head moves until then."""
    facts = facts_with(**{"pull": pull(head_sha=of_entry.get("new_head", "head-1")), "rules": rules("ci")} | of_facts)
    assert decide(entry(**of_entry), facts, POLICY, NOW) == Dequeue(Reason.MERGED_ELSEWHERE)


@pytest.mark.parametrize(("later", "action"), [(-SECOND, None), (SECOND, Dequeue(Reason.HEAD_CHANGED))])
def test_new_head_of_a_fork_waits_for_the_webhook_that_names_who_pushed(
    later: timedelta, action: Dequeue | None
) -> None:
    """P4: without that it is a stranger's, whatever its parents; but not before the webhook had its time."""
    waiting = entry(status=UPDATING, new_head="head-2", next_poll_at=NOW)
    fork = pull(head_sha="head-2", head_repository="ada/fork")
    compared = comparison("head-2", parents=("head-1", "base-1"))
    expected = action or Wait(waiting.run, NOW)
    assert decide(waiting, facts_with(pull=fork, comparison=compared), POLICY, NOW + later) == expected


def test_unproved_head_that_is_behind_is_proved_before_it_is_updated() -> None:
    """P4: an update of a crafted head would hide what that came from."""
    unproved = entry(status=READY, head_sha="head-2", head_proved=False, updated_from="head-1")
    at_head = pull(head_sha="head-2")
    behind = Snapshot(at_head, base_tip="base-2", behind=1)
    facts = facts_with(pull=at_head, snapshot=behind)
    assert decide(unproved, facts, POLICY, NOW) == ReadFact(FactKind.COMPARISON)
    proved = decide(replace(unproved, head_proved=True), facts, POLICY, NOW)
    assert isinstance(proved, Update)
    crafted = replace(facts, comparison=comparison("head-2", behind=1, parents=("evil", "base-1")))
    assert decide(unproved, crafted, POLICY, NOW) == Dequeue(Reason.HEAD_CHANGED)


@pytest.mark.parametrize("proved", [True, False])
@pytest.mark.parametrize(
    ("compared", "is_dropped"),
    [
        ({"behind": 1, "ahead": ("base-1", "head-2")}, True),
        ({"behind": 0, "base_tip": "base-0"}, True),
        ({"behind": 1, "ahead": ("head-2",)}, False),
        ({"behind": 0, "base_tip": "base-1"}, False),
        ({"behind": 1, "ahead": ("base-1", "head-2"), "parents": ("head-1", "other")}, False),
    ],
)
def test_update_whose_base_lacks_what_it_merged_leaves_for_that(
    proved: bool, compared: dict[str, Any], is_dropped: bool
) -> None:
    """P4, P6: another merge base does not show that: the base may have merged the old head."""
    updated = entry(status=READY, head_sha="head-2", head_proved=proved, updated_from="head-1", base_tip="base-1")
    made = replace(comparison("head-2", parents=("head-1", "base-1")), merge_base="base-0")
    head = replace(made.head, parents=compared.get("parents", made.head.parents))
    rest = {name: value for name, value in compared.items() if name != "parents"}
    facts = facts_with(pull=pull(head_sha="head-2"), comparison=replace(made, head=head, **rest))
    left = decide(updated, facts, POLICY, NOW)
    assert (left == Dequeue(Reason.BASE_REWRITTEN, detail="base-1")) is is_dropped
    begun = replace(updated, run=replace(updated.run, started_at=NOW))
    if proved and is_dropped:
        # The base had that tip when the run began: a read that lacks it so soon may show the state before.
        assert decide(begun, facts, POLICY, NOW) == Wait(begun.run, NOW + timedelta(minutes=1))
        assert decide(begun, facts, POLICY, NOW + timedelta(minutes=1)) == left


def test_name_in_the_description_counts_once_the_head_is_proved() -> None:
    """P3, P4: nothing lands before what its description names, and what waits outside has a head with consent."""
    unproved = entry(status=READY, head_sha="head-2", head_proved=False, updated_from="head-1")
    at_head = pull(head_sha="head-2", body="Depends-On: #9")
    facts = facts_with(pull=at_head, comparison=comparison("head-2", parents=("head-1", "base-1")))
    lacks = (UnmetRequirement(Reason.DEPENDENCY_OPEN, "#9"),)
    proved = decide(unproved, facts, POLICY, NOW)
    assert isinstance(proved, Save)
    assert proved.entry.head_proved
    assert decide(proved.entry, facts, POLICY, NOW) == Unmet(proved.entry, lacks)
    crafted = replace(facts, comparison=comparison("head-2", parents=("evil", "base-1")))
    assert decide(unproved, crafted, POLICY, NOW) == Dequeue(Reason.HEAD_CHANGED)


def test_waiting_for_checks_names_the_required_ones_before_the_first_poll() -> None:
    """So that their webhooks can be counted without a request."""
    bound = entry(status=CHECKING, next_poll_at=NOW + HOUR)
    action = decide(bound, facts_with(rules=rules("unit", "build")), POLICY, NOW)
    assert isinstance(action, Wait)
    assert action.run.pending_checks == ("build", "unit")


def test_waiting_for_checks_hands_on_the_reports_under_way() -> None:
    """People read what runs, and what it waits for."""
    running = report("ci", CheckState.PENDING)
    facts = facts_with(rules=rules("ci", "lint"), reports=(running,), workflow_runs=())
    action = decide(entry(status=CHECKING), facts, POLICY, NOW)
    assert isinstance(action, Wait)
    assert (action.pending, action.run.pending_checks) == ((running,), ("ci", "lint"))


@pytest.mark.parametrize(
    ("at", "head", "fact"),
    [
        # The head was compared, then a candidate came: nothing is known of the candidate.
        (entry(status=UPDATING, new_head="head-2"), "head-1", FactKind.COMPARISON),
        # The candidate was bound, and the comparison is of the head before.
        (entry(status=READY, head_sha="head-2"), "head-1", FactKind.SNAPSHOT),
    ],
)
def test_comparison_of_another_head_is_not_believed(at: Entry, head: str, fact: FactKind) -> None:
    """P1: what was compared is what is judged, even if the entry changed within the pass."""
    facts = facts_with(pull=pull(head_sha="head-2"), rules=rules(), comparison=comparison(head))
    assert decide(at, facts, POLICY, NOW) == ReadFact(fact)


def test_front_whose_base_always_moves_leaves_in_the_end() -> None:
    """P5: starting over has a limit; before it, the move is followed."""
    moved = facts_with(pull=pull(), comparison=comparison(behind=1))
    began = entry(status=READY, started_at=NOW - POLICY.timeouts.run + HOUR)
    assert isinstance(decide(began, moved, POLICY, NOW), Update)
    assert decide(changed(began, started_at=NOW - POLICY.timeouts.run), moved, POLICY, NOW) == Dequeue(
        Reason.BASE_KEEPS_MOVING
    )


GREEN, RUNNING, RED = (report("ci", state) for state in (CheckState.PASSED, CheckState.PENDING, CheckState.FAILED))


def test_update_past_its_limit_is_searched_for_before_the_next_slow_poll() -> None:
    """The limit is not put off by a wait that reaches beyond it."""
    late = entry(status=UPDATING, polls=5, next_poll_at=NOW + HOUR, status_since=NOW - POLICY.timeouts.update)
    assert decide(late, facts_with(), POLICY, NOW) == ReadFact(FactKind.PULL)


@pytest.mark.parametrize("status", [CHECKING, READY, EntryStatus.PENDING])
def test_proof_of_an_update_keeps_the_tree_that_is_tested(status: EntryStatus) -> None:
    """P1: what lands is compared with it, also when the rest of the pass never comes."""
    own = comparison("head-2", parents=("head-1", "base-1"))
    unproved = entry(status=status, head_sha="head-2", updated_from="head-1", head_proved=False, newer_tip="base-2")
    facts = facts_with(pull=pull(head_sha="head-2"), comparison=own)
    proved = changed(unproved, head_proved=True, tested_tree="tree-of-head-2")
    assert decide(unproved, facts, POLICY, NOW) == Save(proved)


def test_base_that_was_reported_to_move_and_did_not_is_remembered_as_it_is() -> None:
    """The checks go on, and the tip that they ran on is the one that the comparison found."""
    reported = entry(status=CHECKING, newer_tip="base-1", base_tip="base-0")
    action = decide(reported, facts_with(comparison=comparison()), POLICY, NOW)
    assert action == Save(changed(reported, newer_tip=None, base_tip="base-1"))


def test_landing_without_checks_begins_ready_when_its_short_time_is_over() -> None:
    """A head without checks waits for the first report as long as the policy says, and no longer."""
    policy = replace(POLICY, checks=replace(POLICY.checks, land_without=True))
    checking = entry(status=CHECKING, status_since=NOW - policy.checks.first_report)
    action = decide(checking, facts_with(rules=rules(), reports=(), workflow_runs=()), policy, NOW)
    assert isinstance(action, Save)
    assert (action.entry.status, action.entry.status_since) == (READY, NOW)


@pytest.mark.parametrize(
    ("fork", "waited", "action"), [(True, False, Wait), (True, True, Dequeue), (False, False, Save)]
)
def test_head_of_a_fork_that_no_webhook_named_is_not_bound_by_its_parents(
    fork: bool, waited: bool, action: type[Action]
) -> None:
    """P4: a fork's owner can push a merge with the parents of an update and any content."""
    found = pull(head_sha="head-2", head_repository="mallory/rocket" if fork else REPOSITORY.full_name)
    at = entry(status=UPDATING, new_head="head-2", next_poll_at=NOW if waited else NOW + HOUR)
    crafted = comparison("head-2", parents=("head-1", "base-1"))
    decided = decide(at, facts_with(pull=found, comparison=crafted), POLICY, NOW)
    assert isinstance(decided, action)
    assert not isinstance(decided, Dequeue) or decided.reason is Reason.HEAD_CHANGED
