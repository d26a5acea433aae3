"""Single decisions on a ready entry: what must hold when IMQ asks for the merge."""

from dataclasses import replace
from typing import Any

import pytest

from queue_engine.config.model import Policy, QueuePermissions
from queue_engine.domain.facts import (
    CheckState,
    MergeMethod,
    Permission,
    RequiredCheck,
    Review,
    ReviewOutcome,
    ReviewState,
    Snapshot,
)
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Action, Dequeue, FactKind, Merge, ReadFact, Save
from queue_engine.planner.decide import decide
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    NOW,
    POLICY,
    READY,
    comparison,
    entry,
    facts_with,
    pull,
    report,
    rules,
)
from tests.unit.queue_engine.planner.test_decide import GREEN, RED, RUNNING

LATE = report("late", CheckState.FAILED)


def test_ready_that_waited_is_merged_only_if_its_checks_pass_still() -> None:
    """P1: since it was found green a check may have failed or begun again; GitHub knows only what it requires itself.

    Nothing required: every report counts, and where none came it is the configuration that lands it all the same.
    """
    for required, reports, policy, merges in [
        (("ci",), (GREEN,), POLICY, True),
        (("ci",), (RED,), POLICY, False),
        (("ci",), (RUNNING,), POLICY, False),
        (("ci",), (), POLICY, False),
        (("ci",), (GREEN, LATE), POLICY, True),
        ((), (GREEN, LATE), POLICY, False),
        ((), (GREEN, LATE), replace(POLICY, checks=replace(POLICY.checks, ignored=("late",))), True),
        (
            ("ci",),
            (GREEN,),
            replace(POLICY, checks=replace(POLICY.checks, required=frozenset({RequiredCheck("late", None)}))),
            False,
        ),
        (
            ("ci",),
            (GREEN, LATE),
            replace(POLICY, checks=replace(POLICY.checks, required=frozenset({RequiredCheck("late", None)}))),
            False,
        ),
        ((), (), POLICY, False),
        ((), (), replace(POLICY, checks=replace(POLICY.checks, land_without=True)), True),
        (("ci",), (), replace(POLICY, checks=replace(POLICY.checks, land_without=True)), False),
        ((), (RUNNING,), replace(POLICY, checks=replace(POLICY.checks, land_without=True)), False),
    ]:
        facts = facts_with(pull=pull(), comparison=comparison(), rules=rules(*required))
        waited = entry(status=READY, status_since=NOW - HOUR, base_tip="base-0", newer_tip="base-1", next_poll_at=NOW)
        assert decide(waited, facts, policy, NOW) == ReadFact(FactKind.CHECKS), (required, reports, policy, merges)
        action = decide(waited, replace(facts, reports=reports), policy, NOW)
        if merges:
            assert isinstance(action, Merge), (required, reports, policy, merges)
            merging = action.entry
            assert (merging.run.base_tip, merging.run.tested_tree) == ("base-1", "tree-of-head-1"), (
                required,
                reports,
                policy,
                merges,
            )
            assert merging.newer_tip is None, (required, reports, policy, merges)
            assert (merging.run.merge_requested_at, merging.run.next_poll_at) == (NOW, None), (
                required,
                reports,
                policy,
                merges,
            )
        else:
            assert isinstance(action, Save), (required, reports, policy, merges)
            assert (action.entry.status, action.entry.status_since, action.entry.run.next_poll_at) == (
                CHECKING,
                NOW,
                NOW,
            ), (required, reports, policy, merges)


@pytest.mark.parametrize("permission", [Permission.NONE, Permission.READ, Permission.TRIAGE])
def test_entry_of_a_person_who_may_no_longer_queue_is_dequeued_instead_of_merged(permission: Permission) -> None:
    """P4: the permission is read again right before the merge."""
    facts = facts_with(
        pull=pull(), comparison=comparison(), rules=rules("ci"), reports=(report("ci"),), permission=None
    )
    at = entry(status=READY)
    assert decide(at, facts, POLICY, NOW) == ReadFact(FactKind.PERMISSION)
    assert decide(at, replace(facts, permission=permission), POLICY, NOW) == Dequeue(Reason.PERMISSION_LOST)
    named = Policy(who_may_queue=QueuePermissions(people=frozenset({at.queued_by.casefold()})))
    assert isinstance(decide(at, replace(facts, permission=permission), named, NOW), Merge)


MERGEABLE = facts_with(pull=pull(), comparison=comparison(), rules=rules("ci"), reports=(GREEN,))
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
    """P1, P4: a person on a bypass list does not get IMQ's right to skip a review."""
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
        ({"conversations": True}, {"open_conversations": ()}, Merge),
        ({"conversations": True}, {"open_conversations": ("T1",)}, Dequeue(Reason.CONVERSATIONS_UNRESOLVED)),
        ({"conversations": True}, {"open_conversations": None}, Merge),
        ({}, {"open_conversations": ("T1",)}, Merge),
    ],
)
def test_what_people_took_back_since_queueing_is_found_right_before_the_merge(
    demanded: dict[str, Any], snapshot: dict[str, Any], action: Action | type[Merge]
) -> None:
    """P4: the snapshot behind the merge shows reviews and conversations, and IMQ sends no further request.

    What the snapshot lacks, as by REST, GitHub judges at the merge. What no rule requires delays no merge.
    """
    fields: dict[str, Any] = {"pull": CLEAN, "permission": Permission.WRITE} | snapshot
    taken = Snapshot(**fields)
    decided = decide(
        entry(status=READY), replace(MERGEABLE, rules=rules("ci", **demanded), snapshot=taken), POLICY, NOW
    )
    assert isinstance(decided, Merge) if action is Merge else decided == action


def test_pull_request_read_by_itself_is_not_enough_to_merge() -> None:
    """The snapshot shows reviews, conversations and permission as well, for as many requests."""
    facts = facts_with(pull=pull(), rules=rules("ci"), reports=(GREEN,))
    assert decide(entry(status=READY), facts, POLICY, NOW) == ReadFact(FactKind.SNAPSHOT)


SQUASH_ONLY = pull(methods=(MergeMethod.SQUASH,))


@pytest.mark.parametrize(
    ("status", "facts"),
    [
        (READY, {"pull": SQUASH_ONLY, "rules": rules("ci", methods=frozenset({MergeMethod.REBASE}))}),
        (READY, {"rules": rules("ci", bypassed=("deployments",))}),
        (CHECKING, {"rules": rules("ci", RequiredCheck("merge", 99))}),
    ],
)
def test_entry_leaves_over_rules_only_after_they_were_read_again(status: EntryStatus, facts: dict[str, Any]) -> None:
    """Rules and merge methods are remembered for two hours: the maintainer may have changed them since."""
    at = replace(MERGEABLE, **facts)
    policy = replace(POLICY, own_app=99)
    assert decide(entry(status=status), at, policy, NOW) == ReadFact(FactKind.FRESH_RULES)
    assert isinstance(decide(entry(status=status), replace(at, rules_fresh=True), policy, NOW), Dequeue)


@pytest.mark.parametrize(
    ("required", "former", "merges"), [((), "10:lint", False), ((), "10:ci", True), (("ci",), "10:lint", True)]
)
def test_ready_whose_former_checks_are_gone_is_not_merged_where_nothing_is_required(
    required: tuple[str, ...], former: str, merges: bool
) -> None:
    """P1: what reported before IMQ's update has to report again; where checks are required, those alone count."""
    at = replace(MERGEABLE, rules=rules(*required))
    assert isinstance(decide(entry(status=READY, former_checks=(former,)), at, POLICY, NOW), Merge) is merges


def test_merge_keeps_the_tree_and_the_tip_that_were_tested() -> None:
    """P1: the landed tree is compared with this one, also where an update was proved when it was bound."""
    action = decide(entry(status=READY, tested_tree=None, base_tip="base-0"), MERGEABLE, POLICY, NOW)
    assert isinstance(action, Merge)
    assert (action.entry.run.tested_tree, action.entry.run.base_tip) == ("tree-of-head-1", "base-1")
