"""Single decisions once IMQ asked for a merge: its answer, a refusal, and no answer."""

from dataclasses import replace
from typing import Any

import pytest

from queue_engine.domain.model import EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Dequeue, FactKind, Landing, ReadFact, Save, Wait
from queue_engine.planner.decide import decide
from tests.store.examples import changed
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    NOW,
    POLICY,
    READY,
    WAITING,
    comparison,
    entry,
    facts_with,
    pull,
    rules,
)
from tests.unit.queue_engine.planner.test_decide import RUNNING


@pytest.mark.parametrize("status", WAITING)
def test_merged_pull_request_is_ours_only_if_we_asked(status: EntryStatus) -> None:
    """Merged by a person: no landing of ours to confirm."""
    merged = facts_with(pull=pull(merged=True, open=False, merge_sha="landed-1"))
    assert decide(entry(status=status), merged, POLICY, NOW) == Dequeue(Reason.MERGED_ELSEWHERE)
    asked = entry(status=READY, merge_requested_at=NOW)
    assert decide(asked, merged, POLICY, NOW) == Landing("landed-1")


def test_merge_in_doubt_is_verified_before_anything_else() -> None:
    """P2: whether it happened is the first question; a webhook shortens the wait between two polls."""
    in_doubt = entry(status=READY, merge_requested_at=NOW)
    later = changed(in_doubt, next_poll_at=NOW + HOUR)
    assert decide(in_doubt, facts_with(), POLICY, NOW) == ReadFact(FactKind.SNAPSHOT)
    assert decide(later, facts_with(), POLICY, NOW) == Wait(later.run, NOW + HOUR)
    assert decide(replace(later, needs_refetch=True), facts_with(), POLICY, NOW) == ReadFact(FactKind.SNAPSHOT)


def test_merge_in_doubt_on_a_base_that_moved_is_verified_again_before_any_update() -> None:
    """P1: GitHub may show a merged pull request as open for a moment; only after some polls does IMQ believe it."""
    moved = facts_with(pull=pull(), comparison=comparison(behind=1))
    waiting = entry(status=READY, merge_requested_at=NOW)
    for polls in range(POLICY.lost_merge_polls):
        waited = decide(changed(waiting, polls=polls), moved, POLICY, NOW)
        assert isinstance(waited, Wait)
        assert waited.until > NOW
    believed = decide(changed(waiting, polls=POLICY.lost_merge_polls), moved, POLICY, NOW)
    assert believed == Save(changed(waiting, merge_requested_at=None, polls=0))


def test_merge_in_doubt_on_a_base_that_stands_did_not_happen() -> None:
    """A base that has not moved past the head holds no merge of it."""
    stands = facts_with(pull=pull(), comparison=comparison(behind=0))
    assert decide(entry(status=READY, merge_requested_at=NOW), stands, POLICY, NOW) == Save(entry(status=READY))


def test_merge_that_fails_for_too_long_leaves_once_it_is_known_not_to_have_happened() -> None:
    """P5: GitHub answers reads, but never merges."""
    facts = facts_with(pull=pull(), comparison=comparison(), rules=rules())
    worn = entry(status=READY, github_failures=9, github_failing_since=NOW - POLICY.outage_timeout)
    assert decide(worn, facts, POLICY, NOW) == Dequeue(Reason.GITHUB_TROUBLE)


def test_merge_refused_for_a_status_check_has_all_checks_read_again() -> None:
    """A check may be required since a moment ago, or run again; IMQ continues to count the refusals."""
    words = 'Required status check "ci/new" is expected.'
    refused = entry(status=READY, merge_refusals=1, merge_requested_at=NOW)
    action = decide(refused, facts_with(pull=pull(), merge_refused=words), POLICY, NOW)
    assert isinstance(action, Save)
    assert (action.entry.status, action.entry.run.merge_refusals, action.entry.run.merge_requested_at) == (
        CHECKING,
        1,
        None,
    )
    final = changed(refused, merge_refusals=POLICY.merge_refusals, refused_since=NOW - POLICY.refusal_timeout)
    failing = words.replace("expected", "failing")
    assert decide(final, facts_with(pull=pull(), merge_refused=failing), POLICY, NOW) == Dequeue(
        Reason.REFUSED_BY_RULES, detail=failing
    )


def test_refused_merge_of_what_is_no_longer_green_is_in_doubt_no_more() -> None:
    """GitHub has answered: a label taken off then is not answered with a merge under way."""
    refused = entry(status=READY, merge_requested_at=NOW, merge_refusals=1)
    words = "Base branch was modified. Review and try the merge again."
    facts = facts_with(pull=pull(), comparison=comparison(), rules=rules("ci"), reports=(RUNNING,), merge_refused=words)
    action = decide(refused, facts, POLICY, NOW)
    assert isinstance(action, Save)
    assert (action.entry.status, action.entry.run.merge_requested_at) == (CHECKING, None)


@pytest.mark.parametrize("changes", [{}, {"needs_refetch": True}, {"next_poll_at": NOW + HOUR}])
def test_merge_whose_answer_is_known_is_confirmed_without_another_poll(changes: dict[str, Any]) -> None:
    """P7: GitHub said which commit landed; reads may still show the pull request open."""
    asked_for = entry(status=READY, merge_requested_at=NOW, **changes)
    assert decide(asked_for, facts_with(landed_sha="landed"), POLICY, NOW) == Landing("landed")
    assert decide(asked_for, facts_with(landed_sha="landed", pull=pull()), POLICY, NOW) == Landing("landed")
