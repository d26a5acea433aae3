"""What is remembered of people's permissions, and how often GitHub is asked."""

from datetime import timedelta
from typing import cast

import pytest

from bot.api.api_errors import ApiError
from bot.api.permissions import (
    CACHED_FOR,
    MAX_LOOKUPS,
    PER_HOUR,
    PER_MINUTE,
    WRITE_COST,
    Budget,
    Permissions,
    PersonPermission,
)
from queue_engine.domain.errors import Unavailable
from queue_engine.domain.facts import Actor, Permission
from queue_engine.domain.model import Repository
from queue_engine.store import Store
from queue_engine.store.tokens import Token, TokenPolicy
from tests.unit.bot.api.api_server import NOW, Clock

MONA = Token("t", "ci", TokenPolicy(login="mona", person_id=4711), NOW, None)
MANY = [Repository(number, "acme", f"r{number}", 70) for number in range(1, 31)]


class Github:
    """Lets mona read the repositories with even ids, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.away: set[int] = set()

    async def collaborator(self, repository: Repository, login: str) -> tuple[Actor | None, Permission]:
        self.asked.append(repository.id)
        if repository.id in self.away:
            raise Unavailable("GitHub is away")
        return Actor(4711, login), Permission.NONE if repository.id % 2 else Permission.READ

    async def by_id(self, installation_id: int, person_id: int) -> Actor | None:
        raise AssertionError("nobody was renamed")


@pytest.fixture
def github() -> Github:
    return Github()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def permissions(github: Github, clock: Clock) -> Permissions:
    return Permissions(github, cast(Store, None), clock, random=lambda: 0.0)


async def test_list_asks_about_some_and_the_next_one_about_others(permissions: Permissions, github: Github) -> None:
    """The list omits a repository whose permission is unknown yet; each repository costs one request."""
    first = await permissions.readable(MONA, MANY + MANY, [])
    assert len(github.asked) == MAX_LOOKUPS
    assert first == {each for each in github.asked if each % 2 == 0}
    assert not permissions.knows(MONA, MANY), "the page says so"
    assert await permissions.readable(MONA, MANY, []) == {each.id for each in MANY if each.id % 2 == 0}
    assert await permissions.readable(MONA, MANY, []) == {each.id for each in MANY if each.id % 2 == 0}
    assert sorted(github.asked) == [each.id for each in MANY]
    assert permissions.knows(MONA, MANY)


async def test_repositories_beside_a_list_are_returned_if_known_and_never_requested(
    permissions: Permissions, github: Github
) -> None:
    """Idle queues cost GitHub nothing (P7)."""
    assert await permissions.readable(MONA, MANY[:2], MANY[2:]) == {2}
    assert await permissions.readable(MONA, [], MANY) == {2}
    assert github.asked == [1, 2]


async def test_list_omits_repositories_that_github_does_not_answer_for(
    permissions: Permissions, github: Github
) -> None:
    """It is asked about again the next time; others are shown."""
    github.away = {2}
    assert await permissions.readable(MONA, MANY[:4], []) == {4}
    github.away = set()
    assert await permissions.readable(MONA, MANY[:4], []) == {2, 4}
    assert github.asked == [1, 2, 3, 4, 2]


@pytest.mark.parametrize("passed", [CACHED_FOR, timedelta(seconds=-1)], ids=["minutes later", "a clock set back"])
async def test_permission_is_remembered_for_minutes(
    permissions: Permissions, github: Github, clock: Clock, passed: timedelta
) -> None:
    """Not for longer, whatever the clock does. The documents tell operators of five minutes."""
    assert timedelta(minutes=5) == CACHED_FOR
    await permissions.of(MONA, MANY[1])
    clock.move(CACHED_FOR - timedelta(seconds=1))
    await permissions.of(MONA, MANY[1])
    assert github.asked == [2]
    clock.instant = NOW + passed
    await permissions.of(MONA, MANY[1])
    assert github.asked == [2, 2]


async def test_permissions_that_were_asked_for_together_are_not_asked_for_again_together(
    github: Github, clock: Clock
) -> None:
    """The first of them after four minutes, the last within five, so that a long list is not empty at once."""
    lots = iter([number / 10 for number in range(10)] * 2)
    permissions = Permissions(github, cast(Store, None), clock, random=lambda: next(lots))
    await permissions.readable(MONA, MANY[:10], [])
    asked = []
    for passed in (245, 260, 300):
        clock.instant = NOW + timedelta(seconds=passed)
        github.asked.clear()
        await permissions.readable(MONA, MANY[:10], [])
        asked.append(len(github.asked))
    assert asked == [0, 3, 7]


async def test_budget_of_an_hour_holds_when_that_of_each_minute_does(clock: Clock) -> None:
    """And another person has one of their own; operators have none."""
    budget, other = Budget(clock), Token("u", "other", TokenPolicy(login="tria", person_id=4712), NOW, None)
    for _ in range(PER_HOUR // PER_MINUTE):
        for _ in range(PER_MINUTE // 4):
            budget.spend(MONA, WRITE_COST)
            budget.spend(MONA)
        assert not budget.allows(MONA)
        clock.move(timedelta(minutes=1))
    with pytest.raises(ApiError, match="made too many calls") as refused:
        budget.spend(MONA)
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "3000"})
    budget.spend(other)
    for _ in range(PER_HOUR + 1):
        budget.spend(Token("o", "ops", TokenPolicy(operator=True), NOW, None))
    clock.move(timedelta(minutes=50))
    budget.spend(MONA)


async def test_person_whose_login_somebody_else_has_now_has_no_right(permissions: Permissions, github: Github) -> None:
    """A person is one by GitHub's id; the new owner of the login gets nothing of theirs."""

    async def unchanged(installation_id: int, person_id: int) -> Actor | None:
        return Actor(person_id, "Mona")

    github.by_id = unchanged  # type: ignore[method-assign]
    gave_it_up = Token("v", "old", TokenPolicy(login="mona", person_id=1), NOW, None)
    assert (await permissions.of(gave_it_up, MANY[1])).permission is Permission.NONE
    assert github.asked == [2], "GitHub writes logins in another case than people"
    assert (await permissions.of(MONA, MANY[1])).permission is Permission.READ


async def test_login_that_changed_its_owner_between_two_questions_gives_no_right(
    permissions: Permissions, github: Github, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GitHub returns a person's new login, and before the next request somebody else may have taken it."""

    async def renamed(installation_id: int, person_id: int) -> Actor | None:
        return Actor(person_id, "lisa")

    async def bound(self: Permissions, token: Token, account: Actor) -> None:
        assert account == Actor(1, "lisa")

    github.by_id = renamed  # type: ignore[method-assign]
    monkeypatch.setattr(Permissions, "_bind", bound)
    token = Token("v", "old", TokenPolicy(login="mona", person_id=1), NOW, None)
    assert await permissions.of(token, MANY[1]) == PersonPermission("mona", Permission.NONE)
    assert github.asked == [2, 2]
