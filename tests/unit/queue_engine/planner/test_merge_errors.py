"""GitHub refuses a merge for good: which reason its words and facts give."""

from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Block, Dequeue
from queue_engine.planner.merge_errors import (
    PHRASES,
    awaits_check,
    judge_refused_member,
    judge_refused_merge,
    named,
    refused_merge,
)
from tests.unit.queue_engine.examples import NOW, PENDING, POLICY, READY, entry, facts_with, pull
from tests.unit.queue_engine.planner.merge_error_cases import RULESET, WORKFLOWS

REFUSALS = [
    ("Changes must be made through the merge queue", Reason.NATIVE_QUEUE_REQUIRED),
    ("Cannot change this locked branch", Reason.BRANCH_LOCKED),
    ("Cannot update this protected ref.", Reason.BRANCH_LOCKED),
    ("You're not authorized to push to this branch.", Reason.PUSH_RESTRICTED),
    ("1 review requesting changes by reviewers with write access.", Reason.CHANGES_REQUESTED),
    ("2 reviews requesting changes by reviewers with write access.", Reason.CHANGES_REQUESTED),
    ("Waiting on code owner review from acme/owners and/or ada.", Reason.CODE_OWNER_MISSING),
    ("At least 1 approving review is required by reviewers with write access.", Reason.APPROVAL_MISSING),
    ("At least 2 approving reviews are required by reviewers with write access.", Reason.APPROVAL_MISSING),
    ("New changes require approval from someone other than the last pusher.", Reason.APPROVAL_MISSING),
    (
        "A conversation must be resolved before this pull request can be merged.",
        Reason.CONVERSATIONS_UNRESOLVED,
    ),
    ("Commits must have verified signatures.", Reason.SIGNATURES_MISSING),
    ("Commit message must match a given regex pattern: ^feat", Reason.COMMIT_RULES),
    ("Commit message must not match a given regex pattern: wip", Reason.COMMIT_RULES),
    ("Committer email must end with a matching pattern: @acme.example", Reason.COMMIT_RULES),
    ("This branch can't be rebased", Reason.REBASE_IMPOSSIBLE),
    ("Missing successful active staging deployment.", Reason.DEPLOYMENT_MISSING),
    ("Missing successful active staging and preview deployments.", Reason.DEPLOYMENT_MISSING),
]


STACKED = (
    "Merging stacked PRs via this endpoint is not supported. Use the asynchronous merge endpoint instead.",
    "This pull request is part of a stack and must be merged using the asynchronous merge REST API.",
    "PR #2's branch is not a linear descendant of PR #1's branch",
)


METHODS = [
    "Squash merges are not allowed on this repository.",
    "Merge is not an allowed merge method in this repository.",
]


def test_refused_merge_leaves_for_what_githubs_words_name() -> None:
    """At once and in GitHub's words, whether a classic protection says so or a ruleset."""
    for words, reason in REFUSALS:
        for frame in ["{}", RULESET]:
            refusal = frame.format(words)
            assert judge_refused_merge(
                entry(status=READY, merge_refusals=1), refusal, facts_with(pull=pull()), POLICY, NOW
            ) == Dequeue(reason, detail=refusal), (frame, words, reason)


def test_refused_merge_phrases_are_all_used() -> None:
    """No row of the table is there in vain: GitHub uses each phrase."""
    refusals = [refusal.lower() for refusal in [*(refusal for refusal, _ in REFUSALS), *METHODS, *WORKFLOWS, *STACKED]]
    assert all(any(known in refusal for refusal in refusals) for known, _ in PHRASES)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            "At least 1 approving review is required by reviewers with write access. Cannot change this locked branch",
            Reason.BRANCH_LOCKED,
        ),
        (
            RULESET.format(
                "Waiting on code owner review from ada.\n\nA conversation must be resolved before this pull request "
                "can be merged.\n\n2 of 3 required status checks are expected."
            ),
            Reason.CODE_OWNER_MISSING,
        ),
    ],
)
def test_refused_merge_for_several_reasons_names_first_what_the_author_cannot_fix(words: str, reason: Reason) -> None:
    """IMQ asks no person for an approval to a branch that is locked; checks under way are the least."""
    assert named(words) is reason


@pytest.mark.parametrize(
    "check", ["merge queue / lint", "approving review bot", "test-failover", "error pages", "locked branch", "stale"]
)
def test_refused_merge_for_a_check_is_never_judged_by_the_check_s_name(check: str) -> None:
    """P5: a check may be called like any refusal, and like any outcome."""
    words = f'Required status check "{check}" is expected.'
    assert named(words) is None
    assert awaits_check(words)
    assert not awaits_check(f'Required status check "{check}" is failing.')
    workflow = f"Repository rule violations found\n\nRequired workflow '{check}, it's new' is not satisfied\n\n"
    assert named(workflow) is None
    assert named(f"{workflow}Waiting on code owner review from ada.") is Reason.CODE_OWNER_MISSING


def test_refused_merge_for_workflows_is_never_judged_by_a_file_s_name() -> None:
    """GitHub names the file; only the permission counts."""
    file = "refusing to allow a GitHub App to create or update workflow `.github/workflows/merge queue.yml`"
    assert named(f"{file} without `workflows` permission") is Reason.WORKFLOWS_PERMISSION


def test_refused_merge_over_merge_commits_that_no_method_cures_says_so() -> None:
    """Classic protection does not show linear history: it is known by the refusal's words only."""
    often = entry(status=READY, merge_refusals=POLICY.merge_refusals)
    words = "This branch must not contain merge commits."
    assert judge_refused_merge(often, words, facts_with(pull=pull()), POLICY, NOW) == Dequeue(
        Reason.LINEAR_HISTORY_REQUIRED, detail=words
    )


def test_refused_merge_that_names_its_method_excludes_it() -> None:
    """Another one may be left; a refusal for anything else excludes none."""
    squash = "Squash merges are not allowed on this repository."
    first = refused_merge("This branch must not contain merge commits.", MergeMethod.MERGE, frozenset())
    second = refused_merge(squash, MergeMethod.SQUASH, first.refused_methods)
    assert second.refused_methods == {MergeMethod.MERGE, MergeMethod.SQUASH}
    asked = replace(second, pull=pull())
    assert judge_refused_merge(entry(status=READY, merge_refusals=9), squash, asked, POLICY, NOW) is None
    waiting = 'Required status check "ci" is expected.'
    assert refused_merge(waiting, MergeMethod.MERGE, frozenset()).refused_methods == frozenset()


def test_forbidden_merge_names_the_permission() -> None:
    """403: the operator reads which one."""
    words = "Resource not accessible by integration (needs contents=write)"
    facts = facts_with(pull=pull(), merge_denied=Reason.PERMISSION_MISSING)
    assert judge_refused_merge(entry(status=READY), words, facts, POLICY, NOW) == Dequeue(
        Reason.PERMISSION_MISSING, detail=words
    )


@pytest.mark.parametrize("words", STACKED)
@pytest.mark.parametrize("denied", [None, Reason.PERMISSION_MISSING])
def test_refused_merge_of_a_stacked_pull_request_is_no_missing_permission(words: str, denied: Reason | None) -> None:
    """IMQ does not retry, and asks for no permission: GitHub answers 403 or 405 (Kodiak #923, git-stk #306)."""
    facts = facts_with(pull=pull(), merge_denied=denied)
    assert judge_refused_merge(entry(status=READY), words, facts, POLICY, NOW) == Dequeue(Reason.STACKED, detail=words)


@pytest.mark.parametrize("frame", ["{}", RULESET])
@pytest.mark.parametrize("words", WORKFLOWS)
@pytest.mark.parametrize("denied", [None, Reason.PERMISSION_MISSING])
def test_refusal_to_change_workflows_blocks_the_entry_without_a_dequeue(
    words: str, frame: str, denied: Reason | None
) -> None:
    """P5: 403, or among a ruleset's violations; the entry is blocked, is tried ever more rarely, and leaves last."""
    refusal, facts = frame.format(words), facts_with(pull=pull(), merge_denied=denied)
    front = entry(status=READY, merge_requested_at=NOW, merge_refusals=1)
    now, waits = NOW, []
    while isinstance(judged := judge_refused_merge(front, refusal, facts, POLICY, now), Block):
        assert (judged.reason, judged.detail) == (Reason.WORKFLOWS_PERMISSION, refusal)
        stored = judged.entry
        assert (stored.status, stored.run.merge_requested_at, stored.head_sha) == (PENDING, None, front.head_sha)
        assert (stored.blocked_since, stored.queued_head) == (NOW, front.queued_head)
        assert stored.blocked_until is not None
        waits.append(stored.blocked_until - now)
        now, front = stored.blocked_until, replace(front, blocked_since=stored.blocked_since)
    assert judged == Dequeue(Reason.WORKFLOWS_PERMISSION, detail=refusal)
    assert waits[:4] == [timedelta(hours=hours) for hours in (1, 1, 2, 4)]
    assert now == NOW + POLICY.timeouts.hold


def test_refused_merge_of_what_conflicts_is_a_conflict_whatever_the_words() -> None:
    """GitHub says no more than that it is not mergeable."""
    facts = facts_with(pull=pull(mergeable=False))
    assert judge_refused_merge(entry(status=READY), "Pull Request is not mergeable", facts, POLICY, NOW) == Dequeue(
        Reason.CONFLICT
    )


def test_refused_merge_in_known_words_is_believed_whatever_of_conflicts_is_unknown() -> None:
    """A rule that GitHub names does not wait for its computation."""
    for words, reason in REFUSALS:
        facts = facts_with(pull=pull(mergeable=None))
        assert judge_refused_merge(entry(status=READY, merge_refusals=1), words, facts, POLICY, NOW) == Dequeue(
            reason, detail=words
        ), (words, reason)


@pytest.mark.parametrize("words", ["This branch can't be rebased", "Must match a given regex pattern: ^feat: "])
def test_member_whose_own_commits_cannot_land_leaves_its_train_at_once(words: str) -> None:
    """P5: the others land without it, and GitHub is asked once."""
    judged = judge_refused_member(entry(status=READY), words, facts_with(merge_refused=words), POLICY, NOW)
    assert isinstance(judged, Dequeue)
    assert judged.detail == words
