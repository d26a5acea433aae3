"""Single decisions."""

import pytest

from queue_engine.actions import Confirm, Fact, Leave, Look, Update, Wait
from queue_engine.decide import decide, enter, merge_method
from queue_engine.facts import CheckState, MergeMethod
from queue_engine.model import Entry, EntryStatus
from queue_engine.reasons import Reason
from tests.queue_engine.examples import (
    CHECKING,
    HOUR,
    NOW,
    POLICY,
    READY,
    UPDATING,
    WAITING,
    comparison,
    entry,
    pull,
    report,
    rules,
    seen,
)

MERGE, SQUASH, REBASE = MergeMethod.MERGE, MergeMethod.SQUASH, MergeMethod.REBASE


@pytest.mark.parametrize(
    ("allowed", "linear", "method"),
    [
        ((MERGE, SQUASH, REBASE), False, MERGE),
        ((SQUASH, REBASE), False, SQUASH),
        ((REBASE,), False, REBASE),
        ((MERGE, SQUASH, REBASE), True, SQUASH),
        ((MERGE, REBASE), True, REBASE),
        # Nothing is allowed: let GitHub say so in its own words.
        ((MERGE,), True, MERGE),
        ((), False, MERGE),
    ],
)
def test_merge_method_is_the_first_that_repository_and_rules_allow(
    allowed: tuple[MergeMethod, ...], linear: bool, method: MergeMethod
) -> None:
    """No merge commits where the history must be linear."""
    assert merge_method(pull(methods=allowed), rules(linear_history=linear)) is method


def test_entering_a_status_forgets_the_counters_of_the_one_before() -> None:
    """Bounds are per status; when the work began is remembered."""
    worn = entry(recheck=5, recheck_at=NOW, refusals=2, trouble=3, trouble_since=NOW, started_at=NOW - HOUR)
    fresh = enter(worn, UPDATING, NOW)
    assert (fresh.recheck, fresh.recheck_at, fresh.refusals, fresh.trouble, fresh.trouble_since) == (
        0,
        None,
        0,
        0,
        None,
    )
    assert (fresh.status, fresh.status_since, fresh.started_at) == (UPDATING, NOW, NOW - HOUR)
    assert enter(entry(), UPDATING, NOW).started_at == NOW


def test_update_forgets_what_was_known_of_the_head_before() -> None:
    """Nothing of one head's checks or candidates counts for the next."""
    stale = entry(
        status=CHECKING,
        known_behind=True,
        tested_tree="tree",
        awaited_checks=("ci",),
        reported_checks=("ci",),
        recheck=3,
    )
    action = decide(stale, seen(comparison=comparison(behind=1, base_tip="base-2")), POLICY, NOW)
    assert isinstance(action, Update)
    updating = action.entry
    assert (updating.tested_tree, updating.awaited_checks, updating.reported_checks) == (None, (), ())
    assert (updating.known_behind, updating.base_tip, updating.recheck) == (False, "base-2", 0)


def test_waiting_for_checks_names_the_required_ones_before_the_first_look() -> None:
    """So that their webhooks can be counted without a request."""
    bound = entry(status=CHECKING, recheck_at=NOW + HOUR)
    action = decide(bound, seen(rules=rules("unit", "build")), POLICY, NOW)
    assert isinstance(action, Wait)
    assert action.entry.awaited_checks == ("build", "unit")


def test_waiting_for_checks_hands_on_the_reports_under_way() -> None:
    """People are told what runs, and what it waits for."""
    running = report("ci", CheckState.PENDING)
    facts = seen(rules=rules("ci", "lint"), reports=(running,))
    action = decide(entry(status=CHECKING), facts, POLICY, NOW)
    assert isinstance(action, Wait)
    assert (action.pending, action.entry.awaited_checks) == ((running,), ("ci", "lint"))


@pytest.mark.parametrize("status", WAITING)
def test_merged_pull_request_is_ours_only_if_we_asked(status: EntryStatus) -> None:
    """Merged by a person: no landing of ours to confirm."""
    merged = seen(pull=pull(merged=True, open=False, merge_sha="landed-1"))
    assert decide(entry(status=status), merged, POLICY, NOW) == Leave(Reason.MERGED_ELSEWHERE)
    asked = entry(status=READY, merge_requested_at=NOW)
    assert decide(asked, merged, POLICY, NOW) == Confirm("landed-1")


@pytest.mark.parametrize(
    ("at", "head", "fact"),
    [
        # The head was compared, then a candidate came: nothing is known of the candidate.
        (entry(status=UPDATING, candidate_head="head-2"), "head-1", Fact.COMPARISON),
        # The candidate was bound, and the comparison is of the head before.
        (entry(status=READY, head="head-2"), "head-1", Fact.COMPARISON),
    ],
)
def test_comparison_of_another_head_is_not_believed(at: Entry, head: str, fact: Fact) -> None:
    """P1: what was compared is what is judged, even if the entry changed within the pass."""
    facts = seen(pull=pull(head_sha="head-2"), rules=rules(), comparison=comparison(head))
    assert decide(at, facts, POLICY, NOW) == Look(fact)


def test_merge_in_doubt_is_looked_into_before_any_wait() -> None:
    """P2: whether it happened is the first question, whatever else was planned."""
    in_doubt = entry(status=READY, merge_requested_at=NOW, recheck_at=NOW + HOUR)
    assert decide(in_doubt, seen(), POLICY, NOW) == Look(Fact.PULL)


def test_update_past_its_limit_is_looked_for_before_the_next_slow_look() -> None:
    """The limit is not put off by a wait that reaches beyond it."""
    late = entry(status=UPDATING, recheck=5, recheck_at=NOW + HOUR, status_since=NOW - POLICY.update_timeout)
    assert decide(late, seen(), POLICY, NOW) == Look(Fact.PULL)
