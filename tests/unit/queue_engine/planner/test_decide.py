"""Single decisions.

Covers `queue_engine/planner/actions.py`.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.facts import (
    CheckReport,
    CheckState,
    MergeMethod,
    Permission,
    RequiredCheck,
    Review,
    ReviewOutcome,
    ReviewState,
    Snapshot,
)
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Action, Dequeue, FactKind, Landing, Merge, ReadFact, Save, Update, Wait
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
    WAITING,
    comparison,
    entry,
    pull,
    report,
    rules,
    seen,
)


def test_entering_a_status_forgets_the_counters_of_the_one_before() -> None:
    """Bounds are per status; when the turn began is remembered, and merges refused are counted for the same head."""
    worn = entry(
        polls=5, next_poll_at=NOW, merge_refusals=2, github_failures=3, github_failing_since=NOW, started_at=NOW - HOUR
    )
    fresh = enter(worn, UPDATING, NOW)
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
    assert enter(entry(), UPDATING, NOW).run.started_at == NOW


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
    action = decide(stale, seen(comparison=comparison(behind=1, base_tip="base-2")), POLICY, NOW)
    assert isinstance(action, Update)
    updating = action.entry
    assert (updating.run.tested_tree, updating.run.pending_checks, updating.run.completed_checks) == (None, (), ())
    assert (updating.newer_tip, updating.run.base_tip, updating.run.polls) == (None, "base-2", 0)


def test_pending_head_that_the_comparison_finds_behind_is_updated() -> None:
    """Where the query does not tell how far it is behind, as without GraphQL, the comparison does."""
    untold = Snapshot(pull(), base_tip=None, behind=None)
    facts = seen(pull=pull(), snapshot=untold, comparison=comparison(behind=2, base_tip="base-2"))
    action = decide(entry(), facts, POLICY, NOW)
    assert isinstance(action, Update)
    assert (action.entry.status, action.entry.run.base_tip) == (UPDATING, "base-2")


@pytest.mark.parametrize(("later", "action"), [(-SECOND, None), (SECOND, Dequeue(Reason.HEAD_CHANGED))])
def test_new_head_of_a_fork_waits_for_the_webhook_that_names_who_pushed(
    later: timedelta, action: Dequeue | None
) -> None:
    """P4: without that it is a stranger's, whatever its parents; but not before the webhook had its time."""
    waiting = entry(status=UPDATING, new_head="head-2", next_poll_at=NOW)
    fork = pull(head_sha="head-2", head_repository="ada/fork")
    compared = comparison("head-2", parents=("head-1", "base-1"))
    expected = action or Wait(waiting, NOW)
    assert decide(waiting, seen(pull=fork, comparison=compared), POLICY, NOW + later) == expected


def test_unproved_head_that_is_behind_is_proved_before_it_is_updated() -> None:
    """P4: an update of a crafted head would hide what that came from."""
    unproved = entry(status=READY, head="head-2", head_proved=False, updated_from="head-1")
    at_head = pull(head_sha="head-2")
    behind = Snapshot(at_head, base_tip="base-2", behind=1)
    facts = seen(pull=at_head, snapshot=behind)
    assert decide(unproved, facts, POLICY, NOW) == ReadFact(FactKind.COMPARISON)
    proved = decide(replace(unproved, head_proved=True), facts, POLICY, NOW)
    assert isinstance(proved, Update)
    crafted = replace(facts, comparison=comparison("head-2", behind=1, parents=("evil", "base-1")))
    assert decide(unproved, crafted, POLICY, NOW) == Dequeue(Reason.HEAD_CHANGED)


def test_waiting_for_checks_names_the_required_ones_before_the_first_look() -> None:
    """So that their webhooks can be counted without a request."""
    bound = entry(status=CHECKING, next_poll_at=NOW + HOUR)
    action = decide(bound, seen(rules=rules("unit", "build")), POLICY, NOW)
    assert isinstance(action, Wait)
    assert action.entry.run.pending_checks == ("build", "unit")


def test_waiting_for_checks_hands_on_the_reports_under_way() -> None:
    """People are told what runs, and what it waits for."""
    running = report("ci", CheckState.PENDING)
    facts = seen(rules=rules("ci", "lint"), reports=(running,), workflow_runs=())
    action = decide(entry(status=CHECKING), facts, POLICY, NOW)
    assert isinstance(action, Wait)
    assert (action.pending, action.entry.run.pending_checks) == ((running,), ("ci", "lint"))


@pytest.mark.parametrize("status", WAITING)
def test_merged_pull_request_is_ours_only_if_we_asked(status: EntryStatus) -> None:
    """Merged by a person: no landing of ours to confirm."""
    merged = seen(pull=pull(merged=True, open=False, merge_sha="landed-1"))
    assert decide(entry(status=status), merged, POLICY, NOW) == Dequeue(Reason.MERGED_ELSEWHERE)
    asked = entry(status=READY, merge_requested_at=NOW)
    assert decide(asked, merged, POLICY, NOW) == Landing("landed-1")


@pytest.mark.parametrize(
    ("at", "head", "fact"),
    [
        # The head was compared, then a candidate came: nothing is known of the candidate.
        (entry(status=UPDATING, new_head="head-2"), "head-1", FactKind.COMPARISON),
        # The candidate was bound, and the comparison is of the head before.
        (entry(status=READY, head="head-2"), "head-1", FactKind.SNAPSHOT),
    ],
)
def test_comparison_of_another_head_is_not_believed(at: Entry, head: str, fact: FactKind) -> None:
    """P1: what was compared is what is judged, even if the entry changed within the pass."""
    facts = seen(pull=pull(head_sha="head-2"), rules=rules(), comparison=comparison(head))
    assert decide(at, facts, POLICY, NOW) == ReadFact(fact)


def test_merge_in_doubt_is_looked_into_before_anything_else() -> None:
    """P2: whether it happened is the first question; a hint cuts the wait between two looks short."""
    in_doubt = entry(status=READY, merge_requested_at=NOW)
    later = changed(in_doubt, next_poll_at=NOW + HOUR)
    assert decide(in_doubt, seen(), POLICY, NOW) == ReadFact(FactKind.SNAPSHOT)
    assert decide(later, seen(), POLICY, NOW) == Wait(later, NOW + HOUR)
    assert decide(replace(later, needs_refetch=True), seen(), POLICY, NOW) == ReadFact(FactKind.SNAPSHOT)


def test_merge_in_doubt_on_a_base_that_moved_is_looked_for_again_before_any_update() -> None:
    """P1: GitHub may show a merged pull request as open for a moment; only after some looks is it believed."""
    moved = seen(pull=pull(), comparison=comparison(behind=1))
    waiting = entry(status=READY, merge_requested_at=NOW)
    for looks in range(POLICY.doubt_looks):
        waited = decide(changed(waiting, polls=looks), moved, POLICY, NOW)
        assert isinstance(waited, Wait)
        assert waited.until > NOW
    believed = decide(changed(waiting, polls=POLICY.doubt_looks), moved, POLICY, NOW)
    assert believed == Save(changed(waiting, merge_requested_at=None, polls=0))


def test_merge_in_doubt_on_a_base_that_stands_did_not_happen() -> None:
    """A base that has not moved past the head holds no merge of it."""
    stands = seen(pull=pull(), comparison=comparison(behind=0))
    assert decide(entry(status=READY, merge_requested_at=NOW), stands, POLICY, NOW) == Save(entry(status=READY))


def test_front_whose_base_never_stands_still_leaves_in_the_end() -> None:
    """P5: starting over has a limit; before it, the move is followed."""
    moved = seen(pull=pull(), comparison=comparison(behind=1))
    began = entry(status=READY, started_at=NOW - POLICY.turn_timeout + HOUR)
    assert isinstance(decide(began, moved, POLICY, NOW), Update)
    assert decide(changed(began, started_at=NOW - POLICY.turn_timeout), moved, POLICY, NOW) == Dequeue(
        Reason.BASE_KEEPS_MOVING
    )


def test_merge_that_fails_for_too_long_leaves_once_it_is_known_not_to_have_happened() -> None:
    """P5: GitHub answers reads, but never merges."""
    facts = seen(pull=pull(), comparison=comparison(), rules=rules())
    worn = entry(status=READY, github_failures=9, github_failing_since=NOW - POLICY.trouble_timeout)
    assert decide(worn, facts, POLICY, NOW) == Dequeue(Reason.GITHUB_TROUBLE)


def test_merge_refused_for_a_status_check_has_all_checks_looked_at_again() -> None:
    """A check may be required since a moment ago, or run once more; the refusals go on being counted."""
    words = 'Required status check "ci/new" is expected.'
    refused = entry(status=READY, merge_refusals=1, merge_requested_at=NOW)
    action = decide(refused, seen(pull=pull(), merge_refused=words), POLICY, NOW)
    assert isinstance(action, Save)
    assert (action.entry.status, action.entry.run.merge_refusals, action.entry.run.merge_requested_at) == (
        CHECKING,
        1,
        None,
    )
    final = changed(refused, merge_refusals=POLICY.merge_refusals, refused_since=NOW - POLICY.refusal_timeout)
    failing = words.replace("expected", "failing")
    assert decide(final, seen(pull=pull(), merge_refused=failing), POLICY, NOW) == Dequeue(
        Reason.REFUSED_BY_RULES, detail=failing
    )


GREEN, RUNNING, RED = (report("ci", state) for state in (CheckState.PASSED, CheckState.PENDING, CheckState.FAILED))
LATE = report("late", CheckState.FAILED)


@pytest.mark.parametrize(
    ("required", "reports", "policy", "merges"),
    [
        (("ci",), (GREEN,), POLICY, True),
        (("ci",), (RED,), POLICY, False),
        (("ci",), (RUNNING,), POLICY, False),
        (("ci",), (), POLICY, False),
        (("ci",), (GREEN, LATE), POLICY, True),
        ((), (GREEN, LATE), POLICY, False),
        ((), (GREEN, LATE), replace(POLICY, ignored_checks=("late",)), True),
        (("ci",), (GREEN,), replace(POLICY, required_checks=frozenset({RequiredCheck("late", None)})), False),
        (("ci",), (GREEN, LATE), replace(POLICY, required_checks=frozenset({RequiredCheck("late", None)})), False),
        ((), (), POLICY, False),
        ((), (), replace(POLICY, land_without_checks=True), True),
        (("ci",), (), replace(POLICY, land_without_checks=True), False),
        ((), (RUNNING,), replace(POLICY, land_without_checks=True), False),
    ],
)
def test_ready_that_waited_is_merged_only_if_its_checks_pass_still(
    required: tuple[str, ...], reports: tuple[CheckReport, ...], policy: Policy, merges: bool
) -> None:
    """P1: since it was found green a check may have failed or begun again; GitHub knows only what it requires itself.

    Nothing required: every report counts, and where none came it is the configuration that lands it all the same.
    """
    facts = seen(pull=pull(), comparison=comparison(), rules=rules(*required))
    waited = entry(status=READY, status_since=NOW - HOUR, base_tip="base-0", newer_tip="base-1", next_poll_at=NOW)
    assert decide(waited, facts, policy, NOW) == ReadFact(FactKind.CHECKS)
    action = decide(waited, replace(facts, reports=reports), policy, NOW)
    if merges:
        assert isinstance(action, Merge)
        merging = action.entry
        assert (merging.run.base_tip, merging.run.tested_tree) == ("base-1", "tree-of-head-1")
        assert merging.newer_tip is None
        assert (merging.run.merge_requested_at, merging.run.next_poll_at) == (NOW, None)
    else:
        assert isinstance(action, Save)
        assert (action.entry.status, action.entry.status_since, action.entry.run.next_poll_at) == (CHECKING, NOW, NOW)


def test_refused_merge_of_what_is_no_longer_green_is_in_doubt_no_more() -> None:
    """GitHub has answered: a label taken off then is not answered with a merge under way."""
    refused = entry(status=READY, merge_requested_at=NOW, merge_refusals=1)
    words = "Base branch was modified. Review and try the merge again."
    facts = seen(pull=pull(), comparison=comparison(), rules=rules("ci"), reports=(RUNNING,), merge_refused=words)
    action = decide(refused, facts, POLICY, NOW)
    assert isinstance(action, Save)
    assert (action.entry.status, action.entry.run.merge_requested_at) == (CHECKING, None)


def test_update_past_its_limit_is_looked_for_before_the_next_slow_look() -> None:
    """The limit is not put off by a wait that reaches beyond it."""
    late = entry(status=UPDATING, polls=5, next_poll_at=NOW + HOUR, status_since=NOW - POLICY.update_timeout)
    assert decide(late, seen(), POLICY, NOW) == ReadFact(FactKind.PULL)


@pytest.mark.parametrize("permission", [Permission.NONE, Permission.READ, Permission.TRIAGE])
def test_entry_of_a_person_who_may_no_longer_queue_is_dequeued_instead_of_merged(permission: Permission) -> None:
    """P4: the permission is read again right before the merge."""
    facts = seen(pull=pull(), comparison=comparison(), rules=rules("ci"), reports=(report("ci"),), permission=None)
    at = entry(status=READY)
    assert decide(at, facts, POLICY, NOW) == ReadFact(FactKind.PERMISSION)
    assert decide(at, replace(facts, permission=permission), POLICY, NOW) == Dequeue(Reason.PERMISSION_LOST)
    named = Policy(may_queue_too=frozenset({at.queued_by.casefold()}))
    assert isinstance(decide(at, replace(facts, permission=permission), named, NOW), Merge)


@pytest.mark.parametrize("status", [CHECKING, READY, EntryStatus.PENDING])
def test_proof_of_an_update_keeps_the_tree_that_is_tested(status: EntryStatus) -> None:
    """P1: what lands is compared with it, also when the rest of the pass never comes."""
    own = comparison("head-2", parents=("head-1", "base-1"))
    unproved = entry(status=status, head="head-2", updated_from="head-1", head_proved=False, newer_tip="base-2")
    facts = seen(pull=pull(head_sha="head-2"), comparison=own)
    proved = changed(unproved, head_proved=True, tested_tree="tree-of-head-2")
    assert decide(unproved, facts, POLICY, NOW) == Save(proved)


def test_base_that_was_said_to_move_and_did_not_is_remembered_as_it_is() -> None:
    """The checks go on, and the tip that they ran on is the one that the comparison found."""
    told = entry(status=CHECKING, newer_tip="base-1", base_tip="base-0")
    action = decide(told, seen(comparison=comparison()), POLICY, NOW)
    assert action == Save(changed(told, newer_tip=None, base_tip="base-1"))


MERGEABLE = seen(pull=pull(), comparison=comparison(), rules=rules("ci"), reports=(GREEN,))
APPROVED = Review("max", ReviewState.APPROVED, True)
AGAINST = Review("eve", ReviewState.CHANGES_REQUESTED, True)
DECIDED = Snapshot(pull(), Permission.WRITE, decision=ReviewOutcome.APPROVED)
UNDECIDED = Snapshot(pull(), Permission.WRITE)


@pytest.mark.parametrize(
    ("bypassed", "facts", "action"),
    [
        ({"bypassed": ("rule one", "rule two")}, {}, ReadFact(FactKind.FRESH_RULES)),
        (
            {"bypassed": ("rule one", "rule two")},
            {"rules_fresh": True},
            Dequeue(Reason.RULESET_BYPASSED, detail="rule one; rule two"),
        ),
        ({"approvals": 1}, {}, Merge),
        ({"approvals": 1, "approvals_bypassed": True}, {}, ReadFact(FactKind.REVIEWS)),
        ({"approvals": 1, "approvals_bypassed": True}, {"reviews": (APPROVED,)}, Merge),
        (
            {"approvals": 1, "approvals_bypassed": True},
            {"reviews": ()},
            Dequeue(Reason.APPROVAL_MISSING, detail="0 of 1"),
        ),
        (
            {"approvals": 1, "approvals_bypassed": True},
            {"reviews": (APPROVED, AGAINST), "snapshot": UNDECIDED},
            Dequeue(Reason.CHANGES_REQUESTED, detail="eve"),
        ),
        # GitHub's word may be that of a weaker classic protection beside the ruleset.
        (
            {"approvals": 2, "approvals_bypassed": True},
            {"reviews": (APPROVED,), "snapshot": DECIDED},
            Dequeue(Reason.APPROVAL_MISSING, detail="1 of 2"),
        ),
        ({"approvals": 1, "approvals_bypassed": True}, {"reviews": (APPROVED,), "snapshot": DECIDED}, Merge),
    ],
)
def test_rules_that_github_does_not_hold_imq_to_are_held_by_imq(
    bypassed: dict[str, Any], facts: dict[str, Any], action: Action | type[Merge]
) -> None:
    """P1, P4: being on a bypass list lends nobody IMQ's right to skip a review."""
    at = replace(MERGEABLE, rules=rules("ci", **bypassed), **facts)
    decided = decide(entry(status=READY), at, POLICY, NOW)
    assert isinstance(decided, Merge) if action is Merge else decided == action


CLEAN, BLOCKED = pull(merge_state="clean"), pull(merge_state="blocked")


@pytest.mark.parametrize(
    ("demanded", "snapshot", "action"),
    [
        ({"approvals": 1}, {"decision": ReviewOutcome.APPROVED, "reviews": (APPROVED,)}, Merge),
        (
            {"approvals": 1},
            {"decision": ReviewOutcome.REVIEW_REQUIRED, "reviews": ()},
            Dequeue(Reason.APPROVAL_MISSING, detail="0 of 1"),
        ),
        (
            {"approvals": 1},
            {"decision": ReviewOutcome.CHANGES_REQUESTED, "reviews": (APPROVED, AGAINST)},
            Dequeue(Reason.CHANGES_REQUESTED, detail="eve"),
        ),
        ({"approvals": 1}, {"pull": BLOCKED, "reviews": ()}, Dequeue(Reason.APPROVAL_MISSING, detail="0 of 1")),
        ({"approvals": 1}, {"pull": BLOCKED}, Merge),
        ({}, {"decision": ReviewOutcome.CHANGES_REQUESTED, "reviews": (AGAINST,)}, Merge),
        ({"conversations": True}, {"resolved": True}, Merge),
        ({"conversations": True}, {"resolved": False}, Dequeue(Reason.CONVERSATIONS_UNRESOLVED)),
        ({"conversations": True}, {"resolved": None}, Merge),
        ({}, {"resolved": False}, Merge),
    ],
)
def test_what_people_took_back_since_queueing_is_seen_right_before_the_merge(
    demanded: dict[str, Any], snapshot: dict[str, Any], action: Action | type[Merge]
) -> None:
    """P4: the snapshot that the merge rests on tells of reviews and conversations, and no further request is sent.

    What it does not tell, as by REST, GitHub judges at the merge. What no rule demands holds nobody up.
    """
    told: dict[str, Any] = {"pull": CLEAN, "permission": Permission.WRITE} | snapshot
    taken = Snapshot(**told)
    decided = decide(
        entry(status=READY), replace(MERGEABLE, rules=rules("ci", **demanded), snapshot=taken), POLICY, NOW
    )
    assert isinstance(decided, Merge) if action is Merge else decided == action


def test_pull_request_read_by_itself_does_not_tell_enough_to_merge() -> None:
    """The snapshot tells of reviews, conversations and permission as well, for as many requests."""
    facts = seen(pull=pull(), rules=rules("ci"), reports=(GREEN,))
    assert decide(entry(status=READY), facts, POLICY, NOW) == ReadFact(FactKind.SNAPSHOT)


SQUASH_ONLY = pull(methods=(MergeMethod.SQUASH,))


@pytest.mark.parametrize(
    ("status", "facts"),
    [
        (READY, {"pull": SQUASH_ONLY, "rules": rules("ci", methods=frozenset({MergeMethod.REBASE}))}),
        (READY, {"rules": rules("ci", bypassed=("deployments",))}),
        (CHECKING, {"rules": rules("ci", "IMQ")}),
    ],
)
def test_entry_leaves_over_rules_only_after_they_were_read_again(status: EntryStatus, facts: dict[str, Any]) -> None:
    """Rules and merge methods are remembered for two hours: the maintainer may have changed them since."""
    at = replace(MERGEABLE, **facts)
    assert decide(entry(status=status), at, POLICY, NOW) == ReadFact(FactKind.FRESH_RULES)
    assert isinstance(decide(entry(status=status), replace(at, rules_fresh=True), POLICY, NOW), Dequeue)


@pytest.mark.parametrize(
    ("required", "former", "merges"), [((), "10:lint", False), ((), "10:ci", True), (("ci",), "10:lint", True)]
)
def test_ready_whose_former_checks_are_gone_is_not_merged_where_nothing_is_required(
    required: tuple[str, ...], former: str, merges: bool
) -> None:
    """P1: what reported before IMQ's update has to report again; where checks are required, those alone count."""
    at = replace(MERGEABLE, rules=rules(*required))
    assert isinstance(decide(entry(status=READY, former_checks=(former,)), at, POLICY, NOW), Merge) is merges


def test_landing_without_checks_begins_ready_when_its_short_time_is_over() -> None:
    """What nobody checks waits for the first report as long as the policy says, and no longer."""
    policy = replace(POLICY, land_without_checks=True)
    checking = entry(status=CHECKING, status_since=NOW - policy.first_report)
    action = decide(checking, seen(rules=rules(), reports=(), workflow_runs=()), policy, NOW)
    assert isinstance(action, Save)
    assert (action.entry.status, action.entry.status_since) == (READY, NOW)


@pytest.mark.parametrize("changes", [{}, {"needs_refetch": True}, {"next_poll_at": NOW + HOUR}])
def test_merge_whose_answer_is_known_is_confirmed_without_another_look(changes: dict[str, Any]) -> None:
    """P7: GitHub said which commit landed; reads may still show the pull request open."""
    asked_for = entry(status=READY, merge_requested_at=NOW, **changes)
    assert decide(asked_for, seen(landed_sha="landed"), POLICY, NOW) == Landing("landed")
    assert decide(asked_for, seen(landed_sha="landed", pull=pull()), POLICY, NOW) == Landing("landed")


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
    decided = decide(at, seen(pull=found, comparison=crafted), POLICY, NOW)
    assert isinstance(decided, action)
    assert not isinstance(decided, Dequeue) or decided.reason is Reason.HEAD_CHANGED


def test_merge_keeps_the_tree_and_the_tip_that_were_tested() -> None:
    """P1: the landed tree is compared with this one, also where an update was proved when it was bound."""
    action = decide(entry(status=READY, tested_tree=None, base_tip="base-0"), MERGEABLE, POLICY, NOW)
    assert isinstance(action, Merge)
    assert (action.entry.run.tested_tree, action.entry.run.base_tip) == ("tree-of-head-1", "base-1")
