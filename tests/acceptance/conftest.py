"""The world as a fixture, and who calls its API."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.browsing import SETTINGS, allow_login
from tests.acceptance.callers import Caller, caller
from tests.acceptance.shadow_mode import begin, writes
from tests.acceptance.world import LAG, World, a_world
from tests.support.gates import PROMISES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Modules and tests with the mark `lagging` run twice: with a GitHub that shows all at once, and one that lags.

    The second run belongs to the long gate; that of the promises is a thorough test.
    """
    if metafunc.definition.get_closest_marker("lagging") is not None:
        promises = metafunc.definition.path.name == PROMISES
        lagging = pytest.param(LAG, marks=[pytest.mark.thorough if promises else pytest.mark.long])
        metafunc.parametrize("lag", [timedelta(0), lagging], ids=["at_once", "lagging"])


@pytest.fixture
def lag() -> timedelta:
    """How old the state is that GitHub's reads show."""
    return timedelta(0)


@pytest.fixture
async def world(tmp_path: Path, lag: timedelta) -> AsyncIterator[World]:
    """A fresh world on SQLite."""
    async with a_world(tmp_path, lag=lag) as made:
        yield made


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that keeps no cookies: browsers keep their own."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as opened:
        yield opened


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[World]:
    """A world in which people can log in."""
    async with a_world(tmp_path, settings=SETTINGS, ci=False, protect=False) as made:
        allow_login(made)
        yield made


@pytest.fixture
async def mona(world: World, session: aiohttp.ClientSession) -> Caller:
    """A caller for mona, who may merge, but not control queues."""
    return await caller(world, session)


@pytest.fixture
async def shadow(world: World) -> AsyncIterator[World]:
    """A world whose repository is in shadow mode from the start; at its end IMQ has written nothing."""
    await begin(world)
    yield world
    await world.settle()
    assert writes(world) == []
    assert await world.entries() == ()
