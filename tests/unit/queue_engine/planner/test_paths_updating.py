"""The ways of an entry while its branch is updated: refusals, and pushes that only look like ours."""

import pytest

from queue_engine.domain.facts import CheckState
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Dequeue, Wait
from tests.unit.queue_engine.examples import (
    CHECKING,
    NOW,
    POLICY,
    pull,
)
from tests.unit.queue_engine.planner.paths import BEHIND, Walk, behind, checking, landed, updating
from tests.unit.queue_engine.planner.scripted_github import GitHub, Refusal

PASSED = CheckState.PASSED


def test_walk_whose_update_was_refused_because_it_is_there_already_binds_it() -> None:
    """A lost answer: IMQ itself moved the head."""
    walk = behind(updates=[Refusal("expected head sha didn't match current head ref.")])
    walk.meanwhile["snapshot"] = lambda: walk.github.update("head-2")
    assert isinstance(walk.go(), Wait)
    assert (walk.entry.status, walk.entry.head_sha, walk.entry.head_proved) == (CHECKING, "head-2", True)
    assert walk.asked == ["snapshot", "update", "pull", "comparison", "rules", "checks", "workflow_runs"]


def test_walk_whose_update_was_refused_because_nothing_is_missing_is_checked() -> None:
    """The hint was wrong, the head contains the base: check it as it is."""
    walk = Walk(GitHub(updates=[Refusal("There are no new commits on the base branch.")]))
    walk.change_entry(newer_tip="base-0")
    walk.github.say(PASSED)
    assert landed(walk.go())
    assert walk.ways == ["updating", "checking", "ready"]
    assert walk.merged_heads == ["head-1"]


@pytest.mark.parametrize(
    ("words", "mergeable", "reason"),
    [
        ("merge conflict between base and head", None, Reason.CONFLICT),
        ("Validation failed", False, Reason.CONFLICT),
        ("Validation failed", True, Reason.UPDATE_REFUSED),
    ],
)
def test_walk_whose_update_was_refused_for_good_leaves(words: str, mergeable: bool | None, reason: Reason) -> None:
    """GitHub's state of the pull request distinguishes a conflict from another refusal."""
    walk = behind(pull=pull(mergeable=mergeable), updates=[Refusal(words)] * 4)
    action = walk.go()
    while isinstance(action, Wait):
        action = walk.wait()
    assert isinstance(action, Dequeue)
    assert action.reason is reason
    assert reason is Reason.CONFLICT or action.detail == words


@pytest.mark.parametrize(
    ("home", "reason"), [("acme/rocket", Reason.PERMISSION_MISSING), ("eve/rocket", Reason.UPDATE_REFUSED)]
)
def test_walk_whose_update_is_forbidden_names_whose_move_it_is(home: str, reason: Reason) -> None:
    """In a repository of ours the operator's; on somebody's fork its owner's."""
    walk = behind(pull=pull(head_repository=home), updates=[Refusal("Resource not accessible", forbidden=True)])
    assert walk.left() is reason


def test_walk_whose_update_never_appears_asks_again_and_gives_up_in_time() -> None:
    """The call is repeated with growing waits; the limit is kept."""
    walk = updating()
    while isinstance(walk.wait(), Wait):
        pass
    assert walk.left() is Reason.UPDATE_TIMED_OUT
    assert POLICY.timeouts.update <= walk.now - NOW <= 2 * POLICY.timeouts.update
    assert 3 <= walk.asked.count("update") <= 10


@pytest.mark.parametrize(
    ("parents", "merge_base"),
    [
        (("head-1", "evil"), "base-1"),
        (("evil", BEHIND), BEHIND),
        (("head-1",), "base-1"),
        ((BEHIND, "head-1"), BEHIND),
    ],
)
def test_walk_whose_head_is_pushed_while_updating_leaves(parents: tuple[str, ...], merge_base: str) -> None:
    """Not proved, not bound: by any pusher, before anything is checked."""
    walk = updating()
    walk.github.push("evil-2", parents=parents, merge_base=merge_base)
    walk.change_entry(new_head="evil-2", new_head_is_ours=False)
    assert walk.left() is Reason.HEAD_CHANGED
    assert walk.entry.head_sha == "head-1"


@pytest.mark.parametrize("base_moves", [True, False])
def test_walk_whose_update_only_resembled_ours_never_merges(base_moves: bool) -> None:
    """The sender proves nothing: IMQ reads the parents before the merge, or before the next update."""
    walk = updating()
    walk.github.push("evil", parents=("head-1", "evil-base"), merge_base="base-1")
    walk.change_entry(new_head="evil", new_head_is_ours=True)
    walk.go()
    assert (walk.entry.status, walk.entry.head_proved) == (CHECKING, False)
    walk.github.merge_base = walk.github.base_tip
    walk.reported()
    walk.change_entry(newer_tip="base-3" if base_moves else None)
    assert walk.left() is Reason.HEAD_CHANGED
    assert walk.merged_heads == []
    assert walk.asked.count("update") == 1


def test_walk_whose_second_update_is_proved_against_the_first() -> None:
    """Each update starts from the head that was bound, not from the one that was queued."""
    walk = checking()
    walk.github.move_base("base-3")
    walk.change_entry(newer_tip="base-3")
    walk.go()
    walk.github.push("evil", parents=("head-1", "base-3"), merge_base="base-3")
    walk.change_entry(new_head="evil", new_head_is_ours=False)
    assert walk.left() is Reason.HEAD_CHANGED
