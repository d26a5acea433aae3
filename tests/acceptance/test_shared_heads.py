"""One head branch with pull requests into two base branches, both of which are queued."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.world import CI_TIME, LABEL, World

UPDATE = "PUT /repos/{owner}/{repo}/pulls/{number}/update-branch"


async def shared(world: World, *, contains: bool) -> tuple[Any, Any]:
    """Pull requests of one branch into `main` and `develop`; `main` moved since, and `develop` may contain that."""
    repository = world.repository
    repository.create_branch("develop", "main")
    into_main = world.open("fix")
    into_develop = repository.open_pull_request("Fix develop", head="fix", base="develop", by="mona")
    await world.pass_time(CI_TIME * 2)
    repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    if contains:
        repository.push_commit("develop", repository.sha("main"), by="rhea")
    await world.settle()
    return into_main, into_develop


@pytest.mark.lagging
@pytest.mark.parametrize("contains", [True, False])
async def test_second_pull_request_of_a_branch_waits_for_the_first(world: World, contains: bool) -> None:
    """Before any update of the branch the comment names the other one; it joins, or its consent ends by that update."""
    into_main, into_develop = await shared(world, contains=contains)
    into_main.comment("/pause", by="rhea")
    await world.settle()
    into_main.label(LABEL, by="mona")
    await world.settle()
    into_develop.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=12))
    assert f"#{into_main.number}, queued for main" in world.comment(into_develop)
    into_main.comment("/resume", by="rhea")
    await world.until(lambda: into_main.merged, within=CI_TIME * 4)
    if contains:
        await world.until(lambda: into_develop.merged, within=CI_TIME * 6)
    else:
        await world.until(lambda: LABEL not in into_develop.labels, within=CI_TIME * 2)
        assert (await world.reasons(into_develop))[-1] == "updated_for_another"
    assert await world.paused() is None


@pytest.mark.thorough
@pytest.mark.lagging
async def test_second_pull_request_of_a_branch_joins_when_the_first_is_dequeued(world: World) -> None:
    """Nothing moved the branch: its consent holds."""
    into_main, into_develop = await shared(world, contains=False)
    into_main.comment("/pause", by="rhea")
    await world.settle()
    into_main.label(LABEL, by="mona")
    await world.settle()
    into_develop.label(LABEL, by="mona")
    await world.settle()
    into_main.unlabel(LABEL, by="mona")
    await world.until(lambda: into_develop.merged, within=CI_TIME * 6)


@pytest.mark.lagging
async def test_two_that_are_updated_at_once_name_each_other_where_one_leaves(world: World) -> None:
    """P4: both were queued before IMQ let the second one wait; the update for one is no push by somebody else."""
    into_main, into_develop = await shared(world, contains=False)
    world.repository.push("develop", {"new.py": "new\n"}, "Move develop", by="rhea")
    into_main.comment("/pause", by="rhea")
    await world.settle()
    for pull in (into_main, into_develop):
        pull.label(LABEL, by="mona")
        await world.pass_time(timedelta(seconds=5))
    async with world.bot.engine.change() as change:
        waiting = await change.tx.entries.find(world.repository.record.id, into_develop.number)
        assert waiting is not None
        await change.tx.entries.save(replace(waiting, unmet=()))
        await change.tx.queues.wake(waiting.queue_id, change.now)
    into_main.comment("/resume", by="rhea")
    await world.until(lambda: {LABEL in pull.labels for pull in (into_main, into_develop)} == {False})
    await world.settle()
    landed, left = sorted((into_main, into_develop), key=lambda pull: not pull.merged)
    assert (landed.merged, left.merged) == (True, False)
    assert (await world.reasons(left))[-1] == "updated_for_another"
    assert f"#{landed.number}, queued for {landed.record.base_branch}" in world.comment(left)


@pytest.mark.lagging
@pytest.mark.parametrize("contains", [True, False])
async def test_update_for_another_reaches_a_draft_that_waits(world: World, contains: bool) -> None:
    """P4: no webhook says who pushed; the stored update of the other one does."""
    into_main, into_develop = await shared(world, contains=contains)
    into_develop.convert_to_draft(by="mona")
    into_develop.label(LABEL, by="mona")
    await world.settle()
    world.github.webhooks.faults.drop(None, event="pull_request", action="synchronize")
    into_main.label(LABEL, by="mona")
    await world.until(lambda: into_main.merged, within=CI_TIME * 8)
    await world.settle()
    if contains:
        into_develop.ready_for_review(by="mona")
        await world.until(lambda: into_develop.merged, within=CI_TIME * 6)
    else:
        await world.until(lambda: LABEL not in into_develop.labels, within=timedelta(minutes=30))
        assert (await world.reasons(into_develop))[-1] == "updated_for_another"
