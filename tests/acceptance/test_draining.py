"""A process that ends finishes its work under way, and begins nothing; the next one continues."""

from typing import Any

import pytest

from tests.acceptance.world import LABEL, World


async def test_process_that_ends_finishes_one_landing_and_begins_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deploy in the middle of a merge costs no merge; the next pull request waits for the next process (P2)."""
    first, second = world.open("one"), world.open("two")
    for pull in (first, second):
        pull.label(LABEL, by="mona")
    await world.until_status(first, "checking")
    merge = world.bot.gateway.merge

    async def last_merge(*args: Any, **named: Any) -> Any:
        world.bot.end()
        return await merge(*args, **named)

    monkeypatch.setattr(world.bot.gateway, "merge", last_merge)
    await world.until(lambda: first.merged)
    await world.settle()
    asked = world.requests()
    await world.settle()
    assert await world.status(second) == "pending"
    assert world.requests() == asked, "neither a queue nor an outbox item is taken any more"
    assert LABEL in first.labels
    await world.kill()
    await world.restart()
    await world.until(lambda: second.merged)
    assert LABEL not in first.labels
