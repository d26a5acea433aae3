"""A process that is killed at any step of a train: the next one carries on, and each pull request lands once (P2)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from queue_engine.core.concurrency.request_context import current_work
from queue_engine.store import Transaction
from tests.acceptance.train_world import a_train_world, queue_all
from tests.acceptance.world import CI_TIME, World

WRITES = ("create_branch", "merge_into", "create_commit", "update_refs", "merge", "open_draft", "close_pull_request")
_PARTS = 4
"""All steps are shared out among so many tests."""


class Killer:
    """Ends the pass of a queue at one of its steps: before or after a call that changes GitHub, or after a commit.

    With another `holder` it ends its work; `calls` are those before and after which that may be.
    """

    def __init__(self, world: World, at: int, calls: Iterable[str] = WRITES, *, holder: str = "queue:") -> None:
        self.at, self.steps, self.killed = at, 0, False
        self.step, self._holder = "", holder
        engine = world.bot.engine
        for name in calls:
            self._watch(engine.github, name)
        transaction = engine.store.transaction

        @asynccontextmanager
        async def committed() -> AsyncIterator[Transaction]:
            async with transaction() as tx:
                yield tx
            self._count("commit")

        object.__setattr__(engine.store, "transaction", committed)

    def _watch(self, github: Any, name: str) -> None:
        call: Callable[..., Awaitable[Any]] = getattr(github, name)

        async def watched(*given: Any, **more: Any) -> Any:
            self._count(f"before {name}")
            answer = await call(*given, **more)
            self._count(f"after {name}")
            return answer

        object.__setattr__(github, name, watched)

    def _count(self, step: str) -> None:
        if self.killed or not (current_work().holder or "").startswith(self._holder):
            return
        self.steps += 1
        if self.steps == self.at:
            self.killed, self.step = True, step
            raise asyncio.CancelledError(step)


async def land_two(world: World, at: int) -> bool:
    """Land two pull requests with a kill at this step; whether there was such a step."""
    pulls = [world.open(f"{name}-{at}") for name in "ab"]
    await world.pass_time(CI_TIME * 2)
    killer = Killer(world, at)
    queue_all(pulls)
    await world.until(lambda: killer.killed or all(pull.merged for pull in pulls))
    if killer.killed or await world.entries() != ():
        await world.kill()
        await world.restart()
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.pass_time(CI_TIME)
    assert await world.entries() == (), killer.step
    assert await world.paused() is None, killer.step
    for pull in pulls:
        assert world.spoken(pull) == 1, killer.step
        assert await world.reasons(pull) == [], killer.step
    if not killer.killed:
        await world.kill()
        await world.restart()
    branches = [name for name in world.repository.record.git.branches() if name.startswith("imq")]
    assert branches == [], killer.step
    return killer.killed


@pytest.mark.every_variant
@pytest.mark.parametrize("method", ["merge", "squash"])
@pytest.mark.parametrize("first", [5])
async def test_train_killed_at_a_step_lands_each_pull_request_once(tmp_path: Path, method: str, first: int) -> None:
    """Some steps of building, publishing, passing and landing."""
    async with a_train_world(tmp_path, more=f"merge:\n  method: {method}\n") as world:
        for at in range(first, first + 36, 12):
            await land_two(world, at)


@pytest.mark.long
@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("method", ["merge", "squash"])
async def test_train_killed_at_every_step_lands_each_pull_request_once(
    tmp_path: Path, method: str, part: int, database_url: str
) -> None:
    """Every step, one after the other, until a train has no such step any more, on both databases."""
    more, settings = f"merge:\n  method: {method}\n", {"DATABASE_URL": database_url}
    async with a_train_world(tmp_path, more=more, settings=settings) as world:
        await kill_at_every_step(world, part)


async def test_train_with_a_draft_killed_at_a_step_lands_each_pull_request_once(tmp_path: Path) -> None:
    """Where a draft starts CI, there is one for each run, and IMQ closes each."""
    async with a_draft_world(tmp_path) as world:
        for at in range(5, 41, 12):
            await land_two(world, at)
        assert open_pulls(world) == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(_PARTS))
async def test_train_with_a_draft_killed_at_every_step_lands_each_pull_request_once(tmp_path: Path, part: int) -> None:
    """Every step of a train whose draft starts CI."""
    async with a_draft_world(tmp_path) as world:
        await kill_at_every_step(world, part)
        assert open_pulls(world) == []


def a_draft_world(directory: Path) -> AbstractAsyncContextManager[World]:
    """A world with trains in which only a pull request starts CI."""
    ci = {"on": ("pull_request",), "branches": ("main",)}
    return a_train_world(directory, trains="{candidates: pull_request}", ci=ci)


def open_pulls(world: World) -> list[int]:
    """The numbers of the pull requests that are open."""
    return [each.number for each in world.repository.record.pulls.values() if each.state == "open"]


async def kill_at_every_step(world: World, part: int) -> None:
    """Land two pull requests again and again, each time with a kill at a later step."""
    at = 1 + part
    while await land_two(world, at):
        at += _PARTS
    assert at > 20
