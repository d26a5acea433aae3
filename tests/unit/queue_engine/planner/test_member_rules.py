"""A member is verified as a pull request is before its merge, but for its checks."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queue_engine.config.model import Policy, PushRules
from queue_engine.domain.consent import ConsentKind, HeadConsent
from queue_engine.domain.facts import HeadPush, MergeMethod, Permission, Snapshot
from queue_engine.domain.model import Entry, EntryStatus, UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import NOT_BEGUN, CandidateTrigger
from queue_engine.planner.actions import (
    Action,
    Dequeue,
    FactKind,
    Facts,
    HoldLanding,
    Landing,
    Merge,
    ReadFact,
    Save,
    Unmet,
    Wait,
)
from queue_engine.planner.decide import decide
from queue_engine.planner.member_rules import judge_member
from tests.unit.queue_engine.examples import comparison, entry, pull, rules

NOW = datetime(2026, 3, 1, tzinfo=UTC)
WHOLE = Facts(pull=pull(), rules=rules("ci"), permission=Permission.WRITE)
OPEN_CONVERSATION = replace(
    WHOLE, rules=rules("ci", conversations=True), snapshot=Snapshot(pull(), open_conversations=("T1",))
)


def judged(facts: Facts, member: Entry | None = None, *, mergeable: bool = True) -> object:
    """The verdict on a member."""
    return judge_member(member or entry(), facts, Policy(), NOW, mergeable=mergeable)


def test_member_that_may_land_has_a_method() -> None:
    """Nothing is missing but the checks, which run on the candidate."""
    assert judged(WHOLE) is MergeMethod.MERGE


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(WHOLE, pull=pull(open=False)), Reason.CLOSED),
        (replace(WHOLE, pull=pull(head_sha="other")), Reason.HEAD_CHANGED),
        (replace(WHOLE, pull=pull(mergeable=False)), Reason.CONFLICT),
        (replace(WHOLE, pull=pull(stack_base="below")), Reason.STACKED),
        (replace(WHOLE, permission=Permission.READ), Reason.PERMISSION_LOST),
        (replace(WHOLE, snapshot=Snapshot(pull(), ahead=0)), Reason.MERGED_ELSEWHERE),
        (replace(WHOLE, rules=rules("ci", bypassed=("main",)), rules_fresh=True), Reason.RULESET_BYPASSED),
        (OPEN_CONVERSATION, Reason.CONVERSATIONS_UNRESOLVED),
    ],
)
@pytest.mark.parametrize("mergeable", [True, False])
def test_member_that_may_not_land_is_dequeued(facts: Facts, reason: Reason, mergeable: bool) -> None:
    """P4: consent, permission and rules hold for each member of a train, too, and again before the candidate lands."""
    verdict = judged(facts, mergeable=mergeable)
    if reason is Reason.CONFLICT and not mergeable:
        assert verdict is MergeMethod.MERGE
        return
    assert isinstance(verdict, Dequeue)
    assert verdict.reason is reason


def test_proof_of_an_update_is_no_tested_tree_of_a_member() -> None:
    """P1: the tested tree of a member is that of the candidate."""
    member = entry(head_sha="head-2", head_proved=False, updated_from="head-1")
    facts = replace(WHOLE, pull=pull(head_sha="head-2"), comparison=comparison("head-2", parents=("head-1", "base-1")))
    assert judged(facts, member) == Save(replace(member, head_proved=True))


def test_member_whose_description_names_another_is_proved_and_does_not_land() -> None:
    """P3, P4: also if its train passed without the other one."""
    member = entry(head_sha="head-2", head_proved=False, updated_from="head-1")
    made = comparison("head-2", parents=("head-1", "base-1"))
    facts = replace(WHOLE, pull=pull(head_sha="head-2", body="Depends-On: #9"), comparison=made)
    proved = replace(member, head_proved=True)
    assert judged(facts, member) == Save(proved)
    assert judged(facts, proved) == Unmet(proved, (UnmetRequirement(Reason.DEPENDENCY_OPEN, "#9"),))


def test_missing_facts_are_read_one_by_one() -> None:
    """One snapshot has most of them."""
    assert judged(Facts()) == ReadFact(FactKind.SNAPSHOT)
    assert judged(replace(WHOLE, rules=None)) == ReadFact(FactKind.RULES)
    assert judged(replace(WHOLE, permission=None)) == ReadFact(FactKind.PERMISSION)
    assert judged(replace(WHOLE, pull=pull(methods=()))) == ReadFact(FactKind.FRESH_RULES)
    assert judged(WHOLE, entry(head_proved=False)) == ReadFact(FactKind.COMPARISON)


def test_doubted_member_is_believed_after_a_read() -> None:
    """A webhook said that consent may be lost, and GitHub shows that it is not."""
    assert judged(WHOLE, entry(needs_refetch=True)) == Save(entry())


def test_member_whose_own_bot_pushed_is_bound_to_the_new_head_and_tested_again() -> None:
    """Its pull request is not updated: the next run merges the new head."""
    member = entry(author="dependabot[bot]", status=EntryStatus.CHECKING)
    facts = replace(
        WHOLE,
        pull=pull(head_sha="new", author="dependabot[bot]"),
        head_pushes=(HeadPush(member.head_sha, "new", NOW, "dependabot[bot]"),),
        ledger=(HeadConsent(member.head_sha, "main", "octocat", NOW, ConsentKind.LABEL),),
    )
    policy = Policy(on_push=PushRules(requeue_for=frozenset({"dependabot[bot]"})))
    verdict = judge_member(member, facts, policy, NOW, mergeable=True)
    assert isinstance(verdict, Save)
    assert (verdict.entry.head_sha, verdict.entry.status) == ("new", EntryStatus.PENDING)


LANDING = entry(
    status=EntryStatus.READY,
    run=replace(NOT_BEGUN, trigger=CandidateTrigger.PUSH, base_tip="base-1", tested_tree="t1", candidate="c1"),
)
NEXT = replace(WHOLE, snapshot=Snapshot(pull(), base_tip="base-1"))
BRANCH_LOCKED = "Cannot update this protected ref."


def next_step(facts: Facts, **run: Any) -> Action:
    """The next action for a member whose train lands."""
    member = replace(LANDING, run=replace(LANDING.run, **run))
    return decide(member, facts, Policy(), NOW)


def test_member_is_merged_with_the_tree_of_its_candidate_and_a_request_of_its_own() -> None:
    """P1, P4: what is compared afterwards is the tested tree, on the commit that the base is at."""
    step = next_step(NEXT)
    assert isinstance(step, Merge)
    run = step.entry.run
    assert (step.method, run.merge_requested_at, run.base_tip, run.tested_tree) == (
        MergeMethod.MERGE,
        NOW,
        "base-1",
        "t1",
    )


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (Facts(), ReadFact(FactKind.SNAPSHOT)),
        (WHOLE, ReadFact(FactKind.COMPARISON)),
        (replace(NEXT, pull=pull(base_branch="release")), Dequeue(Reason.BASE_CHANGED)),
        (replace(NEXT, pull=pull(labels=frozenset())), Dequeue(Reason.LABEL_REMOVED)),
        (replace(NEXT, permission=Permission.READ), Dequeue(Reason.PERMISSION_LOST)),
        (
            replace(NEXT, snapshot=Snapshot(pull(), base_tip="pushed")),
            HoldLanding("somebody pushed to main", "pushed"),
        ),
    ],
    ids=["unread", "tip unread", "base", "label", "permission", "push to the base"],
)
def test_member_is_read_and_judged_again_right_before_its_merge(facts: Facts, expected: Action) -> None:
    """P4: nothing that was true when its train began to land is taken for true now."""
    assert next_step(facts) == expected


def test_member_whose_merge_got_no_answer_is_merged_again_only_on_a_base_that_did_not_move() -> None:
    """P2: the base may hold this very merge already, and a read of the pull request may be old."""
    unmoved, moved = comparison(behind=1, base_tip="base-1"), comparison(behind=1, base_tip="landed")
    again = next_step(replace(NEXT, comparison=unmoved), merge_requested_at=NOW)
    assert isinstance(again, Save)
    assert again.entry.run.merge_requested_at is None
    assert isinstance(next_step(replace(NEXT, comparison=moved), merge_requested_at=NOW), Wait)
    assert next_step(replace(NEXT, landed_sha="landed"), merge_requested_at=NOW) == Landing("landed")


@pytest.mark.parametrize(
    ("message", "since", "denied", "expected"),
    [
        ("At least 1 approving review is required", None, None, Dequeue),
        (BRANCH_LOCKED, None, None, HoldLanding),
        ("Words of a new rule", None, None, Wait),
        ("Words of a new rule", NOW - timedelta(hours=2), None, HoldLanding),
        ("Resource not accessible by integration", None, Reason.PERMISSION_MISSING, HoldLanding),
    ],
)
def test_member_leaves_only_for_what_its_own_pull_request_lacks(
    message: str, since: datetime | None, denied: Reason | None, expected: type[Action]
) -> None:
    """P5: any other obstacle would meet each member; the landing stops, after a while if GitHub does not name it."""
    facts = Facts(merge_refused=message, merge_denied=denied)
    assert isinstance(next_step(facts, merge_refusals=99, refused_since=since), expected)
