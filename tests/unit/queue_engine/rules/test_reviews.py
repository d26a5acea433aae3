"""Reviews that REST shows count if their author has write permission, which IMQ reads for each."""

from dataclasses import replace
from typing import cast

import pytest

from queue_engine.domain.facts import Permission, Review, ReviewOutcome, ReviewState, Snapshot
from queue_engine.domain.port import GitHub
from queue_engine.domain.reasons import Reason
from queue_engine.rules.reviews import counted_reviews, missing_approval, newest, reviews_of
from tests.unit.queue_engine.examples import REPOSITORY, pull, rules

TAKEN = Snapshot(pull(merge_state="blocked"))
ONE = rules(approvals=1)


class Reviewed:
    """Returns reviews, and the permission of each reviewer by the login's first word."""

    def __init__(self, *reviews: Review) -> None:
        self.answer = reviews
        self.asked: list[str] = []

    async def reviews(self, *_: object) -> tuple[Review, ...]:
        return self.answer

    async def permission(self, _repository: object, login: str) -> Permission:
        self.asked.append(login)
        return Permission(login.partition("-")[0])


def approved(login: str, state: ReviewState = ReviewState.APPROVED) -> Review:
    return Review(login, state, by_writer=False)


@pytest.mark.parametrize(
    ("login", "missing"),
    [
        ("write-ann", None),
        ("admin-ann", None),
        ("triage-ann", (Reason.APPROVAL_MISSING, "0 of 1")),
        ("read-ann", (Reason.APPROVAL_MISSING, "0 of 1")),
        ("none-ann", (Reason.APPROVAL_MISSING, "0 of 1")),
    ],
)
async def test_approval_counts_by_the_permission_of_who_gave_it(login: str, missing: tuple[Reason, str] | None) -> None:
    """P4: anybody may review a public repository."""
    github = Reviewed(approved(login))
    reviews = await reviews_of(cast(GitHub, github), REPOSITORY, TAKEN, ONE)
    assert reviews is not None
    assert missing_approval(reviews, ONE) == missing


async def test_permission_of_few_reviewers_is_asked_for_and_each_once() -> None:
    """P7: hundreds of outsiders may approve; IMQ reads no permission for a dismissed review."""
    crowd = [approved(f"write-{number}") for number in range(40)]
    gone = approved("write-gone", ReviewState.DISMISSED)
    github = Reviewed(gone, *crowd, crowd[0])
    reviews = await reviews_of(cast(GitHub, github), REPOSITORY, TAKEN, ONE)
    assert len(github.asked) == len(set(github.asked)) == 10
    assert gone.author not in github.asked
    assert sum(review.by_writer for review in reviews or ()) == 10


@pytest.mark.parametrize(
    ("code_owners", "reason"), [(True, Reason.CODE_OWNER_MISSING), (False, Reason.APPROVAL_MISSING)]
)
def test_review_that_github_still_requires_is_missing_whatever_the_count(code_owners: bool, reason: Reason) -> None:
    """GitHub does not say whose review is missing: a code owner's, or one of the newest push."""
    demanded = rules(approvals=1, code_owners=code_owners)
    enough = [Review("ann", ReviewState.APPROVED, by_writer=True)]
    missing = missing_approval(enough, demanded, ReviewOutcome.REVIEW_REQUIRED)
    assert missing is not None
    assert missing[0] is reason


async def test_rights_of_reviewers_who_belong_to_the_project_are_read_first() -> None:
    """P4: approvals by outsiders hide neither an approval nor an objection by a member."""
    strangers = [approved(f"read-{number}") for number in range(10)]
    own = replace(approved("write-mona"), by_writer=True)
    reviews = await reviews_of(cast(GitHub, Reviewed(*strangers, own)), REPOSITORY, TAKEN, ONE)
    assert missing_approval(reviews or (), ONE) is None
    crowd = [replace(approved(f"read-{number}"), by_writer=True) for number in range(10)]
    reviews = await reviews_of(cast(GitHub, Reviewed(*crowd, own)), REPOSITORY, TAKEN, ONE)
    assert missing_approval(reviews or (), ONE) == (Reason.APPROVAL_MISSING, "0 of 1"), "it was not looked up"
    against = replace(own, state=ReviewState.CHANGES_REQUESTED)
    reviews = await reviews_of(cast(GitHub, Reviewed(*crowd, against)), REPOSITORY, TAKEN, ONE)
    assert missing_approval(reviews or (), ONE) == (Reason.CHANGES_REQUESTED, "write-mona")


def test_review_of_a_deleted_account_does_not_count() -> None:
    """A deleted account can neither withdraw an objection nor merge."""
    assert newest([Review(None, ReviewState.CHANGES_REQUESTED, by_writer=True)]) == ()


@pytest.mark.parametrize("bypassed", [True, False])
def test_decision_of_github_stands_for_reviews_unless_imq_may_bypass_what_demands_them(bypassed: bool) -> None:
    """P4: it may be the word of a weaker classic protection."""
    demanded = rules(approvals=1, approvals_bypassed=bypassed)
    answer = counted_reviews(Snapshot(pull(), decision=ReviewOutcome.APPROVED), demanded)
    assert answer == (None if bypassed else ())
    missing = missing_approval((), demanded, ReviewOutcome.APPROVED)
    assert missing == ((Reason.APPROVAL_MISSING, "0 of 1") if bypassed else None)
