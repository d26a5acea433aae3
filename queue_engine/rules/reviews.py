"""Judge reviews where rules require them, as far as facts before the merge show it.

Only GitHub knows which code owner's review is missing, and whether an approval is outdated: it refuses the merge then.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from queue_engine.config.model import Policy
from queue_engine.domain.facts import (
    BranchRules,
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
    """Return each existing account's newest review that is more than a comment, of reviews oldest first."""
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


def approved_by(snapshot: Snapshot | None) -> tuple[str, ...]:
    """Return who with write access has approved, by the newest review of each."""
    reviews = () if snapshot is None else snapshot.reviews or ()
    return tuple(
        each.author for each in newest(reviews) if each.author and each.by_writer and each.state is ReviewState.APPROVED
    )
