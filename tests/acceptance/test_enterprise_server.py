"""IMQ on GitHub Enterprise Server: the oldest version that GitHub supports, and the newest."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from github_emulator import ABSENT_FROM_ENTERPRISE_SERVER, ENTERPRISE_SERVERS
from tests.acceptance.callers import caller
from tests.acceptance.train_world import a_train_world, commits_tested, queue_all, ready
from tests.acceptance.world import CI_TIME, LABEL, World

VERSIONS = (ENTERPRISE_SERVERS[0], ENTERPRISE_SERVERS[-1])


def absent(world: World) -> list[str]:
    """What IMQ asked for that the server lacks."""
    return [each for each in ABSENT_FROM_ENTERPRISE_SERVER if world.server.requests.of(each)]


@pytest.mark.thorough
@pytest.mark.parametrize("version", VERSIONS)
async def test_pull_requests_land_one_after_the_other(world: World, version: Any) -> None:
    """The second is behind the first, is updated, tested again, and lands; nothing is asked that is not there."""
    world.github.behaviour.enterprise_server = version
    pulls = [world.open("one"), world.open("two")]
    await world.pass_time(CI_TIME * 2)
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.until(lambda: all(pull.merged for pull in pulls))
    assert absent(world) == []


@pytest.mark.thorough
@pytest.mark.parametrize("version", VERSIONS)
async def test_train_lands_its_members_after_one_run(tmp_path: Path, version: Any) -> None:
    """Three members, one tested commit, and the base moved by `updateRefs`, which each version has."""
    async with a_train_world(tmp_path) as world:
        world.github.behaviour.enterprise_server = version
        pulls = await ready(world, "one", "two", "three")
        tested = commits_tested(world)
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=1))
        assert commits_tested(world) - tested == 1
        assert absent(world) == []


async def test_doctor_says_what_the_server_lacks(world: World, session: aiohttp.ClientSession) -> None:
    """Of github.com it says nothing."""
    ops = await caller(world, session, None, name="ops", operator=True)
    assert (await ops.ask("GET", "/api/v1/doctor")).body["server"] is None
    world.github.behaviour.enterprise_server = "3.19"
    report = (await ops.ask("GET", "/api/v1/doctor")).body
    assert report["server"].startswith("Enterprise Server 3.19.0. It has no stacks and no `merge-async`")
    assert "server_too_old" not in {each["code"] for each in report["findings"]}
