"""A review of a code owner is missing: the comment names the owners, as far as GitHub shows them."""

from typing import Any

import pytest

from github_emulator import ReviewRule
from tests.acceptance.choosing import green
from tests.acceptance.test_teams import permit
from tests.acceptance.world import LABEL, World


async def owned(world: World, owners: str, **more: Any) -> Any:
    """A green pull request that hubot approved, and that changes files of these owners."""
    world.repository.push("main", {".github/CODEOWNERS": f"*.py {owners}\n"}, "Own", by="rhea")
    world.repository.protect(
        "main",
        required_checks=[("ci/test", world.app_id("ci"))],
        reviews=ReviewRule(1, code_owners=True),
        by="rhea",
    )
    pull = await green(world, "change", **more)
    pull.review("APPROVED", by="hubot")
    pull.label(LABEL, by="mona")
    await world.settle()
    return pull


@pytest.mark.lagging
async def test_people_who_own_the_files_are_named(world: World) -> None:
    """Who has given a verdict is not."""
    pull = await owned(world, "@rhea @robot[bot]")
    assert "review requested from rhea" in world.comment(pull)


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("permitted", [True, False])
async def test_team_that_owns_the_files_is_named_with_the_permission_for_members(world: World, permitted: bool) -> None:
    """P7: the query is the same; without the permission GitHub shows no team."""
    world.repository.record.owner.kind = "Organization"
    world.github.create_team("acme", "Core", "rhea")
    if permitted:
        permit(world)
        await world.settle()
    pull = await owned(world, "@acme/core")
    comment = world.comment(pull)
    assert "requires an approval from a code owner" in comment
    assert ("review requested from acme/core" in comment) is permitted


@pytest.mark.thorough
@pytest.mark.lagging
async def test_pull_request_lands_after_a_code_owner_agreed(world: World) -> None:
    """A member of the team suffices."""
    world.github.create_team("acme", "Core", "rhea")
    pull = await owned(world, "@acme/core")
    pull.review("APPROVED", by="rhea")
    pull.label(LABEL, by="mona")
    await world.until(lambda: bool(pull.merged))
