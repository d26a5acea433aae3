"""Which status, base and tested tree an entry has as a member of a run."""

from dataclasses import replace
from typing import Any

import pytest

from queue_engine.domain.model import Entry
from queue_engine.domain.run import CandidateTrigger, Run, RunMember, RunState
from queue_engine.executor.run_store import member_of
from tests.unit.queue_engine.examples import CHECKING, NOW, PENDING, READY, entry

OWN = entry()
FIRST = RunMember(9, "e9", "head-9", commit="c9", tree="t9")
MINE = RunMember(OWN.number, OWN.id, OWN.head_sha, commit="c1", tree="t1")


def run(*members: RunMember, **changes: Any) -> Run:
    """A run of these members on `base-1`, whose checks are under way."""
    made = Run(
        id=4,
        queue_id=1,
        base_branch="main",
        base_tip="base-1",
        members=members,
        tested=frozenset({OWN.number}),
        trigger=CandidateTrigger.PUSH,
        state=RunState.TESTING,
        started_at=NOW,
        candidate="c1",
        pending_checks=("ci",),
    )
    return replace(made, **changes)


def followed(member: Entry, *runs: Run) -> Entry:
    """The entry after all steps that its runs want."""
    for _ in range(5):
        member = member_of(member, runs, NOW) or member
    return member


def test_member_has_the_tree_of_the_candidate_after_it_and_the_commit_before_it_as_base() -> None:
    """P1: the tree that lands is compared with exactly this one."""
    found = followed(OWN, run(FIRST, MINE))
    assert (found.status, found.run.tested_tree, found.run.base_tip) == (CHECKING, "t1", "c9")
    assert (found.run.id, found.run.candidate, found.run.pending_checks) == (4, "c1", ("ci",))
    assert followed(OWN, run(replace(FIRST, landed_sha="landed-9"), MINE)).run.base_tip == "landed-9"
    assert followed(OWN, run(MINE)).run.base_tip == "base-1"


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (RunState.BUILDING, CHECKING),
        (RunState.TESTING, CHECKING),
        (RunState.PASSED, READY),
        (RunState.LANDING, READY),
    ],
)
def test_member_is_ready_only_once_its_run_passed(state: RunState, status: object) -> None:
    """The most advanced run counts: one that passed, before one that is tested."""
    assert followed(OWN, run(MINE, state=state)).status is status
    assert followed(OWN, run(MINE, id=5), run(MINE, state=state)).status is status


@pytest.mark.parametrize(
    "changes",
    [{"head_sha": "head-0"}, {"entry_id": "other"}, {"landed_sha": "landed"}],
    ids=["head", "entry", "landed"],
)
def test_run_with_another_head_or_another_entry_says_nothing_about_a_member(changes: dict[str, Any]) -> None:
    """P4: a candidate with a former head tested content that may not land any more."""
    passed = run(replace(MINE, **changes), state=RunState.PASSED)
    assert followed(OWN, passed) == OWN
    left = followed(followed(OWN, run(MINE)), passed)
    assert (left.status, left.run.tested_tree, left.run.id) == (PENDING, None, None)
