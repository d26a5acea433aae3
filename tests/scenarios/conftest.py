"""The world as a fixture, and who calls its API."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.scenarios.callers import Caller, caller
from tests.scenarios.world import World, a_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A fresh world on SQLite."""
    async with a_world(tmp_path) as made:
        yield made


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A client's session."""
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
async def mona(world: World, session: aiohttp.ClientSession) -> Caller:
    """A caller for mona, who may merge, but not steer."""
    return await caller(world, session)
