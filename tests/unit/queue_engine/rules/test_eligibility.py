"""Who may queue what: each reason to refuse, to hold and to ignore."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from queue_engine.config.model import BlockRules, MergeRules, Policy, QueuePermissions
from queue_engine.domain.facts import MergeMethod, Permission, RequiredCheck, Review, ReviewState
from queue_engine.domain.model import UnmetRequirement
from queue_engine.domain.policy import NotReadyPolicy
from queue_engine.domain.reasons import Reason
from queue_engine.rules.eligibility import (
    Admit,
    Answer,
    Consent,
    Ignore,
    NotReady,
    Reject,
    RequiredFacts,
    check_eligibility,
)
from queue_engine.rules.reviews import requires_reviews
from tests.unit.queue_engine.examples import POLICY, REPOSITORY, pull, rules

MERGE, SQUASH, REBASE = MergeMethod
METHOD = Reason.METHOD_NOT_ALLOWED
APPROVED, AGAINST = ReviewState.APPROVED, ReviewState.CHANGES_REQUESTED
COMMENTED, DISMISSED = ReviewState.COMMENTED, ReviewState.DISMISSED


BY_MAX = Consent("max", Permission.WRITE, "head-1", "main")


def lacks(reason: Reason, detail: str | None = None) -> NotReady:
    """The answer about a pull request that lacks one thing."""
    return NotReady((UnmetRequirement(reason, detail),))


def asked(
    changes: dict[str, Any] | None = None,
    *,
    consent: Consent = BY_MAX,
    policy: Policy = POLICY,
    reviews: Iterable[Review] | None = None,
    unsigned: Sequence[str] = (),
    **demands: Any,
) -> Answer:
    """Check the eligibility of pull request 1 with these changes, on a branch with these requirements."""
    return check_eligibility(
        pull(**(changes or {})),
        consent,
        RequiredFacts(rules("ci", **demands), reviews, unsigned),
        repository=REPOSITORY,
        policy=policy,
    )


def review(author: str | None, state: ReviewState, *, by_writer: bool = True) -> Review:
    return Review(author, state, by_writer)


@pytest.mark.parametrize("mergeable", [True, None])
def test_eligibility_admits_a_mergeable_pull_request(mergeable: bool | None) -> None:
    """IMQ admits a pull request whose mergeability GitHub has not computed yet."""
    assert asked({"mergeable": mergeable}) == Admit()


def test_eligibility_admits_to_no_other_base_branch_than_the_label_was_set_for() -> None:
    """Its author may change the base branch in the moment of the label, without any right."""
    assert asked(consent=replace(BY_MAX, base_branch="dev")) == Reject(Reason.BASE_CHANGED)


@pytest.mark.parametrize("permission", Permission)
def test_eligibility_admits_only_with_the_right_to_merge(permission: Permission) -> None:
    """GitHub lets triagers label but not merge: IMQ does not merge for them."""
    fit = {Permission.WRITE, Permission.MAINTAIN, Permission.ADMIN}
    expected = Admit() if permission in fit else Reject(Reason.LABEL_WITHOUT_RIGHT)
    assert asked(consent=replace(BY_MAX, permission=permission)) == expected


@pytest.mark.parametrize(
    ("least", "permission", "answer"),
    [
        (Permission.MAINTAIN, Permission.WRITE, Reject(Reason.NOT_ALLOWED_TO_QUEUE)),
        (Permission.MAINTAIN, Permission.MAINTAIN, Admit()),
        (Permission.ADMIN, Permission.MAINTAIN, Reject(Reason.NOT_ALLOWED_TO_QUEUE)),
        (Permission.TRIAGE, Permission.TRIAGE, Admit()),
        (Permission.TRIAGE, Permission.READ, Reject(Reason.NOT_ALLOWED_TO_QUEUE)),
    ],
)
def test_eligibility_admits_people_that_the_configuration_lets_queue(
    least: Permission, permission: Permission, answer: Answer
) -> None:
    """The configured permission may be more or less than the right to merge; each has its own reason."""
    assert (
        asked(
            policy=Policy(who_may_queue=QueuePermissions(permission=least)),
            consent=replace(BY_MAX, permission=permission),
        )
        == answer
    )


def test_eligibility_admits_who_is_named_whatever_the_right_and_the_case() -> None:
    """GitHub's logins have no case."""
    policy = Policy(who_may_queue=QueuePermissions(permission=Permission.ADMIN, people=frozenset({"max"})))
    assert asked(policy=policy, consent=replace(BY_MAX, by="Max", permission=Permission.READ)) == Admit()
    assert asked(policy=policy, consent=replace(BY_MAX, by="eve", permission=Permission.READ)) == Reject(
        Reason.NOT_ALLOWED_TO_QUEUE
    )
    assert asked(policy=policy, consent=replace(BY_MAX, by="", permission=Permission.NONE)) == Reject(
        Reason.NOT_ALLOWED_TO_QUEUE
    )


@pytest.mark.parametrize("changes", [{"open": False}, {"open": False, "merged": True}, {"labels": frozenset({"docs"})}])
@pytest.mark.parametrize("permission", [Permission.NONE, Permission.ADMIN])
def test_eligibility_ignores_a_request_that_was_taken_back(changes: dict[str, Any], permission: Permission) -> None:
    """Closed, or the label already gone: no comment for any person."""
    assert asked(changes, consent=replace(BY_MAX, permission=permission)) == Ignore()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"head_repository": None}, Reason.FORK_DELETED),
        ({"mergeable": False}, Reason.CONFLICT),
    ],
)
def test_eligibility_refuses_what_cannot_land(changes: dict[str, Any], reason: Reason) -> None:
    """Each with its own reason."""
    assert asked(changes) == Reject(reason)


def test_eligibility_refuses_a_head_pushed_after_the_label() -> None:
    """Consent is for the head that the person saw when setting the label, and no other (P4)."""
    assert asked({"head_sha": "evil"}, consent=replace(BY_MAX, head_sha="head-1")) == Reject(Reason.HEAD_CHANGED)


@pytest.mark.parametrize(
    ("demands", "refusal"),
    [
        ({"native_queue": True}, Reject(Reason.NATIVE_QUEUE_REQUIRED)),
        ({"locked": True}, Reject(Reason.BRANCH_LOCKED)),
        ({"push_restricted": True}, Reject(Reason.PUSH_RESTRICTED)),
        ({"bypassed": ("a: workflows", "b: x")}, Reject(Reason.RULESET_BYPASSED, "a: workflows; b: x")),
        ({"required_checks": frozenset({RequiredCheck("IMQ", None)})}, Admit()),
        ({"methods": frozenset()}, Reject(Reason.METHOD_NOT_ALLOWED)),
        # What a change has to be like is for the checks, for people, and for GitHub at the merge.
        ({"signatures": True, "conversations": True, "deployments": ("staging",), "linear_history": True}, Admit()),
        ({"approvals": 2, "code_owners": True}, Admit()),
    ],
)
def test_eligibility_refuses_what_the_rules_of_the_branch_will_never_admit(
    demands: dict[str, Any], refusal: Answer
) -> None:
    """Said at once, not after the checks; what may still come true is no reason to refuse."""
    assert asked(**demands) == refusal


@pytest.mark.parametrize(
    ("policy", "changes", "demands", "answer"),
    [
        (Policy(merge=MergeRules(method=SQUASH)), {}, {}, Admit()),
        (
            Policy(merge=MergeRules(method=SQUASH)),
            {"methods": (MERGE,)},
            {},
            Reject(Reason.METHOD_NOT_ALLOWED, "squash"),
        ),
        (
            Policy(merge=MergeRules(method=SQUASH)),
            {},
            {"methods": frozenset({MERGE})},
            Reject(Reason.METHOD_NOT_ALLOWED, "squash"),
        ),
        (
            Policy(merge=MergeRules(method=MERGE)),
            {},
            {"linear_history": True},
            Reject(Reason.LINEAR_HISTORY_REQUIRED, "merge"),
        ),
        (POLICY, {"methods": (MERGE,)}, {"linear_history": True}, Reject(Reason.LINEAR_HISTORY_REQUIRED)),
        (POLICY, {"methods": ()}, {"linear_history": True}, Reject(Reason.METHOD_NOT_ALLOWED)),
        (
            Policy(merge=MergeRules(method=SQUASH)),
            {"methods": (MERGE,)},
            {"linear_history": True},
            Reject(METHOD, "squash"),
        ),
        (
            Policy(merge=MergeRules(method=MERGE)),
            {"methods": (SQUASH,)},
            {"linear_history": True},
            Reject(METHOD, "merge"),
        ),
        (
            Policy(merge=MergeRules(method=REBASE)),
            {},
            {"signatures": True},
            Reject(Reason.METHOD_NOT_ALLOWED, "rebase"),
        ),
        (Policy(merge=MergeRules(method=SQUASH, method_labels={"docs": MERGE})), {"methods": (MERGE,)}, {}, Admit()),
        (
            Policy(merge=MergeRules(method_labels={"docs": REBASE})),
            {"methods": (MERGE, SQUASH)},
            {},
            Reject(Reason.METHOD_NOT_ALLOWED, "rebase"),
        ),
    ],
)
def test_eligibility_refuses_a_way_of_merging_that_is_not_allowed(
    policy: Policy, changes: dict[str, Any], demands: dict[str, Any], answer: Answer
) -> None:
    """Whether repository, ruleset, or the nature of the method forbids it; a label asks before the configuration."""
    assert asked(changes, policy=policy, **demands) == answer


@pytest.mark.parametrize(
    ("policy", "changes", "answer"),
    [
        (Policy(enabled=False), {}, Reject(Reason.BRANCH_NOT_SERVED)),
        (Policy(blocking=BlockRules(labels=frozenset({"docs"}))), {}, Reject(Reason.BLOCKED_BY_LABEL, "docs")),
        (
            Policy(blocking=BlockRules(labels=frozenset({"wip"}))),
            {"labels": frozenset({"merge-queue", "WIP"})},
            Reject(Reason.BLOCKED_BY_LABEL, "WIP"),
        ),
        (Policy(blocking=BlockRules(titles=("^wip",))), {"title": "a wip"}, Admit()),
        (
            Policy(blocking=BlockRules(titles=("^wip",))),
            {"title": "wip: more"},
            Reject(Reason.BLOCKED_BY_TITLE, "^wip"),
        ),
    ],
)
def test_eligibility_refuses_what_the_configuration_keeps_out(
    policy: Policy, changes: dict[str, Any], answer: Answer
) -> None:
    """Branches without a queue, labels and titles; people read which. By default a label or title waits."""
    assert asked(changes, policy=replace(policy, when_not_ready=NotReadyPolicy.REFUSE)) == answer
    waiting = asked(changes, policy=policy)
    if isinstance(answer, Reject) and answer.reason is not Reason.BRANCH_NOT_SERVED:
        assert waiting == NotReady((UnmetRequirement(answer.reason, answer.detail),))
    else:
        assert waiting == answer


def test_eligibility_with_a_hostile_title_is_checked_at_once() -> None:
    """Patterns match in linear time: what makes others hang is answered."""
    policy = Policy(blocking=BlockRules(titles=("(a+)+$",)))
    assert asked({"title": "a" * 200 + "!"}, policy=policy) == Admit()


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, Reject(Reason.FORK_NOT_EDITABLE)),
        ({"maintainer_can_modify": True}, Admit()),
        ({"merge_state": "clean"}, Admit()),
        # `maintainer_can_modify` is false for branches of the repository itself, too.
        ({"head_repository": REPOSITORY.full_name}, Admit()),
    ],
)
def test_eligibility_refuses_a_fork_that_is_behind_and_cannot_be_updated(
    changes: dict[str, Any], answer: Answer
) -> None:
    """Its author has to allow edits, or to update it; IMQ says so before it queues the pull request."""
    fork = {"head_repository": "eve/engine", "maintainer_can_modify": False, "merge_state": "behind"}
    assert asked(fork | changes) == answer


@pytest.mark.parametrize(
    ("reviews", "answer"),
    [
        ([], lacks(Reason.APPROVAL_MISSING, "0 of 1")),
        ([review("bob", APPROVED)], Admit()),
        ([review("bob", APPROVED, by_writer=False)], lacks(Reason.APPROVAL_MISSING, "0 of 1")),
        ([review(None, APPROVED)], lacks(Reason.APPROVAL_MISSING, "0 of 1")),
        ([review("bob", AGAINST)], lacks(Reason.CHANGES_REQUESTED, "bob")),
        ([review("bob", AGAINST), review("eve", APPROVED)], lacks(Reason.CHANGES_REQUESTED, "bob")),
        ([review("bob", AGAINST), review("bob", APPROVED)], Admit()),
        ([review("bob", APPROVED), review("bob", COMMENTED)], Admit()),
        ([review("bob", APPROVED), review("bob", DISMISSED)], lacks(Reason.APPROVAL_MISSING, "0 of 1")),
        ([review("bob", AGAINST), review("bob", DISMISSED), review("eve", APPROVED)], Admit()),
        ([review("eve", AGAINST, by_writer=False), review("bob", APPROVED)], Admit()),
    ],
)
def test_eligibility_reads_of_each_person_the_newest_verdict(reviews: list[Review], answer: Answer) -> None:
    """Only of people who may write, as GitHub counts; a comment changes no verdict, a dismissal ends it."""
    assert asked(approvals=1, reviews=reviews) == answer


def test_eligibility_counts_approvals_of_different_people() -> None:
    """Twice by one person is once."""
    twice = [review("bob", APPROVED), review("bob", APPROVED)]
    assert asked(approvals=2, reviews=twice) == lacks(Reason.APPROVAL_MISSING, "1 of 2")
    assert asked(approvals=2, reviews=[*twice, review("eve", APPROVED)]) == Admit()


@pytest.mark.parametrize(
    ("merge_state", "demands", "asks"),
    [
        ("blocked", {"approvals": 1}, True),
        ("blocked", {"code_owners": True}, True),
        ("blocked", {}, False),
        ("clean", {"approvals": 1}, False),
        ("unknown", {"approvals": 1}, True),
        ("unknown", {}, False),
        ("behind", {"approvals": 1}, False),
    ],
)
def test_reviews_are_asked_for_only_where_they_can_matter(
    merge_state: str, demands: dict[str, Any], asks: bool
) -> None:
    """P7: IMQ reads no reviews if GitHub reports no blocked merge, or no rule requires reviews."""
    assert requires_reviews(pull(merge_state=merge_state), rules("ci", **demands)) is asks


@pytest.mark.parametrize(
    ("unsigned", "policy", "changes", "answer"),
    [
        ([], POLICY, {}, Admit()),
        (["c1", "c2"], POLICY, {}, Reject(Reason.SIGNATURES_MISSING, "c1, c2")),
        (["a" * 40] * 7, POLICY, {}, Reject(Reason.SIGNATURES_MISSING, f"{', '.join(['a' * 7] * 5)} and 2 more")),
        (["c1"], Policy(merge=MergeRules(method=SQUASH)), {}, Admit()),
        (["c1"], POLICY, {"methods": (SQUASH,)}, Admit()),
    ],
)
def test_eligibility_refuses_unsigned_commits_that_would_land_themselves(
    unsigned: list[str], policy: Policy, changes: dict[str, Any], answer: Answer
) -> None:
    """By a merge they come onto the branch as they are; a squash makes one of them, which GitHub signs itself."""
    assert asked(changes, policy=policy, unsigned=unsigned, signatures=True) == answer


def test_eligibility_asks_no_signatures_where_none_are_demanded() -> None:
    """Whatever was read."""
    assert asked(unsigned=["c1"]) == Admit()


def test_eligibility_shows_no_secrets_to_those_without_the_right() -> None:
    """A sender without permission gets that answer, whatever else is wrong."""
    everything = {"draft": True, "mergeable": False, "head_repository": None, "head_sha": "evil"}
    policy = Policy(enabled=False, blocking=BlockRules(labels=frozenset({"docs"})))
    assert asked(everything, policy=policy, consent=replace(BY_MAX, permission=Permission.TRIAGE)) == Reject(
        Reason.LABEL_WITHOUT_RIGHT
    )
