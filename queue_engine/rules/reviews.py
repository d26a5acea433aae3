"""Judge reviews where rules require them, as far as they show before the merge.

Whose review is missing of code owners, and whether an approval is too old, only GitHub knows: it says so at the merge.
"""

from collections.abc import Iterable
from dataclasses import replace

from queue_engine.domain.facts import BranchRules, PullRequest, Review, ReviewOutcome, ReviewState, Snapshot
from queue_engine.domain.model import Repository
from queue_engine.domain.port import GitHub
from queue_engine.domain.reasons import Reason

_VERDICTS = frozenset({ReviewState.APPROVED, ReviewState.CHANGES_REQUESTED, ReviewState.DISMISSED})

_MAY_LACK = frozenset({"blocked", "unknown"})
"""What GitHub says while something is missing, or while it still works that out."""

_MOST_ASKED = 10
"""How many reviewers are looked up."""


def requires_reviews(pull: PullRequest, rules: BranchRules) -> bool:
    """Whether reading the reviews may tell anything: rules demand some, and something may be missing.

    Of approvals that IMQ may bypass, GitHub's state of the pull request says nothing.
    """
    if rules.approvals_bypassed:
        return True
    return pull.merge_state in _MAY_LACK and _demanded(rules)


async def reviews_of(
    github: GitHub, repository: Repository, taken: Snapshot, rules: BranchRules
) -> tuple[Review, ...] | None:
    """The verdict of everybody who reviewed and may write; None where they cannot matter. Raises GitHubError.

    Only where the snapshot lacks them are they asked for. REST tells of reviewers that they belong to the project, and
    not even that of private members (coder #24299), so that whether they may write is asked for each.
    """
    counted = counted_reviews(taken, rules)
    if counted is not None or not requires_reviews(taken.pull, rules):
        return counted
    verdicts = newest(await github.reviews(repository, taken.pull.number))
    standing = [verdict for verdict in verdicts if verdict.state is not ReviewState.DISMISSED]
    # Those of whom GitHub says that they belong first, so that strangers who review keep nobody's from counting.
    asked = sorted(standing, key=lambda verdict: not verdict.by_writer)[:_MOST_ASKED]
    may_write = {each.author: (await github.permission(repository, each.author or "")).may_merge for each in asked}
    return tuple(replace(each, by_writer=may_write.get(each.author, _counts_always(each))) for each in verdicts)


def _counts_always(verdict: Review) -> bool:
    """Whether the review of somebody who was not looked up counts: no approval does (P4)."""
    return verdict.by_writer and verdict.state is not ReviewState.APPROVED


def counted_reviews(taken: Snapshot, rules: BranchRules) -> tuple[Review, ...] | None:
    """The verdicts that the snapshot itself tells; None where it tells none, or they cannot matter.

    GitHub's decision stands for the verdicts, except of a ruleset that IMQ may bypass.
    """
    if taken.decision is not None and _demanded(rules) and not rules.approvals_bypassed:
        return taken.reviews or ()
    return taken.reviews if requires_reviews(taken.pull, rules) else None


def newest(reviews: Iterable[Review]) -> tuple[Review, ...]:
    """Of each person the newest review that is more than a comment; `reviews` are oldest first.

    Deleted accounts are nobody: what they said does not count any more.
    """
    verdicts = (review for review in reviews if review.state in _VERDICTS and review.author is not None)
    return tuple({review.author: review for review in verdicts}.values())


def missing_approval(
    reviews: Iterable[Review], rules: BranchRules, decision: ReviewOutcome | None = None
) -> tuple[Reason, str] | None:
    """What is missing, and of whom or how many; None when these reviews are enough as far as they tell.

    GitHub's own decision counts where it made one. It makes none for reviews that it does not count there, such as
    those that only a ruleset demands (atlantis #6373): then they are counted here. So its approval alone is not enough
    for a ruleset that IMQ may bypass: it may be the word of a weaker classic protection.
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
        # There are enough: whose is missing GitHub does not tell.
        if rules.code_owners:
            return Reason.CODE_OWNER_MISSING, ""
        return Reason.APPROVAL_MISSING, "GitHub still requires a review, for example of the newest push"
    return None


def _demanded(rules: BranchRules) -> bool:
    return rules.approvals > 0 or rules.code_owners
