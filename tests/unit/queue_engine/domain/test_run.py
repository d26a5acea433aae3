"""Runs with a candidate of their own, as plain data."""

from datetime import UTC, datetime

from queue_engine.domain.port import BranchUpdate
from queue_engine.domain.run import CandidateTrigger, Run, RunMember, RunState


def test_candidate_run_names_its_members_in_order() -> None:
    """Members land in the order in which they were merged, whatever their numbers are (P3)."""
    members = tuple(RunMember(number, f"entry-{number}", f"{number:040}") for number in (9, 4, 7))
    run = Run(
        id=1,
        queue_id=1,
        base_branch="main",
        base_tip="b" * 40,
        members=members,
        tested=frozenset({7}),
        trigger=CandidateTrigger.PUSH,
        state=RunState.BUILDING,
        started_at=datetime(2026, 3, 14, tzinfo=UTC),
    )
    assert run.numbers == (9, 4, 7)


def test_branch_update_without_force_is_a_fast_forward() -> None:
    """No branch is moved to a commit that does not contain its tip, unless the caller says so (P1)."""
    assert not BranchUpdate("main", "b" * 40, "c" * 40).force
