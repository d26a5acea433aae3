from typing import Any

import pytest

from queue_engine.config.model import MergeRules, Policy
from queue_engine.domain.facts import CommitHistory, MergeCommit, MergeMethod, Review, ReviewState
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Dequeue, FactKind, Merge, ReadFact
from queue_engine.planner.decide import decide
from queue_engine.rules.merge_method import commit_message, merge_method, wanted_method
from tests.unit.queue_engine.examples import NOW, POLICY, READY, comparison, entry, facts_with, pull, report, rules

MERGE, SQUASH, REBASE = MergeMethod


@pytest.mark.parametrize(
    ("methods", "demands", "method"),
    [
        ((MERGE, SQUASH, REBASE), {}, MERGE),
        ((SQUASH, REBASE), {}, SQUASH),
        ((MERGE, SQUASH), {"linear_history": True}, SQUASH),
        ((MERGE, REBASE), {"methods": frozenset({REBASE, SQUASH})}, REBASE),
        ((REBASE,), {"signatures": True}, None),
        ((MERGE,), {"linear_history": True}, None),
        ((), {}, None),
    ],
)
def test_merge_method_is_the_first_that_repository_and_rules_allow(
    methods: tuple[MergeMethod, ...], demands: dict[str, Any], method: MergeMethod | None
) -> None:
    """In the order merge, squash, rebase; GitHub does not sign what it rebases."""
    assert merge_method(pull(methods=methods), rules(**demands), POLICY) is method


def test_merge_method_wanted_is_taken_or_none() -> None:
    """What a repository asks for is never replaced by something else."""
    assert merge_method(pull(), rules(), Policy(merge=MergeRules(method=REBASE))) is REBASE
    assert merge_method(pull(methods=(MERGE,)), rules(), Policy(merge=MergeRules(method=REBASE))) is None


def test_method_label_overrides_the_configured_method_whatever_its_case() -> None:
    """GitHub knows no two labels that differ in case; of several the configuration's first counts."""
    policy = Policy(merge=MergeRules(method=SQUASH, method_labels={"land-rebase": REBASE, "land-merge": MERGE}))
    assert wanted_method({"Land-Merge"}, policy) is MERGE
    assert wanted_method({"land-merge", "LAND-rebase"}, policy) is REBASE
    assert wanted_method({"docs"}, policy) is SQUASH


def test_commit_words_are_githubs_where_nothing_is_configured() -> None:
    """None is left out of the request."""
    assert commit_message(pull(), SQUASH, POLICY) == MergeCommit()


def test_commit_words_follow_the_templates_with_co_authors() -> None:
    """The repository's own form, made of what the pull request says."""
    policy = Policy(merge=MergeRules(title="{title} (#{number})", body="{body}\n\n{co_authors}"))
    message = commit_message(pull(title="Add", body="Why."), SQUASH, policy, CommitHistory(("B <b@x.org>",)))
    assert message == MergeCommit("Add (#1)", "Why.\n\nCo-authored-by: B <b@x.org>")


def test_commit_words_of_a_rebase_are_its_commits_own() -> None:
    """Nothing is asked for that GitHub would not use."""
    assert commit_message(pull(), REBASE, Policy(merge=MergeRules(title="{title}", body="{body}"))) == MergeCommit()


def ready(policy: Policy, **facts: Any) -> object:
    """The next step of a green front that is up to date."""
    known = {"pull": pull(), "comparison": comparison(), "rules": rules("ci"), "reports": (report("ci"),)}
    front = entry(status=READY, tested_tree="tree-of-head-1")
    return decide(front, facts_with(**(known | facts)), policy, NOW)


def test_merge_asks_for_co_authors_only_where_the_template_names_them() -> None:
    """P7: one request more only for those who want it, right before the merge."""
    assert isinstance(ready(Policy(merge=MergeRules(body="{body}"))), Merge)
    named = Policy(merge=MergeRules(method=SQUASH, body="{body}\n{co_authors}"))
    assert ready(named) == ReadFact(FactKind.COMMIT_TEXTS)
    merge = ready(named, commit_texts=CommitHistory(("B <b@x.org>",)))
    assert isinstance(merge, Merge)
    assert merge.message == MergeCommit(body="Co-authored-by: B <b@x.org>")
    assert isinstance(ready(Policy(merge=MergeRules(method=REBASE, body="{body}\n{co_authors}"))), Merge)


def test_merge_by_a_method_forbidden_since_admission_is_not_requested() -> None:
    """Settings may change while it waits; IMQ reads them again before it leaves, and the comment names the method."""
    forbidden: dict[str, Any] = {"pull": pull(methods=(MERGE,))}
    assert ready(Policy(merge=MergeRules(method=SQUASH)), **forbidden) == ReadFact(FactKind.FRESH_RULES)
    assert ready(Policy(merge=MergeRules(method=SQUASH)), **forbidden, rules_fresh=True) == Dequeue(
        Reason.METHOD_NOT_ALLOWED, detail="squash"
    )
    refused = {"merge_refused": "Merge commits are not allowed on this repository.", "refused_methods": {MERGE}}
    assert ready(Policy(merge=MergeRules(method=MERGE)), **refused) == Dequeue(
        Reason.METHOD_NOT_ALLOWED, detail="merge"
    )
    assert ready(
        Policy(merge=MergeRules(method=MERGE)), merge_refused="This branch must not contain merge commits."
    ) == Dequeue(Reason.LINEAR_HISTORY_REQUIRED, detail="merge")


def test_merge_that_github_would_not_check_for_approvals_is_checked_by_imq() -> None:
    """P1: an App that may bypass a ruleset is refused nothing, so IMQ reads the reviews right before the merge."""
    demands = rules("ci", approvals=1, approvals_bypassed=True)
    approved, against = (Review("ada", state, True) for state in (ReviewState.APPROVED, ReviewState.CHANGES_REQUESTED))
    assert ready(POLICY, rules=demands) == ReadFact(FactKind.REVIEWS)
    assert ready(POLICY, rules=demands, reviews=()) == Dequeue(Reason.APPROVAL_MISSING, detail="0 of 1")
    assert ready(POLICY, rules=demands, reviews=(against,)) == Dequeue(Reason.CHANGES_REQUESTED, detail="ada")
    assert isinstance(ready(POLICY, rules=demands, reviews=(approved,)), Merge)
    assert isinstance(ready(POLICY, rules=rules("ci", approvals=1)), Merge), "GitHub itself refuses this one"


def test_merge_under_a_ruleset_that_became_bypassed_is_not_asked_for() -> None:
    """Rules may change while it waits; IMQ reads them again before it leaves."""
    bypassed = rules("ci", bypassed=("main: workflows",))
    assert ready(POLICY, rules=bypassed) == ReadFact(FactKind.FRESH_RULES)
    assert ready(POLICY, rules=bypassed, rules_fresh=True) == Dequeue(Reason.RULESET_BYPASSED, detail="main: workflows")
