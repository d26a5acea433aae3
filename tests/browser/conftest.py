"""Chromium, started once for the tests of a process, and a world in which people can log in."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bot.demo.bot_process import free_port
from tests.acceptance.browsing import SETTINGS
from tests.acceptance.world import World, a_world
from tests.support.browsing import chromium_process
from tests.support.setup_in_browser import chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running Chromium."""
    executable = chromium()
    if executable is None:
        pytest.skip("there is no Chromium: install Debian's package chromium")
    with chromium_process(executable, tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose bot has pages at a public address of this machine."""
    port = free_port()
    home = f"http://127.0.0.1:{port}"
    settings = SETTINGS | {"IMQ_PUBLIC_URL": home, "PORT": str(port)}
    async with a_world(tmp_path, settings=settings) as world:
        world.app.client_secret = SETTINGS["IMQ_GITHUB_CLIENT_SECRET"]
        world.app.callback_urls = (f"{home}/auth/callback",)
        yield world
