"""A member is verified as a pull request is before its merge, but for its checks."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from queue_engine.domain.facts import MergeMethod, Permission
from queue_engine.domain.model import Entry
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Dequeue, FactKind, Facts, ReadFact, Save
from queue_engine.planner.member_rules import judge_member
from tests.unit.queue_engine.examples import entry, pull, rules

NOW = datetime(2026, 3, 1, tzinfo=UTC)
WHOLE = Facts(pull=pull(), rules=rules("ci"), permission=Permission.WRITE)


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
    ],
)
def test_member_that_may_not_land_is_dequeued(facts: Facts, reason: Reason) -> None:
    """P4: consent, permission and rules hold for each member of a train, too."""
    verdict = judged(facts)
    assert isinstance(verdict, Dequeue)
    assert verdict.reason is reason


def test_conflict_with_the_base_does_not_count_once_the_candidate_was_tested() -> None:
    """GitHub computes it again after each landing, and IMQ built the candidate on this very base."""
    assert judged(replace(WHOLE, pull=pull(mergeable=False)), mergeable=False) is MergeMethod.MERGE


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
