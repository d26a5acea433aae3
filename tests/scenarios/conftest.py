"""The world as a fixture."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.scenarios.world import World, a_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A fresh world on SQLite."""
    async with a_world(tmp_path) as made:
        yield made
