"""The jobs of a flaky check, as the statistics name them."""

from sandbox.ci.single_check import CISettings
from tests.acceptance.test_check_outcomes import events, sound, with_unit, world
from tests.acceptance.world import CI_TIME, LABEL, World

__all__ = ["world"]


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
