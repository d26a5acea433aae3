"""A change of workflow files where IMQ lacks the `workflows` permission: it is not ejected, and no other waits for it.

Covers `queue_engine/handlers/permissions.py`.
"""

from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.world import CI_TIME, LABEL, World

WORKFLOW = {".github/workflows/test.yml": "on: push\n"}
MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"


async def blocked(world: World) -> Any:
    """A queued change of workflows that GitHub refused to merge for IMQ."""
    pull = world.open("add", files=WORKFLOW)
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.until(lambda: world.requests(MERGE) == 1, within=timedelta(minutes=1))
    await world.settle()
    return pull


def accept(world: World, *, webhook: bool) -> None:
    """The owner accepts the permission; the webhook may be lost. Tokens keep the permissions they were made with."""
    installed = world.github.state.installations_of(world.repository.record)
    installation = next(one for one in installed if one.app is world.app)
    if webhook:
        world.github.accounts.accept_permissions(installation, {"workflows": "write"})
    else:
        installation.permissions["workflows"] = "write"


@pytest.mark.parametrize("webhook", [True, False])
async def test_pull_request_waits_for_the_permission_and_lands_when_it_is_accepted(world: World, webhook: bool) -> None:
    """P4, P5: its label stays, the next one lands meanwhile, and no person has to queue it again."""
    pull = await blocked(world)
    assert LABEL in pull.labels
    assert "waiting for a permission" in world.comment(pull).lower()
    assert "without `workflows` permission" in world.comment(pull).replace("``", "`")
    assert "Next step for a maintainer" in world.comment(pull)
    other = world.open("other")
    other.label(LABEL, by="mona")
    await world.until(lambda: other.merged, within=CI_TIME * 2)
    assert not pull.merged
    accept(world, webhook=webhook)
    await world.until(lambda: pull.merged, within=CI_TIME * 2 if webhook else timedelta(hours=3))
    await world.settle()
    assert await world.reasons(pull) == ["workflows_permission"]
    assert "anded" in world.comment(pull)
    assert LABEL not in pull.labels


async def test_pull_request_that_waits_for_the_permission_still_needs_consent(world: World) -> None:
    """P4: a push meanwhile dequeues it, as in any other waiting state."""
    pull = await blocked(world)
    pull.push({"more.py": "more\n"}, by="hubot")
    await world.until(lambda: LABEL not in pull.labels, within=timedelta(minutes=1))
    accept(world, webhook=True)
    await world.pass_time(timedelta(hours=2))
    assert not pull.merged
    assert await world.reasons(pull) == ["workflows_permission", "head_changed"]
