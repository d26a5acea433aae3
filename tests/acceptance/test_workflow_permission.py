"""A change of workflow files where IMQ lacks the `workflows` permission: it stays queued, and no other waits for it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.train_world import a_train_world, queue_all, ready
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


@pytest.mark.thorough
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


@pytest.mark.thorough("True")
@pytest.mark.parametrize("conflicts", [False, True])
async def test_change_of_workflows_in_a_train_is_set_aside_and_the_others_are_tested_without_it(
    tmp_path: Path, conflicts: bool
) -> None:
    """P5: trains stay on, whichever status GitHub's refusal has; with the permission it lands as well."""
    async with a_train_world(tmp_path) as world:
        world.github.behaviour.merges_refuse_workflows_with_409 = conflicts
        pulls = await ready(world, "a", "b", "c", files=[{"a.py": "a\n"}, WORKFLOW, {"c.py": "c\n"}])
        first, change, last = pulls
        queue_all(pulls)
        await world.until(lambda: first.merged and last.merged, within=timedelta(minutes=10))
        await world.settle()
        assert not change.merged
        assert "without `workflows` permission" in world.comment(change).replace("``", "`")
        accept(world, webhook=True)
        await world.until(lambda: change.merged, within=timedelta(minutes=10))
        async with world.bot.engine.store.reading() as tx:
            history = await tx.timeline.of_pull_request(world.repository.record.id, 0)
        assert "trains_off" not in [each.event for each in history]
        assert await world.reasons(change) == ["workflows_permission"]
