"""A repository that has chosen how its pull requests land, and pull requests that do."""

from datetime import timedelta
from typing import Any

from tests.acceptance.world import CI_TIME, LABEL, World

AT_ONCE = timedelta(seconds=30)


async def configure(world: World, text: str) -> None:
    """Push a configuration to `main`."""
    world.repository.push("main", {".github/imq.yml": text}, "Configure the queue", by="rhea")
    await world.settle()


async def green(world: World, name: str = "add", **more: Any) -> Any:
    """A pull request whose checks have ended."""
    pull = world.open(name, **more)
    await world.pass_time(CI_TIME * 2)
    return pull


async def lands(world: World, pull: Any, *, by: str = "mona", within: timedelta = AT_ONCE) -> Any:
    """Label it, and see it land; the commit that landed it."""
    pull.label(LABEL, by=by)
    await world.until(lambda: pull.merged, within=within)
    await world.settle()
    return world.repository.log("main")[0]


async def leaves(world: World, pull: Any) -> str:
    """It leaves, or is refused, without landing; why, the last time."""
    await world.until(lambda: LABEL not in pull.labels, within=timedelta(minutes=2))
    await world.settle()
    assert not pull.merged
    return (await world.reasons(pull))[-1]


async def refused(world: World, pull: Any) -> tuple[str, str]:
    """Label it: for which reason it was refused or dequeued, and what its comment says."""
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels, within=timedelta(hours=3))
    await world.settle()
    assert not pull.merged
    return (await world.reasons(pull))[-1], world.comment(pull)
