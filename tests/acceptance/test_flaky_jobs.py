"""The jobs of a flaky check, as the statistics name them."""

from datetime import timedelta

import pytest

from github_emulator import CISettings
from tests.acceptance.test_check_outcomes import events, sound, with_unit, world
from tests.acceptance.world import CI_TIME, LABEL, World

__all__ = ["world"]

EDIT = "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}"
CHECK_RUN = "PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}"


async def test_rerun_names_the_jobs_that_failed(world: World) -> None:
    """A required job may only wait for others: the statistics of jobs name those that failed with it."""
    unit = with_unit(world)
    lint = world.repository.add_ci("lint", CISettings(workflow="ci", duration=CI_TIME, judge=sound))
    pull = await world.behind("flaky")
    unit.plan = lint.plan = ("failure",)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    [rerun] = await events(world, pull, "rerun")
    assert [(each["check"], sorted(each["jobs"])) for each in rerun["failing"]] == [("unit", ["lint", "unit"])]
    async with world.bot.engine.store.reading() as tx:
        [left] = await tx.departures.of_pull_request(pull.record.repository.id, pull.number)
    assert [(each.name, sorted(each.jobs)) for each in left.flaky] == [("unit", ["lint", "unit"])]


@pytest.mark.thorough
async def test_comment_is_not_edited_while_failed_checks_run_again(world: World) -> None:
    """P6: an edit starts workflows on `issue_comment`, which may cancel the rerun; the check run shows the progress."""
    unit = with_unit(world)
    pull = await world.behind("flaky")
    unit.plan = ("failure",)
    pull.label(LABEL, by="mona")

    async def reruns() -> int:
        return len(await events(world, pull, "rerun"))

    while not await reruns():
        await world.pass_time(timedelta(seconds=5))
    edits, shown = world.requests(EDIT), world.requests(CHECK_RUN)
    await world.pass_time(CI_TIME / 2)
    assert not pull.merged
    assert world.requests(EDIT) == edits
    assert world.requests(CHECK_RUN) >= shown
    await world.until(lambda: pull.merged)
    await world.settle()
    assert "anded" in world.comment(pull)
    assert world.requests(EDIT) == edits + 1
