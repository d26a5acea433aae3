"""Who is in a team, and how long IMQ believes what it read of it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bot.gateway.http.connection import Connection
from bot.gateway.people import KnownTeams, Team, Teams
from queue_engine.core.database.database import Database
from queue_engine.domain.model import Repository
from queue_engine.store import Store
from queue_engine.store.known import changed_teams
from tests.acceptance.starting import SharedClock
from tests.unit.queue_engine.examples import POLICY, REPOSITORY

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
NAMING = replace(POLICY, who_may_queue=replace(POLICY.who_may_queue, teams=frozenset({"core"})))


class Pages:
    """Answers a team in so many full pages, each with a link to the next one if there is one."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def pages(self, *_: object) -> AsyncIterator[Any]:
        for number in range(self.count):
            links = {"next": "more"} if number + 1 < self.count else {}
            yield SimpleNamespace(data=[{"login": f"Kim-{number}"}], links=links)


@pytest.mark.parametrize(("pages", "members"), [(1, 1), (10, 10), (11, 0)])
async def test_team_of_up_to_a_thousand_members_counts_and_none_of_a_larger_one(pages: int, members: int) -> None:
    """P5: no configuration makes IMQ read without end. Logins differ in more than case."""
    team = await Teams(cast(Connection, Pages(pages))).team(REPOSITORY, "core")
    assert len(team.members) == members
    assert (team.unread is None, "kim-0" in team.members) == (members > 0, members > 0)


class Reads:
    """Answers a team, and counts how often it was asked for."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.count = 0

    async def __call__(self, _: Repository, slug: str) -> Team:
        assert slug == "core"
        self.count += 1
        return self.team


@pytest.mark.parametrize(
    ("team", "after", "reads"),
    [
        (Team(frozenset({"kim"})), 59 * MINUTE, 1),
        (Team(frozenset({"kim"})), 61 * MINUTE, 2),
        (Team(unread="no right"), 9 * MINUTE, 1),
        (Team(unread="no right"), 11 * MINUTE, 2),
    ],
)
async def test_team_is_read_again_after_an_hour_and_one_that_imq_cannot_read_after_ten_minutes(
    sqlite_database: Database, team: Team, after: timedelta, reads: int
) -> None:
    """P7: between them the database answers."""
    clock, read = SharedClock(), Reads(team)
    known = KnownTeams(read, Store(sqlite_database), clock)
    first = await known.apply(NAMING, REPOSITORY, file="imq.yml")
    clock.set(clock.now() + after)
    assert await known.apply(NAMING, REPOSITORY, file="imq.yml") == first
    assert read.count == reads


async def test_team_that_was_read_in_the_seconds_after_a_change_is_read_once_more(sqlite_database: Database) -> None:
    """GitHub's reads may show the members from before the change."""
    clock, read, store = SharedClock(), Reads(Team(frozenset({"kim"}))), Store(sqlite_database)
    known = KnownTeams(read, store, clock)
    async with store.transaction() as tx:
        await tx.sweeps.done(changed_teams(REPOSITORY.installation_id), clock.now())
    counts = []
    for after in (SECOND, 2 * SECOND, 10 * SECOND, 5 * MINUTE):
        clock.set(clock.now() + after)
        await known.apply(NAMING, REPOSITORY, file="imq.yml")
        counts.append(read.count)
    assert counts == [1, 1, 2, 2]
