"""P5: a repository with more to do than there is room for holds up neither its neighbours nor other installations."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CISettings, RecordedCall
from tests.acceptance.project import FILES, total_at_most_ten
from tests.acceptance.world import CI_TIME, LABEL, World, a_world
from tests.support.real_time import LIMIT

OF_REPOSITORY, OF_INSTALLATION = 4, 6
"""How many queues of one repository, and of one installation, are processed at once, of eight in all."""


class Slow:
    """GitHub, whose answers about some repositories do not come before `release`."""

    def __init__(self, *repositories: str) -> None:
        self._slow = tuple(f"/repos/{name}/" for name in repositories)
        self._happened = asyncio.Event()
        self._gate = asyncio.Event()
        self.held: list[str] = []

    async def __call__(self, exchange: RecordedCall) -> None:
        slow = exchange.path.startswith(self._slow) and exchange.phase == "before" and not self._gate.is_set()
        if slow:
            self.held.append(exchange.path.split("/")[3])
        self._happened.set()
        if slow:
            await self._gate.wait()

    def release(self) -> None:
        """Answer everything from now on."""
        self._gate.set()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for what requests bring about."""
        async with asyncio.timeout(LIMIT):
            while not true():
                self._happened.clear()
                await self._happened.wait()


def another(world: World, name: str) -> Any:
    """One more repository with the same people and CI; of another owner it has an installation of its own."""
    made = world.github.create_repository(name, files=FILES, collaborators={"mona": "write"})
    owner = name.split("/")[0]
    if not any(each.account.login == owner for each in world.github.state.installations.values()):
        world.github.install(world.app, owner)
    made.add_ci("ci/test", settings=CISettings(duration=CI_TIME, judge=total_at_most_ten))
    made.protect("b*", required_checks=["ci/test"])
    return made


async def queued(world: World, repository: Any, branches: int) -> list[Any]:
    """A pull request in each of as many queues, whose checks run."""
    pulls = []
    for number in range(branches):
        base, head = f"b{number}", f"own{number}"
        repository.create_branch(base, "main")
        pull = repository.open_pull_request("Own", head=head, base=base, by="mona", files={f"{head}.py": "own\n"})
        pull.label(LABEL, by="mona")
        pulls.append(pull)
    await world.settle()
    return pulls


@asynccontextmanager
async def all_due_at_once(world: World, pulls: Sequence[Any], *slow: str) -> AsyncIterator[Slow]:
    """Every check ended while IMQ was down: at its start all queues are due in the same instant."""
    assert [entry.status.value for entry in await world.entries()] == ["checking"] * len(pulls)
    await world.kill()
    world.clock.set(world.clock.now() + CI_TIME + timedelta(minutes=1))
    while await world.github.schedule.run_due():
        pass
    await world.restart()
    await world.bot.sweeper.run_due()
    github = world.server.on_request = Slow(*slow)
    try:
        yield github
    finally:
        github.release()
        await world.bot.scheduler.drain()
    await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(minutes=1))


async def as_many_as_may(world: World) -> None:
    """Start whatever may start, and give it the time to get to GitHub."""
    while await world.bot.scheduler.start_due():
        await world.bot.engine.github.installations()
    for _ in range(3):
        await world.bot.engine.github.installations()


async def test_busy_repository_with_slow_answers_leaves_room_for_its_neighbour(world: World) -> None:
    """While not one answer about the busy one comes, the neighbour's pull request lands, in no time."""
    world.repository.protect("b*", required_checks=["ci/test"])
    busy = await queued(world, world.repository, OF_REPOSITORY + 2)
    quiet = await queued(world, another(world, "acme/quiet"), 1)
    async with all_due_at_once(world, [*busy, *quiet], "acme/widgets") as github:
        before = world.clock.now()
        assert await world.bot.scheduler.start_due()
        await github.until(lambda: quiet[0].merged and len(github.held) >= OF_REPOSITORY)
        await as_many_as_may(world)
        assert (github.held, world.clock.now()) == (["widgets"] * OF_REPOSITORY, before)
        assert not any(pull.merged for pull in busy)


@pytest.mark.thorough
async def test_busy_installation_with_slow_answers_leaves_room_for_another_one(world: World) -> None:
    """Two busy repositories of one owner share what one installation gets, and another owner's lands meanwhile."""
    world.repository.protect("b*", required_checks=["ci/test"])
    busy = await queued(world, world.repository, 4)
    busy += await queued(world, another(world, "acme/gadgets"), 4)
    quiet = await queued(world, another(world, "umbrella/quiet"), 1)
    async with all_due_at_once(world, [*busy, *quiet], "acme/widgets", "acme/gadgets") as github:
        assert await world.bot.scheduler.start_due()
        await github.until(lambda: quiet[0].merged and len(github.held) >= OF_INSTALLATION)
        await as_many_as_may(world)
        assert sorted(github.held) == ["gadgets"] * 3 + ["widgets"] * 3
        assert not any(pull.merged for pull in busy)


@pytest.mark.thorough
@pytest.mark.parametrize(("concurrency", "landed"), [("1", False), ("2", True)])
async def test_queue_beside_a_slow_one_of_the_same_owner_lands_meanwhile_where_two_are_advanced_at_once(
    tmp_path: Path, concurrency: str, landed: bool
) -> None:
    """`IMQ_CONCURRENCY`: with 1 the other queue waits until GitHub has answered about the slow one."""
    async with a_world(tmp_path, settings={"IMQ_CONCURRENCY": concurrency}) as world:
        world.repository.protect("b*", required_checks=["ci/test"])
        slow = await queued(world, world.repository, 1)
        quick = await queued(world, another(world, "acme/quick"), 1)
        async with all_due_at_once(world, [*slow, *quick], "acme/widgets") as github:
            before, earlier = world.clock.now(), len(world.server.requests)
            assert await world.bot.scheduler.start_due()
            await github.until(lambda: github.held == ["widgets"] and quick[0].merged is landed)
            await as_many_as_may(world)
            asked = any("/acme/quick/" in call.path for call in list(world.server.requests)[earlier:])
            assert (asked, quick[0].merged, slow[0].merged) == (landed, landed, False)
            assert world.clock.now() == before
