"""The rules at the door: whether a labelled pull request may join its queue. Pure judgements over plain data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from queue_engine.approvals import missing_approval
from queue_engine.checks import own_check, required_checks
from queue_engine.config.patterns import blocked_title
from queue_engine.facts import BranchRules, Permission, PullRequest, Review, ReviewDecision
from queue_engine.merging import merge_method, needs_signed_commits, no_method
from queue_engine.model import Repository
from queue_engine.policy import Policy, carries
from queue_engine.reasons import Reason

_STRENGTH = tuple(Permission)

UNSEEN_HEAD = "unseen"
"""In place of the head that was labelled, where IMQ did not receive the label's webhook: no pull request has it."""

_NAMED, _SHORT = 5, 7
"""Commits that a refusal names, and how many letters of each."""


@dataclass(frozen=True, slots=True)
class Demands:
    """What a base branch demands, and what is known of how the pull request meets it."""

    rules: BranchRules
    reviews: Iterable[Review] | None = None
    """None where they cannot tell anything."""
    unsigned: Sequence[str] = ()
    """Its commits without a valid signature; none are read where none have to have one."""
    decision: ReviewDecision | None = None
    resolved: bool | None = None
    """Whether every conversation is resolved."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Let it in."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The queue is full: remember it, it joins when a place frees."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """There is nothing to decide and nobody to tell."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Turn it away with this reason; `detail` names what it is about, and may hold foreign words."""

    reason: Reason
    detail: str | None = None


Answer = Admit | Hold | Ignore | Refuse


def knock(
    pull: PullRequest,
    *,
    repository: Repository,
    labelled_head: str,
    labelled_base: str,
    by: str,
    permission: Permission,
    demands: Demands,
    depth: int,
    policy: Policy,
) -> Answer:
    """Judge a pull request at the door.

    `labelled_head` and `labelled_base` are the head and the base branch that the person saw when setting the label:
    consent is for them and no others (P4). Its author may change the base branch, without any right.
    `by` and `permission` are who asks, with which right.
    Closed pull requests and labels already gone need no words.
    """
    if not pull.open or not policy.triggered(pull.labels):
        return Ignore()
    refusal = (
        _of_the_person(policy, by, permission)
        or _of_the_change(pull, labelled_head, labelled_base, policy)
        or unmet(pull, repository, demands, policy)
    )
    if refusal is not None:
        return refusal
    if policy.max_depth and depth >= policy.max_depth:
        return Hold()
    return Admit()


def may_queue(policy: Policy, login: str, permission: Permission) -> Reason | None:
    """None for whoever may queue here; else the reason to say."""
    enough = _STRENGTH.index(permission) >= _STRENGTH.index(policy.may_queue)
    if enough or login.casefold() in policy.may_queue_too:
        return None
    # Who may push may merge, by GitHub's own rule; anything else is this repository's.
    return Reason.LABEL_WITHOUT_RIGHT if policy.may_queue is Permission.WRITE else Reason.NOT_ALLOWED_TO_QUEUE


def barred(pull: PullRequest, policy: Policy) -> Refuse | None:
    """What the configuration says against its labels or its title, whoever asks and wherever it waits."""
    for label in sorted(pull.labels):
        if carries([label], policy.blocking_labels):
            return Refuse(Reason.BLOCKED_BY_LABEL, label)
    pattern = blocked_title(policy, pull.title)
    return None if pattern is None else Refuse(Reason.BLOCKED_BY_TITLE, pattern)


def _of_the_person(policy: Policy, by: str, permission: Permission) -> Refuse | None:
    reason = may_queue(policy, by, permission)
    return None if reason is None else Refuse(reason)


def _of_the_change(pull: PullRequest, labelled_head: str, labelled_base: str, policy: Policy) -> Refuse | None:
    if pull.base_branch != labelled_base:
        return Refuse(Reason.BASE_CHANGED)
    if pull.stacked:
        return Refuse(Reason.STACKED)
    if not policy.served:
        return Refuse(Reason.BRANCH_NOT_SERVED)
    if pull.draft:
        return Refuse(Reason.DRAFT)
    if pull.head_repository is None:
        return Refuse(Reason.FORK_DELETED)
    if labelled_head == UNSEEN_HEAD:
        return Refuse(Reason.LABEL_NOT_RECEIVED)
    if pull.head_sha != labelled_head:
        return Refuse(Reason.HEAD_CHANGED)
    if (bar := barred(pull, policy)) is not None:
        return bar
    return Refuse(Reason.CONFLICT) if pull.mergeable is False else None


def unmet(pull: PullRequest, repository: Repository, demands: Demands, policy: Policy) -> Refuse | None:
    """What the rules of its base branch say against it, as far as that can be known before the merge."""
    return (
        _ruled_out(pull, repository, demands.rules, policy)
        or _of_the_signatures(pull, demands, policy)
        or _of_the_people(demands)
    )


def _ruled_out(pull: PullRequest, repository: Repository, rules: BranchRules, policy: Policy) -> Refuse | None:
    if rules.native_queue:
        return Refuse(Reason.NATIVE_QUEUE_REQUIRED)
    if rules.locked:
        return Refuse(Reason.BRANCH_LOCKED)
    if rules.push_restricted:
        return Refuse(Reason.PUSH_RESTRICTED)
    if rules.bypassed:
        return Refuse(Reason.RULESET_BYPASSED, "; ".join(rules.bypassed))
    if (own := own_check(required_checks(rules, policy), policy)) is not None:
        return Refuse(Reason.OWN_CHECK_REQUIRED, own)
    if merge_method(pull, rules, policy) is None:
        return Refuse(*no_method(pull, rules, policy))
    of_fork = pull.head_repository != repository.full_name
    if of_fork and pull.merge_state == "behind" and not pull.maintainer_can_modify:
        return Refuse(Reason.FORK_NOT_EDITABLE)
    return None


def _of_the_signatures(pull: PullRequest, demands: Demands, policy: Policy) -> Refuse | None:
    if not (demands.unsigned and needs_signed_commits(pull, demands.rules, policy)):
        return None
    more = len(demands.unsigned) - _NAMED
    named = ", ".join(sha[:_SHORT] for sha in demands.unsigned[:_NAMED])
    return Refuse(Reason.SIGNATURES_MISSING, named + (f" and {more} more" if more > 0 else ""))


def _of_the_people(demands: Demands) -> Refuse | None:
    rules = demands.rules
    if demands.reviews is not None and (missing := missing_approval(demands.reviews, rules, demands.decision)):
        return Refuse(*missing)
    return Refuse(Reason.CONVERSATIONS_UNRESOLVED) if rules.conversations and demands.resolved is False else None
