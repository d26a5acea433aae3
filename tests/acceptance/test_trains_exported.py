"""A train that is killed as it lands continues in another database: `imq export` and `imq import`."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_queue_files import move
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.support.databases import MakeUrl


@pytest.mark.parametrize(("method", "call"), [("merge", "update_refs"), ("squash", "merge")])
async def test_train_killed_as_it_lands_is_landed_whole_by_the_database_that_imports_it(
    tmp_path: Path, make_sqlite_url: MakeUrl, method: str, call: str
) -> None:
    """P1, P6: each landed tree is compared with the tested one, and no comment says that somebody else merged."""
    async with a_train_world(tmp_path, more=f"merge:\n  method: {method}\n") as world:
        pulls = await ready(world, "a", "b")
        github: Any = world.bot.engine.github
        land, killed = getattr(github, call), list[str]()

        async def killed_after(*given: Any, **more: Any) -> Any:
            answer = await land(*given, **more)
            if call == "merge" or any(update.branch == "main" for update in given[1]):
                killed.append(call)
                raise asyncio.CancelledError(call)
            return answer

        object.__setattr__(github, call, killed_after)
        queue_all(pulls)
        await world.until(lambda: bool(killed))
        assert len(await world.entries()) == len(pulls)
        file = await move(world, make_sqlite_url())
        assert [row.state for row in file.runs] == ["landing"]
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        assert await world.entries() == ()
        assert await world.paused() is None
        for pull in pulls:
            assert await world.reasons(pull) == []
            assert world.spoken(pull) == 1
            assert "Landed on" in world.comment(pull)
            async with world.bot.engine.store.reading() as tx:
                history = await tx.timeline.of_pull_request(world.repository.record.id, pull.number)
            [trees] = [each.data for each in history if each.event == "landed"]
            assert trees["tree"] == trees["tested_tree"]
