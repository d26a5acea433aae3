"""Calls of the API about one pull request."""

from typing import Any

from tests.acceptance.callers import Caller, path_of
from tests.acceptance.world import World

HOME = "/api/v1/repositories/acme/widgets"


async def read_entry(by: Caller, pull: Any) -> Any:
    answer = await by.ask("GET", path_of(pull))
    assert answer.status == 200, answer
    return answer.body


async def order(world: World) -> list[int]:
    return [entry.number for entry in await world.entries()]
