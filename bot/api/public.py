"""Ask GitHub which repositories are public. A repository counts as private until GitHub says otherwise.

The answer is cached for minutes, and forgotten in every process as soon as a webhook reports a change: that renews the
repository's generation. A replica of GitHub may lag behind the webhook, so the first answer after it counts for less.
`internal` repositories are private to GitHub, too (github/docs "About repository visibility"; octokit's schema has
`private: true` for them).
"""

import asyncio
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import structlog
from cachetools import LRUCache

from bot.api.permissions import CACHED_FOR, MAX_LOOKUPS, counts_for
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.timing.rate_limit import RateLimit
from queue_engine.domain.errors import GitHubError
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine

PER_MINUTE, PER_HOUR = 60, 1000
"""Requests to GitHub that all who are not logged in cause together."""

SETTLES = timedelta(seconds=30)
"""How soon IMQ asks again after the first answer about a generation."""

_MAX_CACHED = 20_000

_log = structlog.get_logger("imq.api")


class PublicRepositories:
    """Asks GitHub whether repositories are public, within bounds, and caches the answers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._budgets = (RateLimit(PER_MINUTE, timedelta(minutes=1)), RateLimit(PER_HOUR, timedelta(hours=1)))
        self._cache: LRUCache[tuple[int, int] | str, tuple[datetime, bool]] = LRUCache(_MAX_CACHED)
        """The answer about a generation, or about an unknown name, and until when it counts."""

    async def is_public(self, repository: Repository, *, alias: str | None = None) -> bool:
        """Return whether the repository is public; False if that is not known.

        `alias` is a name that IMQ does not know: IMQ asks about this repository instead, and caches the answer for the
        name. So an unknown repository takes as long as a hidden one.
        """
        key = await self._key(repository) if alias is None else alias
        if (known := self._cached(key)) is not None:
            return known
        now = self._engine.clock.now()
        if any(budget.wait(now) > timedelta(0) for budget in self._budgets):
            return False
        for budget in self._budgets:
            budget.take(now)
        first = alias is None and key not in self._cache
        public = await self._ask(repository)
        self._cache[key] = now + (SETTLES if first else counts_for(self._engine.random)), public
        return public

    async def among(self, repositories: Iterable[Repository]) -> frozenset[int]:
        """Return the ids of those that are public, as far as some requests tell; the next call continues."""
        some = {each.id: each for each in repositories}
        known = await self._known(some)
        unknown = [number for number, public in known.items() if public is None][:MAX_LOOKUPS]
        asked = await asyncio.gather(*(self.is_public(some[number]) for number in unknown))
        known |= dict(zip(unknown, asked, strict=True))
        return frozenset(number for number, public in known.items() if public)

    async def knows(self, repositories: Iterable[Repository]) -> bool:
        """Return whether the answer about each of these is cached."""
        return None not in (await self._known({each.id for each in repositories})).values()

    async def _known(self, repository_ids: Collection[int]) -> dict[int, bool | None]:
        async with self._engine.store.reading() as tx:
            generations = await tx.queues.generations(repository_ids)
        return {number: self._cached((number, generations[number])) for number in repository_ids}

    async def _key(self, repository: Repository) -> tuple[int, int]:
        async with self._engine.store.reading() as tx:
            return repository.id, await tx.queues.generation(repository.id)

    def _cached(self, key: tuple[int, int] | str) -> bool | None:
        if (known := self._cache.get(key)) is None:
            return None
        until, public = known
        return public if timedelta(0) < until - self._engine.clock.now() <= CACHED_FOR else None

    async def _ask(self, repository: Repository) -> bool:
        try:
            with working(RequestPriority.BACKGROUND):
                found = await self._engine.github.repository(repository)
        except GitHubError as error:
            _log.info("visibility_unknown", error=f"{type(error).__name__}: {error.message}")
            return False
        return found.public
