"""The ways of an entry whose merge is refused or in doubt."""

from dataclasses import replace

import pytest

from queue_engine.domain.facts import CheckState, MergeMethod
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Dequeue, Wait
from tests.unit.queue_engine.examples import (
    NOW,
    POLICY,
    SECOND,
    UPDATING,
    pull,
)
from tests.unit.queue_engine.planner.paths import landed, ready
from tests.unit.queue_engine.planner.scripted_github import Refusal


@pytest.mark.parametrize(
    "words",
    [
        "Pull Request is not mergeable",
        "Base branch was modified. Review and try the merge again.",
        "Head branch is out of date. Review and try the merge again.",
        "Head moved",
    ],
)
def test_walk_whose_merge_is_refused_in_passing_tries_again(words: str) -> None:
    """405 and 409 come for a moment too: IMQ reads, then tries again."""
    walk = ready(Refusal(words))
    action = walk.go()
    if isinstance(action, Wait):
        assert action.until <= NOW + 10 * SECOND
        action = walk.wait()
    assert landed(action)
    assert walk.asked.count("merge") == 2


@pytest.mark.parametrize("words", ["Base branch was modified.", "Head branch is out of date."])
def test_walk_whose_merge_is_refused_because_the_base_moved_is_updated_at_once(words: str) -> None:
    """The refusal and the move are the same event."""
    walk = ready(Refusal(f"{words} Review and try the merge again."))
    walk.meanwhile["snapshot"] = lambda: walk.github.move_base("base-2")
    walk.go()
    # The comparison was read before the move; GitHub's refusal protects the base, the next comparison shows why.
    assert (walk.entry.status, walk.now) == (UPDATING, NOW)
    assert walk.entry.run.merge_refusals == 0


@pytest.mark.parametrize("words", ["Required review missing", "Base branch was modified"])
def test_walk_whose_merge_is_refused_lastingly_leaves_after_ten_minutes(words: str) -> None:
    """A rule that does not pass holds up no other entry (P5)."""
    walk = ready(*[Refusal(words)] * 99)
    action = walk.go()
    while isinstance(action, Wait):
        action = walk.wait()
    assert action == Dequeue(Reason.REFUSED_BY_RULES, detail=words)
    assert walk.now - NOW == POLICY.refusal_timeout
    assert walk.asked.count("merge") <= 12


def test_walk_woken_between_refusals_does_not_try_sooner() -> None:
    """Hints do not shorten the wait before the next merge call."""
    walk = ready(Refusal("Pull Request is not mergeable"))
    walk.go()
    assert isinstance(walk.go_at(NOW + SECOND), Wait)
    assert walk.asked.count("merge") == 1


def test_walk_whose_merge_is_refused_for_a_conflict_leaves() -> None:
    """The refusal is explained by the pull request."""
    walk = ready(Refusal("Pull Request is not mergeable"))
    walk.github.pull = pull(mergeable=False)
    assert walk.left() is Reason.CONFLICT


@pytest.mark.parametrize("reason", [Reason.REFUSED_BY_RULES, Reason.PERMISSION_MISSING])
def test_walk_whose_merge_is_denied_leaves_with_githubs_words(reason: Reason) -> None:
    """422 and 403 are final; the pull request is read once all the same."""
    walk = ready(Refusal("Resource not accessible by integration", final=reason))
    assert walk.go() == Dequeue(reason, detail="Resource not accessible by integration")
    assert walk.asked[-2:] == ["merge", "snapshot"]


def test_walk_whose_head_moved_at_the_merge_leaves() -> None:
    """409: somebody pushed between the read and the call; the precondition held."""
    walk = ready(Refusal("Head branch was modified"))
    walk.meanwhile["snapshot"] = lambda: walk.github.push("evil", parents=("head-1",), merge_base="base-1")
    assert walk.left() is Reason.HEAD_CHANGED
    assert walk.merged_heads == ["head-1"]


def test_walk_whose_check_fails_while_its_merge_has_no_answer_is_not_merged() -> None:
    """P1: GitHub would merge it, where the check is required by configuration only, or by nothing."""
    walk = ready(Refusal(lost=True))
    walk.go()
    walk.github.say(CheckState.FAILED)
    assert walk.go_at(NOW + SECOND) == Dequeue(
        Reason.CHECKS_FAILED, checks=tuple(walk.github.reports[walk.entry.head_sha])
    )
    assert walk.ways == ["checking", "ready", "checking"]
    assert walk.asked.count("merge") == 1


def test_walk_whose_merge_happened_is_merged_whatever_happened_since() -> None:
    """Merged is final: the label may be gone, the branch deleted, the head pushed to."""
    walk = ready(Refusal(lost=True, happened=True))
    walk.go()
    walk.github.pull = replace(
        walk.github.pull, labels=frozenset(), head_repository=None, head_sha="later", base_branch="gone"
    )
    assert landed(walk.go())


SETTINGS = ["Merge commits are not allowed on this repository.", "Squash merges are not allowed on this repository."]
LINEAR = "This branch must not contain merge commits."
MODIFIED = Refusal("Base branch was modified. Review and try the merge again.")


def test_walk_whose_every_method_is_refused_leaves_and_names_that() -> None:
    """P5: three calls, then a maintainer reads that no method is left."""
    walk = ready(*map(Refusal, SETTINGS), Refusal("Rebase merges are not allowed on this repository."), *[MODIFIED] * 9)
    assert walk.go() == Dequeue(Reason.METHOD_NOT_ALLOWED, detail=None)
    assert walk.asked.count("merge") == 3


def test_walk_whose_configured_method_is_refused_lands_by_no_other() -> None:
    """Who configured a method wants no other one."""
    walk = ready(Refusal(SETTINGS[0]))
    walk.policy = replace(walk.policy, merge=replace(walk.policy.merge, method=MergeMethod.MERGE))
    assert walk.go() == Dequeue(Reason.METHOD_NOT_ALLOWED, detail="merge")


def test_walk_whose_only_method_makes_merge_commits_names_the_linear_history() -> None:
    """The repository allows no other one, and a maintainer reads which rule is in the way."""
    walk = ready(Refusal(LINEAR))
    walk.github.pull = pull(methods=(MergeMethod.MERGE,))
    assert walk.left() is Reason.LINEAR_HISTORY_REQUIRED
    assert walk.asked.count("merge") == 1
