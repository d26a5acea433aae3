"""Persons who are not logged in cause only so many requests to GitHub, whatever names they try."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

from bot.api.permissions import REPOSITORIES_PER_MINUTE, PublicRepositories
from github_emulator import ManualClock
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine

KNOWN = Repository(7, "acme", "rocket", 70)


async def test_made_up_names_use_up_the_share_of_a_minute_and_no_more() -> None:
    """Beyond it a repository counts as private; each name is asked about once (P7)."""
    asked: list[Repository] = []

    async def repository(one: Repository) -> Any:
        asked.append(one)
        return SimpleNamespace(public=True)

    clock = ManualClock()
    engine = SimpleNamespace(clock=clock, random=lambda: 0.0, github=SimpleNamespace(repository=repository))
    public = PublicRepositories(cast(Engine, engine))
    answers = [await public.is_public(KNOWN, alias=f"acme/{number}") for number in range(REPOSITORIES_PER_MINUTE + 5)]
    assert answers == [True] * REPOSITORIES_PER_MINUTE + [False] * 5
    assert await public.is_public(KNOWN, alias="acme/0")
    assert len(asked) == REPOSITORIES_PER_MINUTE
    clock.set(clock.now() + timedelta(minutes=1))
    assert await public.is_public(KNOWN, alias="acme/one-more")
