"""Judge reviews where rules require them, as far as facts before the merge show it; choose the method and its message.

Only GitHub knows which code owner's review is missing, and whether an approval is outdated: it refuses the merge then.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from queue_engine.config import merge_commit
from queue_engine.config.model import Policy
from queue_engine.domain.facts import (
    BranchRules,
    CommitHistory,
    MergeMethod,
    PullRequest,
    Review,
    ReviewOutcome,
    ReviewState,
    Snapshot,
)
from queue_engine.domain.model import Repository
from queue_engine.domain.port import GitHub
from queue_engine.domain.reasons import Reason

_VERDICTS = frozenset({ReviewState.APPROVED, ReviewState.CHANGES_REQUESTED, ReviewState.DISMISSED})

_MAY_LACK = frozenset({"blocked", "unknown"})
"""States of a pull request in which a review may be missing, or GitHub has not computed the state."""

_MOST_ASKED = 10
"""For how many reviewers IMQ asks GitHub for the permission."""


def with_own_approvals(rules: BranchRules, policy: Policy) -> BranchRules:
    """Return the rules with the approvals that the configuration requires, which GitHub does not check at the merge."""
    own = policy.require.approvals
    return rules if own <= rules.approvals else replace(rules, approvals=own, approvals_bypassed=True)


def requires_reviews(pull: PullRequest, rules: BranchRules) -> bool:
    """Whether reviews have to be read: rules require some, and one may be missing.

    If IMQ may bypass the rule for approvals, GitHub's state of the pull request does not show missing ones.
    """
    if rules.approvals_bypassed:
        return True
    return pull.merge_state in _MAY_LACK and _demanded(rules)


async def reviews_of(
    github: GitHub, repository: Repository, snapshot: Snapshot, rules: BranchRules
) -> tuple[Review, ...] | None:
    """Return the newest review of each person who may write; None where reviews cannot matter. Raises GitHubError.

    IMQ reads them only if the snapshot lacks them. REST shows whether a reviewer belongs to the project, but not for
    private members (coder #24299). So IMQ asks for the permission of each reviewer.
    """
    counted = counted_reviews(snapshot, rules)
    if counted is not None or not requires_reviews(snapshot.pull, rules):
        return counted
    verdicts = newest(await github.reviews(repository, snapshot.pull.number))
    undismissed = [verdict for verdict in verdicts if verdict.state is not ReviewState.DISMISSED]
    # Known members first, so that the reviews of many outsiders cannot use up the limit.
    asked = sorted(undismissed, key=lambda verdict: not verdict.by_writer)[:_MOST_ASKED]
    may_write = {each.author: (await github.permission(repository, each.author or "")).may_merge for each in asked}
    return tuple(replace(each, by_writer=may_write.get(each.author, _counts_always(each))) for each in verdicts)


def _counts_always(verdict: Review) -> bool:
    """Whether the review of a person beyond the limit counts: an approval does not (P4)."""
    return verdict.by_writer and verdict.state is not ReviewState.APPROVED


def counted_reviews(snapshot: Snapshot, rules: BranchRules) -> tuple[Review, ...] | None:
    """Return the reviews in the snapshot; None where it has none, or they cannot matter.

    GitHub's own decision replaces the reviews, unless IMQ may bypass the ruleset that requires them.
    """
    if snapshot.decision is not None and _demanded(rules) and not rules.approvals_bypassed:
        return snapshot.reviews or ()
    return snapshot.reviews if requires_reviews(snapshot.pull, rules) else None


def newest(reviews: Iterable[Review]) -> tuple[Review, ...]:
    """Return the newest review of each person that is more than a comment; `reviews` are oldest first.

    Reviews of deleted accounts do not count.
    """
    verdicts = (review for review in reviews if review.state in _VERDICTS and review.author is not None)
    return tuple({review.author: review for review in verdicts}.values())


def missing_approval(
    reviews: Iterable[Review],
    rules: BranchRules,
    decision: ReviewOutcome | None = None,
    code_owners: Sequence[str] = (),
) -> tuple[Reason, str] | None:
    """Return why approvals are missing, with names or numbers; None if these reviews meet the rules.

    GitHub's own decision counts where there is one. GitHub makes none for reviews that only a ruleset requires
    (atlantis #6373): then IMQ counts them. So GitHub's approval is not enough for a ruleset that IMQ may bypass: a
    weaker classic protection may have caused it.
    """
    if decision is ReviewOutcome.APPROVED and not rules.approvals_bypassed:
        return None
    by_writers = [review for review in newest(reviews) if review.by_writer]
    against = [review.author or "" for review in by_writers if review.state is ReviewState.CHANGES_REQUESTED]
    if against or decision is ReviewOutcome.CHANGES_REQUESTED:
        return Reason.CHANGES_REQUESTED, ", ".join(against)
    approvals = sum(review.state is ReviewState.APPROVED for review in by_writers)
    if approvals < rules.approvals:
        return Reason.APPROVAL_MISSING, f"{approvals} of {rules.approvals}"
    if decision is ReviewOutcome.REVIEW_REQUIRED:
        # There are enough approvals. GitHub names at most the code owners whose review it requests.
        if rules.code_owners:
            return Reason.CODE_OWNER_MISSING, f"review requested from {', '.join(code_owners)}" if code_owners else ""
        return Reason.APPROVAL_MISSING, "GitHub still requires a review, for example of the newest push"
    return None


def _demanded(rules: BranchRules) -> bool:
    return rules.approvals > 0 or rules.code_owners


def wanted_method(labels: Iterable[str], policy: Policy) -> MergeMethod | None:
    """Return the method of a label; without one, the configured method."""
    return next(iter(_asked(labels, policy).values()), policy.merge.method)


def _asked(labels: Iterable[str], policy: Policy) -> Mapping[str, MergeMethod]:
    """Return the methods that these labels name, by the label as the configuration has it."""
    carried = {label.casefold() for label in labels}
    return {label: method for label, method in policy.merge.method_labels.items() if label.casefold() in carried}


def merge_method(pull: PullRequest, rules: BranchRules, policy: Policy) -> MergeMethod | None:
    """Return the wanted method if it is allowed; if none is wanted, the first allowed of merge, squash, rebase.

    None also if labels name two methods, or if GitHub cannot rebase the commits and only a rebase is left.
    """
    if len(set(_asked(pull.labels, policy).values())) > 1:
        return None
    allowed = [method for method in pull.methods if _leaves(rules, method) and _is_possible(pull, method)]
    wanted = wanted_method(pull.labels, policy)
    if wanted is None:
        return allowed[0] if allowed else None
    return wanted if wanted in allowed else None


def no_method(pull: PullRequest, rules: BranchRules, policy: Policy) -> tuple[Reason, str | None]:
    """Return why there is no method, and the wanted method or the labels that contradict each other.

    The reason is a linear history if only that rule excludes merge commits; else repository or rules allow no method.
    """
    asked = _asked(pull.labels, policy)
    if len(set(asked.values())) > 1:
        return Reason.METHODS_CONTRADICT, ", ".join(f"{label}: {method.value}" for label, method in asked.items())
    wanted = wanted_method(pull.labels, policy)
    if merge_method(replace(pull, rebaseable=None), rules, policy) is MergeMethod.REBASE:
        return Reason.REBASE_IMPOSSIBLE, wanted and wanted.value
    unrestricted = merge_method(pull, replace(rules, linear_history=False), policy)
    reason = Reason.LINEAR_HISTORY_REQUIRED if unrestricted is MergeMethod.MERGE else Reason.METHOD_NOT_ALLOWED
    return reason, wanted and wanted.value


def needs_signed_commits(pull: PullRequest, rules: BranchRules, policy: Policy) -> bool:
    """Whether the pull request's own commits have to be signed: GitHub signs the commit of a squash itself."""
    return rules.signatures and merge_method(pull, rules, policy) is MergeMethod.MERGE


def approved_by(snapshot: Snapshot | None) -> tuple[str, ...]:
    """Return who with write access has approved, by the newest review of each."""
    reviews = () if snapshot is None else snapshot.reviews or ()
    return tuple(
        each.author for each in newest(reviews) if each.author and each.by_writer and each.state is ReviewState.APPROVED
    )


def commit_message(
    pull: PullRequest,
    method: MergeMethod,
    policy: Policy,
    texts: CommitHistory | None = None,
    *,
    queued_by: str = "",
    reviewers: Sequence[str] = (),
) -> tuple[str | None, str | None]:
    """Return title and body of the landed commit; None leaves them to GitHub. A rebase keeps the commits' messages."""
    if method is MergeMethod.REBASE:
        return None, None
    templates = merge_commit.MergeCommit(policy.merge.title, policy.merge.body)
    message = merge_commit.commit_message(
        templates,
        pull,
        texts or CommitHistory(),
        label=policy.trigger_label,
        queued_by=queued_by,
        reviewers=reviewers,
        trailer=policy.merge.queued_by,
    )
    return message.title, message.body


def _is_possible(pull: PullRequest, method: MergeMethod) -> bool:
    """Whether GitHub can merge by this method, as far as it says so beforehand."""
    return method is not MergeMethod.REBASE or pull.rebaseable is not False


def _leaves(rules: BranchRules, method: MergeMethod) -> bool:
    """Whether the branch's rules allow this method. GitHub does not sign the commits that it rebases."""
    if rules.methods is not None and method not in rules.methods:
        return False
    return not (
        (rules.linear_history and method is MergeMethod.MERGE) or (rules.signatures and method is MergeMethod.REBASE)
    )
