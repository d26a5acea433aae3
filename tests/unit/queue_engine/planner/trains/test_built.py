"""Which commits of ended runs a new run begins on."""

from dataclasses import replace

from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.run import CandidateTrigger, Run, RunMember, RunState
from queue_engine.planner.trains.built import BuiltHistory, begun_on, former_candidates, history_of, with_ended
from tests.unit.queue_engine.examples import NOW


def member(number: int) -> RunMember:
    return RunMember(number, f"entry-{number}", f"head-{number}")


def built(number: int) -> RunMember:
    return replace(member(number), commit=f"commit-{number}", tree=f"tree-{number}")


def a_run(*members: RunMember, tip: str = "tip") -> Run:
    """Return a run that merged these members, and published the last commit."""
    return Run(
        id=1,
        queue_id=1,
        base_branch="main",
        base_tip=tip,
        members=members,
        tested=frozenset(each.number for each in members),
        trigger=CandidateTrigger.PUSH,
        state=RunState.TESTING,
        started_at=NOW,
        candidate=members[-1].commit,
    )


def reused(members: tuple[RunMember, ...]) -> list[str | None]:
    assert all(each.reused == (each.commit is not None) for each in members)
    return [each.commit for each in members]


def after_failure(*numbers: int) -> tuple[BuiltHistory, ...]:
    """Return what is kept of a failed run of these members."""
    return with_ended((), a_run(*map(built, numbers)), "tip")


def begun(kept: tuple[BuiltHistory, ...], *members: RunMember, tip: str = "tip", after: int = 0) -> list[str | None]:
    """Return the commits that a new run of these members begins on; `after` was the last one of a former candidate."""
    return reused(begun_on(members, kept, tip, former_candidates(kept, [f"commit-{after}"])))


def test_part_of_a_failed_run_begins_on_its_commits() -> None:
    """As far as number, head and method agree."""
    kept = after_failure(1, 2, 3, 4)
    assert begun(kept, member(1), member(2), after=4) == ["commit-1", "commit-2"]
    assert begun(kept, member(1), member(3)) == ["commit-1", None]
    assert begun(kept, replace(member(1), head_sha="newer"), member(2)) == [None, None]
    assert begun(kept, member(1), replace(member(2), method=MergeMethod.SQUASH)) == ["commit-1", None]
    assert begun(kept, member(1), tip="newer tip") == [None]


def test_commit_that_was_a_candidate_is_none_again() -> None:
    """P1: checks of its former branch would count for the new one; below another candidate it does no harm."""
    kept = after_failure(1, 2, 3)
    assert begun(kept, member(1), member(2), member(3), after=3) == ["commit-1", "commit-2", None]
    assert begun(kept, member(1), member(2), member(3), member(4), after=3)[2:] == ["commit-3", None]
    longer = with_ended(with_ended(kept, a_run(built(1), built(2)), "tip"), a_run(*map(built, (1, 2, 3, 4))), "tip")
    assert begun(longer, member(1), member(2), after=2) == ["commit-1", None]


def test_members_behind_a_landed_part_begin_on_its_candidate() -> None:
    """The base is at the commit in the history by then."""
    kept = with_ended(after_failure(1, 2, 3, 4), a_run(built(1), built(2)), "commit-2")
    assert [each.base_tip for each in kept] == ["commit-2"]
    assert begun(kept, member(3), member(4), tip="commit-2", after=4) == ["commit-3", None]


def test_histories_of_another_base_and_parts_of_others_are_forgotten() -> None:
    """The memory of a queue stays small."""
    kept = with_ended(after_failure(1, 2, 3, 4), a_run(built(1), built(2), built(3)), "tip")
    assert [len(each.members) for each in kept] == [4]
    assert former_candidates(kept, ["commit-2", None, "commit-2", "commit-9"]) == ("commit-2",)
    assert with_ended(kept, a_run(built(9)), "pushed by hand") == ()


def test_history_ends_before_the_first_member_that_is_not_built() -> None:
    """A run that is being built serves others as well."""
    assert len(history_of(replace(a_run(built(1), member(2), built(3)), candidate=None)).members) == 1
