"""Teams that `who_may_queue.teams` names: their members queue, and a team that IMQ cannot read gives no right."""

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.choosing import configure, green
from tests.acceptance.project import EVENTS
from tests.acceptance.test_configuration import validate
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

TEAMS = "who_may_queue: {permission: admin, teams: release-managers}\n"
READ = "GET /orgs/{org}/teams/{team_slug}/members"
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture
async def world(tmp_path: Path, lag: timedelta) -> AsyncIterator[World]:
    """A world of an organisation with a team and a child team, whose App may read the members."""
    async with a_world(tmp_path, lag=lag) as made:
        made.repository.record.owner.kind = "Organization"
        made.app.events = frozenset({*EVENTS, "membership", "team"})
        permit(made)
        team = made.github.create_team("acme", "Release Managers", "mona")
        made.github.create_team("acme", "On Call", "tria", parent=team)
        await made.settle()
        yield made


def permit(world: World) -> None:
    """An owner accepts that the App may read members."""
    installations = world.github.state.installations_of(world.repository.record)
    (own,) = (installation for installation in installations if installation.app is world.app)
    world.github.accounts.accept_permissions(own, {"members": "read"})


def team(world: World, slug: str = "release-managers") -> Any:
    return world.github.teams.find("acme", slug)


async def refused(world: World, pull: Any, *, by: str) -> str:
    """Set the label, and see it refused; IMQ's comment."""
    pull.label(LABEL, by=by)
    await world.until(lambda: LABEL not in pull.labels, within=MINUTE)
    await world.settle()
    return world.comment(pull)


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("name", ["release-managers", "acme/Release-Managers", '"@acme/release-managers"'])
async def test_member_of_a_team_queues(world: World, name: str) -> None:
    """mona may write, which is not enough here, and is in the team."""
    await configure(world, f"who_may_queue: {{permission: admin, teams: {name}}}\n")
    pull = await green(world, "front")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=MINUTE)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_member_of_a_child_team_queues_and_others_do_not(world: World) -> None:
    """GitHub counts the members of child teams, too."""
    await configure(world, TEAMS)
    pull = await green(world, "front")
    comment = await refused(world, pull, by="hubot")
    assert await world.reasons(pull) == ["not_allowed_to_queue"]
    assert "IMQ cannot read" not in comment
    pull.label(LABEL, by="tria")
    await world.until(lambda: pull.merged, within=MINUTE)


@pytest.mark.parametrize("status", [403, 404])
async def test_unreadable_team_gives_no_right_and_the_comment_says_so(
    world: World, status: Any, tmp_path: Path
) -> None:
    """P4: GitHub refuses the read in one of two ways."""
    world.github.behaviour.hidden_teams_status = status
    world.grant("members", None)
    await configure(world, TEAMS)
    pull = await green(world, "front")
    comment = await refused(world, pull, by="mona")
    assert "IMQ cannot read the members of acme/release-managers" in comment
    assert "members: read" in comment
    pull.comment("/queue", by="mona")
    await world.settle()
    assert "IMQ cannot read the members of acme/release-managers" in world.comment(pull).split("What happened")[0]
    target = f"acme/widgets#{pull.number}"
    output = (await validate(world, tmp_path, TEAMS, "--against", target, "--by", "mona")).output
    assert "IMQ cannot read the members of acme/release-managers" in output


@pytest.mark.thorough
@pytest.mark.lagging
async def test_granted_permission_counts_at_once(world: World) -> None:
    """GitHub says that an owner accepted it."""
    world.grant("members", None)
    await configure(world, TEAMS)
    pull = await green(world, "front")
    await refused(world, pull, by="mona")
    permit(world)
    await world.pass_time(MINUTE)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=MINUTE)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_person_who_leaves_the_team_lands_nothing_queued_before(world: World) -> None:
    """P4: the webhook has the members read again, and IMQ judges the person again before the merge."""
    await configure(world, TEAMS)
    pull = await world.behind("front")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    world.github.teams.remove(team(world), world.github.user("mona"), actor=world.github.actor("acme"))
    await world.until(lambda: LABEL not in pull.labels, within=CI_TIME * 2)
    assert (pull.merged, await world.reasons(pull)) == (False, ["permission_lost"])


@pytest.mark.thorough
@pytest.mark.lagging
async def test_person_who_joins_the_team_queues_after_the_webhook(world: World) -> None:
    """IMQ reads a team once an hour without one."""
    await configure(world, TEAMS)
    pull = await green(world, "front")
    await refused(world, pull, by="hubot")
    asked = world.requests(READ)
    world.github.teams.add(team(world), world.github.user("hubot"), actor=world.github.actor("acme"))
    await world.settle()
    pull.label(LABEL, by="hubot")
    await world.until(lambda: pull.merged, within=MINUTE)
    assert world.requests(READ) > asked


@pytest.mark.thorough
@pytest.mark.lagging
async def test_repository_that_names_no_team_reads_none_and_one_that_does_reads_it_once_an_hour(world: World) -> None:
    """P7: three landings within the hour cost one read."""
    await world.land_behind_each_other(1)
    assert world.requests(READ) == 0
    await configure(world, TEAMS)
    for name in ("a", "b", "c"):
        pull = await green(world, name)
        pull.label(LABEL, by="mona")
        await world.until(partial(getattr, pull, "merged"), within=MINUTE)
    assert world.authorized(READ) == 1


@pytest.mark.lagging
async def test_team_of_another_organisation_is_named(world: World) -> None:
    """IMQ's token reads the teams of the repository's owner alone."""
    await configure(world, "who_may_queue: {permission: admin, teams: other/core}\n")
    pull = await green(world, "front")
    comment = await refused(world, pull, by="mona")
    assert "IMQ cannot read the members of other/core: the team is not of acme" in comment
    assert world.requests(READ) == 0


@pytest.mark.lagging
async def test_team_that_does_not_exist_is_named(world: World) -> None:
    """As a misspelt one; people with the permission queue all the same."""
    await configure(world, "who_may_queue: {permission: admin, teams: releese}\n")
    pull = await green(world, "front")
    assert "IMQ cannot read the members of acme/releese: GitHub knows no such team" in await refused(
        world, pull, by="mona"
    )
    pull.label(LABEL, by="rhea")
    await world.until(lambda: pull.merged, within=MINUTE)


async def test_personal_account_has_no_teams_and_the_file_is_at_fault(world: World, tmp_path: Path) -> None:
    """The queue holds until somebody corrects the file."""
    world.repository.record.owner.kind = "User"
    world.github.state.teams.clear()
    await configure(world, TEAMS)
    pull = await green(world, "front")
    pull.label(LABEL, by="rhea")
    await world.pass_time(MINUTE)
    assert not pull.merged
    fault = "who_may_queue.teams names teams, but acme is a personal account without any"
    assert fault in world.comment(pull)
    output = (await validate(world, tmp_path, TEAMS, "--against", f"acme/widgets#{pull.number}")).output
    assert fault in output
    await configure(world, "depth: 5\n")
    await world.until(lambda: pull.merged, within=CI_TIME * 2)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_reader_who_is_in_the_team_queues_by_a_command(world: World) -> None:
    """GitHub lets a reader set no label; IMQ asks for the team before it takes the person for an outsider."""
    world.github.create_user("eve")
    world.repository.record.collaborators["eve"] = "read"
    world.github.teams.add(team(world), world.github.user("eve"), actor=world.github.actor("acme"))
    await configure(world, TEAMS)
    pull = await green(world, "front")
    pull.comment("/queue", by="eve")
    await world.until(lambda: pull.merged, within=MINUTE)
