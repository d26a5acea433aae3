"""What follows a merge that GitHub makes in the background."""

from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.domain.model import Entry
from queue_engine.domain.port import MergeState, PendingMerge
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Action, Dequeue, FactKind, Facts, Landing, Merge, ReadFact, Save, Wait
from queue_engine.planner.decide import decide, with_pending_merge
from tests.store.examples import changed
from tests.unit.queue_engine.examples import (
    HOUR,
    NOW,
    POLICY,
    READY,
    SECOND,
    comparison,
    entry,
    facts_with,
    pull,
    report,
    rules,
)

REQUESTED = entry(status=READY, merge_requested_at=NOW, candidate="head-1", tested_tree="tree", base_tip="base-1")
PENDING = PendingMerge(MergeState.PENDING, "Merge request is in progress.", "u-1")
FOLLOWED = with_pending_merge(REQUESTED, PENDING, NOW)
GREEN = facts_with(comparison=comparison(), rules=rules("ci"), reports=(report(),))


def next_action(pending: PendingMerge | None, after: timedelta = SECOND, at: Entry = FOLLOWED) -> Action:
    return decide(at, Facts(pending_merge=pending), POLICY, NOW + after)


def test_pending_merge_is_read_after_a_second_and_then_ever_later() -> None:
    """P7: no request before the stored instant; each wait is longer than the one before."""
    late = changed(REQUESTED, polls=9, next_poll_at=NOW + HOUR)
    assert with_pending_merge(late, PENDING, NOW) == FOLLOWED
    assert next_action(None, SECOND / 2) == Wait(FOLLOWED.run, NOW + SECOND)
    assert next_action(None) == ReadFact(FactKind.PENDING_MERGE)
    first = next_action(PENDING)
    assert isinstance(first, Wait)
    second = decide(replace(FOLLOWED, run=first.run), Facts(pending_merge=PENDING), POLICY, first.until)
    assert isinstance(second, Wait)
    assert second.until - first.until > first.until - (NOW + SECOND)
    assert second.run.merge_uuid == "u-1"


def test_merge_that_ended_lands_the_commit_that_github_names() -> None:
    """GitHub's result, and a read that shows the pull request merged, say the same."""
    assert next_action(PendingMerge(MergeState.MERGED, sha="landed")) == Landing("landed")
    merged = Facts(pull=pull(merged=True, open=False, merge_sha="landed"))
    assert decide(FOLLOWED, merged, POLICY, NOW) == Landing("landed")


@pytest.mark.parametrize("state", [MergeState.FAILED, MergeState.ENQUEUED])
def test_merge_that_failed_becomes_a_refusal(state: MergeState) -> None:
    """It is counted as other refusals, and no longer followed."""
    action = next_action(PendingMerge(state, "no"))
    assert isinstance(action, Save)
    assert (action.entry.run.merge_uuid, action.entry.run.merge_refusals) == (None, 1)


def test_withdrawn_consent_waits_for_the_end_of_a_pending_merge() -> None:
    """No call stops that merge: the next entry would be tested on a base that is about to move."""
    facts = Facts(pull=pull(labels=frozenset(), head_sha="head-2"), pending_merge=PENDING)
    assert isinstance(decide(FOLLOWED, facts, POLICY, NOW + SECOND), Wait)
    lost = changed(FOLLOWED, merge_uuid=None)
    assert decide(lost, facts, POLICY, NOW + SECOND) == Dequeue(Reason.LABEL_REMOVED)


def test_merge_that_stays_pending_ends_by_its_time_limit() -> None:
    """P5: GitHub says "up to a few minutes"."""
    assert isinstance(next_action(PENDING, HOUR - SECOND), Wait)
    action = next_action(PENDING, HOUR)
    assert isinstance(action, Dequeue)
    assert (action.reason, "may still do so" in (action.detail or "")) == (Reason.GITHUB_TROUBLE, True)


@pytest.mark.parametrize(("stack_base", "in_background"), [(None, False), ("main", True)])
def test_only_the_lowest_of_a_stack_is_merged_in_the_background(stack_base: str | None, in_background: bool) -> None:
    """A pull request outside of stacks is merged at once."""
    facts = replace(GREEN, pull=pull(stack_base=stack_base))
    action = decide(changed(REQUESTED, merge_requested_at=None), facts, POLICY, NOW)
    assert isinstance(action, Merge)
    assert action.in_background is in_background


@pytest.mark.parametrize("stack_base", ["trunk", ""])
def test_pull_request_above_another_in_its_stack_is_not_merged(stack_base: str) -> None:
    """P1: its merge lands what lies below it, too; an unknown base counts as another one."""
    facts = replace(GREEN, pull=pull(stack_base=stack_base))
    assert decide(changed(REQUESTED, merge_requested_at=None), facts, POLICY, NOW) == Dequeue(Reason.STACKED)
