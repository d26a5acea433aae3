"""A world in which people can log in."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.browsing import SETTINGS
from tests.acceptance.world import World, a_world
from tests.support.ports import held_port


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose bot has pages at a public address of this machine."""
    with held_port() as port:
        home = f"http://127.0.0.1:{port}"
        settings = SETTINGS | {"IMQ_PUBLIC_URL": home, "PORT": str(port)}
        async with a_world(tmp_path, settings=settings) as world:
            world.app.client_secret = SETTINGS["IMQ_GITHUB_CLIENT_SECRET"]
            world.app.callback_urls = (f"{home}/auth/callback",)
            yield world
