"""Merges that outlive their entries, as pure functions."""

import pytest

from queue_engine.domain.port import MergeState, PendingMerge
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import CandidateTrigger, Run
from queue_engine.rules.departure_facts import is_requested_merge, may_merge_yet
from tests.unit.queue_engine.examples import entry, pull


@pytest.mark.parametrize(
    ("run", "reason", "may"),
    [
        (Run(merge_uuid="uuid"), Reason.GITHUB_TROUBLE, True),
        (Run(merge_uuid="uuid"), Reason.MERGED_ELSEWHERE, False),
        (Run(merge_uuid="uuid", trigger=CandidateTrigger.PUSH), Reason.GITHUB_TROUBLE, False),
        (Run(), Reason.GITHUB_TROUBLE, False),
    ],
)
def test_entry_that_leaves_may_be_merged_yet_while_github_has_a_request(run: Run, reason: Reason, may: bool) -> None:
    """P1: GitHub finishes a merge in the background without its entry."""
    assert may_merge_yet(entry(run=run), reason) is may


@pytest.mark.parametrize(
    ("merged_by", "state", "requested"),
    [
        ("imq[bot]", None, True),
        ("rhea", MergeState.MERGED, False),
        (None, MergeState.MERGED, True),
        (None, MergeState.PENDING, True),
        (None, MergeState.FAILED, False),
        (None, MergeState.ENQUEUED, False),
        (None, None, True),
    ],
)
def test_merge_is_the_requested_one_by_the_account_that_merged(
    merged_by: str | None, state: MergeState | None, requested: bool
) -> None:
    """P1: where GitHub names no account, the result of the request decides, and a forgotten one counts."""
    pending = None if state is None else PendingMerge(state)
    assert is_requested_merge(pull(merged_by=merged_by), "imq[bot]", pending) is requested
