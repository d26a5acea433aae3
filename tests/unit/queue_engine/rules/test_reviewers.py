"""Whose reviews count where only REST shows them: IMQ reads people's rights, and strangers crowd no member out."""

from types import SimpleNamespace
from typing import Any, cast

from queue_engine.domain.facts import Permission, Review, ReviewState, Snapshot
from queue_engine.domain.port import GitHub
from queue_engine.rules.reviews import reviews_of
from tests.unit.queue_engine.examples import REPOSITORY, pull, rules

STRANGERS = [Review(f"stranger-{number}", ReviewState.APPROVED, by_writer=False) for number in range(30)]


async def counted(reviews: list[Review], writers: set[str]) -> tuple[set[str | None], int]:
    """Whose reviews count, and how many people were looked up."""
    logins: list[str] = []

    async def permission(_repository: Any, login: str) -> Permission:
        logins.append(login)
        return Permission.WRITE if login in writers else Permission.READ

    async def listed(_repository: Any, _number: int) -> tuple[Review, ...]:
        return tuple(reviews)

    github = cast(GitHub, SimpleNamespace(permission=permission, reviews=listed))
    taken = Snapshot(pull(merge_state="blocked"), None)
    found = await reviews_of(github, REPOSITORY, taken, rules("ci", approvals=1))
    return {each.author for each in found or () if each.by_writer}, len(logins)


async def test_approval_counts_behind_thirty_strangers() -> None:
    """P5: reviewers with read access keep no approval from counting, at the same cost."""
    approval = Review("mona", ReviewState.APPROVED, by_writer=True)
    assert await counted([*STRANGERS, approval], {"mona"}) == ({"mona"}, 10)


async def test_approvals_of_people_whose_rights_were_not_read_do_not_count() -> None:
    """P4: a member of the organisation who may only read is no approver, the eleventh neither."""
    members = [Review(f"member-{number}", ReviewState.APPROVED, by_writer=True) for number in range(11)]
    against = Review("late", ReviewState.CHANGES_REQUESTED, by_writer=True)
    assert await counted([*members, against], set()) == ({"late"}, 10)
