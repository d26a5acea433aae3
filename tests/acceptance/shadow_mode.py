"""Repositories in shadow mode, and what IMQ stored of their pull requests."""

from typing import Any

from github_emulator import RecordedCall
from queue_engine.domain.model import Repository
from queue_engine.domain.shadow_pull import ShadowAction, ShadowLanding, ShadowPull
from tests.acceptance.world import World

FILE = ".github/imq.yml"
SHADOW = "mode: shadow\n"
QUERIES = {"POST /graphql", "POST /app/installations/{installation_id}/access_tokens"}
"""What IMQ posts in shadow mode too: queries, and requests for its own tokens."""


def repository_of(world: World) -> Repository:
    """The world's repository as IMQ addresses it."""
    record = world.repository.record
    installation = next(each for each in world.github.state.installations_of(record) if each.app is world.app)
    return Repository(record.id, "acme", "widgets", installation.id)


def writes(world: World, since: int = 0) -> list[RecordedCall]:
    """The bot's requests that change something on GitHub."""
    asked = list(world.server.requests)[since:]
    return [each for each in asked if each.method != "GET" and each.template not in QUERIES]


async def shadowed(world: World, pull: Any) -> ShadowPull:
    """What IMQ stored of a pull request."""
    async with world.bot.engine.store.reading() as tx:
        found = await tx.shadow.find(pull.record.repository.id, pull.number)
    assert found is not None, f"#{pull.number} is not shadowed"
    return found


async def decision(world: World, pull: Any) -> ShadowAction:
    """What IMQ would have done with a pull request last."""
    found = (await shadowed(world, pull)).decision
    assert found is not None
    return found


async def landing(world: World, pull: Any) -> ShadowLanding:
    """How IMQ judges the merge of a pull request."""
    found = (await shadowed(world, pull)).landing
    assert found is not None
    return found


async def configure(world: World, text: str | None) -> None:
    """Push a configuration to the default branch, or remove it."""
    world.repository.push("main", {FILE: text}, "Configure IMQ", by="rhea")
    await world.settle()


async def begin(world: World, text: str = SHADOW) -> None:
    """Configure the repository as if before IMQ was installed: forget the requests so far, such as for the label."""
    await configure(world, text)
    world.server.requests.clear()
