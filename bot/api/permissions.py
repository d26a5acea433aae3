"""Ask GitHub for the permissions of the people that tokens act for, within bounds, and cache them for minutes.

GitHub's id identifies a person: an abandoned login may get another owner. Each caller has a budget of requests to
GitHub, so that no token uses up the rate limits that landing needs.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import structlog
from cachetools import LRUCache

from bot.api.errors import ApiError
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.timing.clock import Clock
from queue_engine.core.timing.rate_limit import RateLimit
from queue_engine.domain.errors import Forbidden, GitHubError, Refused, Unauthorized
from queue_engine.domain.facts import Actor, Permission
from queue_engine.domain.model import Repository
from queue_engine.store import Store
from queue_engine.store.tokens import Token

CACHED_FOR = timedelta(minutes=5)
"""For so long at most a person who lost access can still read. Each call that changes something asks GitHub."""
SPREAD = 0.2
"""The share of this time that is drawn by lot: answers that came together are not all asked for again at once."""
READ_COST, WRITE_COST = 1, 3
"""Requests to GitHub that a call is charged for: one that reads, and one that queues: it reads, labels and comments."""
PER_MINUTE, PER_HOUR = 100, 1000
"""The budget of a person or service; GitHub grants an installation at least 5000 requests an hour."""
MOST_WAITING = 500
"""Pull requests that wait of all bulk calls of a caller: everybody who reads a public repository may call."""
MAX_LOOKUPS = 20
"""Repositories that IMQ asks GitHub about for one list; the next list continues."""

_BULK_ADVICE = "; one call queues up to 100 pull requests: POST /api/v1/repositories/{owner}/{repo}/queue"
_MAX_CACHED = 20_000
_MAX_CALLERS = 1_000

_log = structlog.get_logger("imq.api")


class People(Protocol):
    """Reads accounts and their permissions. `bot.gateway.people` implements it."""

    async def collaborator(self, repository: Repository, login: str) -> tuple[Actor | None, Permission]:
        """Return the account with this login, and its permission."""
        ...

    async def by_id(self, installation_id: int, person_id: int) -> Actor | None:
        """Return the account with this id."""
        ...


@dataclass(frozen=True, slots=True)
class PersonPermission:
    """A person's current login, and their permission in a repository."""

    login: str
    permission: Permission


@dataclass(frozen=True, slots=True)
class _Cached:
    at: datetime
    counts_for: timedelta
    right: PersonPermission


class Budget:
    """Limits the requests to GitHub that each person, or else each token, may cause."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent: LRUCache[str, tuple[RateLimit, RateLimit]] = LRUCache(_MAX_CALLERS)

    def allows(self, token: Token, cost: int = READ_COST) -> bool:
        """Whether the caller has this much left."""
        now = self._clock.now()
        return token.grant.operator or all(window.wait(now, cost) <= timedelta(0) for window in self._windows(token))

    def spend(self, token: Token, cost: int = READ_COST) -> None:
        """Charge the caller; operators have no budget. Raises ApiError 429 when too little is left."""
        if token.grant.operator:
            return
        now, windows = self._clock.now(), self._windows(token)
        if not self.allows(token, cost):
            wait = max(window.wait(now, cost) for window in windows)
            advice = _BULK_ADVICE if cost == WRITE_COST else ""
            raise ApiError(429, f"this token made too many calls; try again later{advice}", retry_after=wait)
        for window in windows:
            window.take(now, cost)

    def _windows(self, token: Token) -> tuple[RateLimit, RateLimit]:
        key = budget_key(token)
        if key not in self._spent:
            self._spent[key] = (
                RateLimit(PER_MINUTE, timedelta(minutes=1)),
                RateLimit(PER_HOUR, timedelta(hours=1)),
            )
        return self._spent[key]


class Permissions:
    """Looks up and caches permissions, for tokens of persons only."""

    def __init__(self, people: People, store: Store, clock: Clock, *, random: Callable[[], float]) -> None:
        """`random` returns numbers in [0, 1)."""
        self.budget = Budget(clock)
        self._people = people
        self._store = store
        self._clock, self._random = clock, random
        self._cache: LRUCache[tuple[str, int | str], _Cached] = LRUCache(_MAX_CACHED)

    async def of(
        self, token: Token, repository: Repository, *, alias: str | None = None, fresh: bool = False
    ) -> PersonPermission:
        """Return the person's permission in a repository; `fresh` skips the cache. Raises ApiError 429 and GitHubError.

        `alias` is a name that IMQ does not know: IMQ asks about this repository instead, and caches the answer for the
        name. So an unknown repository takes as long as a hidden one.
        """
        key = (budget_key(token), repository.id if alias is None else alias)
        if not fresh and (known := self._cached(key)) is not None:
            return known
        self.budget.spend(token)
        # Requests that merges need go first, so callers that only read wait.
        with working(None if fresh else RequestPriority.BACKGROUND):
            right = await self._fetch(token, repository)
        self._cache[key] = _Cached(self._clock.now(), counts_for(self._random), right)
        return right

    async def readable(
        self, token: Token, listed: Sequence[Repository], summed: Sequence[Repository]
    ) -> frozenset[int]:
        """Return the ids of the repositories that the person may read, as far as the cache knows.

        IMQ asks GitHub about some of the `listed` that are not cached, and never about those only `summed`.
        """
        unknown = [each for each in _distinct(listed) if self._cached((budget_key(token), each.id)) is None]
        await asyncio.gather(*(self._refresh_permission(token, repository) for repository in unknown[:MAX_LOOKUPS]))
        rights = {each.id: self._cached((budget_key(token), each.id)) for each in (*listed, *summed)}
        return frozenset(
            number for number, right in rights.items() if right is not None and right.permission is not Permission.NONE
        )

    def knows(self, token: Token, listed: Iterable[Repository]) -> bool:
        """Return whether the person's permission in all of these is cached: `readable` asks about some at a time."""
        return all(self._cached((budget_key(token), each.id)) is not None for each in listed)

    async def _refresh_permission(self, token: Token, repository: Repository) -> None:
        """Look up one of several repositories; the list omits it if that fails."""
        try:
            await self.of(token, repository)
        except ApiError:
            return
        except GitHubError as error:
            _log.info("permission_unknown", error=f"{type(error).__name__}: {error.message}")

    async def _fetch(self, token: Token, repository: Repository) -> PersonPermission:
        """Ask GitHub by the login that was seen last; if it is another account's by now, by the current one."""
        grant = token.grant
        login = grant.login or ""
        none = PersonPermission(login, Permission.NONE)
        try:
            account, permission = await self._people.collaborator(repository, login)
            if account is not None and grant.person_id is None:
                await self._bind(token, account)
            if account is not None and grant.person_id in {None, account.id}:
                return PersonPermission(account.login, permission)
            if grant.person_id is None:
                return none
            self.budget.spend(token, 2 * READ_COST)
            present = await self._people.by_id(repository.installation_id, grant.person_id)
            if present is None or present.login.casefold() == login.casefold():
                return none
            await self._bind(token, present)
            account, permission = await self._people.collaborator(repository, present.login)
        except (Forbidden, Refused, Unauthorized) as error:
            if isinstance(error, Refused) and error.disorder is None:
                raise
            # IMQ has lost access to the repository, so for callers it does not exist.
            _log.warning("permission_unknown", error=f"{type(error).__name__}: {error.message}")
            return none
        return PersonPermission(present.login, permission) if account == present else none

    async def _bind(self, token: Token, account: Actor) -> None:
        async with self._store.transaction() as tx:
            await tx.tokens.bind(token, login=account.login, person_id=account.id)
            await tx.sessions.rename(account.id, account.login)
        _log.info("token_bound", token=token.name, login=account.login, person_id=account.id)

    def _cached(self, key: tuple[str, int | str]) -> PersonPermission | None:
        if (known := self._cache.get(key)) is None:
            return None
        return known.right if timedelta(0) <= self._clock.now() - known.at < known.counts_for else None


def counts_for(random: Callable[[], float]) -> timedelta:
    """Return how long IMQ relies on an answer about rights."""
    return CACHED_FOR * (1 - SPREAD * random())


def _distinct(repositories: Iterable[Repository]) -> Sequence[Repository]:
    return list({each.id: each for each in repositories}.values())


def budget_key(token: Token) -> str:
    """Return the key of cache and budget, which all tokens of a person share."""
    grant = token.grant
    if grant.person_id is not None:
        return f"person {grant.person_id}"
    return f"token {token.id}"


def check_waiting(waiting: int, more: int) -> None:
    """Raise ApiError 429 if too many pull requests of a caller would wait."""
    if waiting + more > MOST_WAITING:
        sentence = f"{waiting} pull requests of your calls wait, and {MOST_WAITING} are the most; call again later"
        raise ApiError(429, sentence, retry_after=timedelta(minutes=1))
