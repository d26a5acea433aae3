"""Whose reviews count where REST tells them: those of people who may write, each asked for."""

from typing import cast

import pytest

from queue_engine.approvals import missing_approval, reviews_of
from queue_engine.facts import Permission, Review, ReviewDecision, ReviewState, Snapshot
from queue_engine.port import GitHub
from queue_engine.reasons import Reason
from tests.queue_engine.examples import REPOSITORY, pull, rules

TAKEN = Snapshot(pull(merge_state="blocked"))
ONE = rules(approvals=1)


class Reviewed:
    """Tells reviews, and the permission of each reviewer by the login's first word."""

    def __init__(self, *reviews: Review) -> None:
        self.told = reviews
        self.asked: list[str] = []

    async def reviews(self, *_: object) -> tuple[Review, ...]:
        return self.told

    async def permission(self, _repository: object, login: str) -> Permission:
        self.asked.append(login)
        return Permission(login.partition("-")[0])


def approved(login: str, state: ReviewState = ReviewState.APPROVED) -> Review:
    return Review(login, state, "head-1", by_writer=False)


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
    """P7: hundreds of strangers may approve; a dismissed review tells nothing of a right."""
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
    """GitHub does not tell whose it is: a code owner's, or one of the newest push."""
    demanded = rules(approvals=1, code_owners=code_owners)
    enough = [Review("ann", ReviewState.APPROVED, "head-1", by_writer=True)]
    missing = missing_approval(enough, demanded, ReviewDecision.REVIEW_REQUIRED)
    assert missing is not None
    assert missing[0] is reason
