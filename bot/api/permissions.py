"""Ask GitHub for the permissions of people behind tokens, within bounds, and remember them for minutes.

A person is one by GitHub's id: the next owner of an abandoned login is somebody else. A caller can have
IMQ ask GitHub only so often, so that no token uses up the limits by which pull requests land.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import structlog
from cachetools import LRUCache

from bot.api.errors import ApiError
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.timing.clock import Clock
from queue_engine.core.timing.rate_limit import RateLimit
from queue_engine.domain.errors import Forbidden, GitHubError, Unauthorized
from queue_engine.domain.facts import Actor, Permission
from queue_engine.domain.model import Repository
from queue_engine.store import Store
from queue_engine.store.operations.tokens import Token

REMEMBERED = timedelta(minutes=5)
"""For so long a person who lost a right still reads. Each call that changes something asks GitHub."""
QUESTION, CHANGE = 1, 5
"""What a question to GitHub costs a caller, and what a call costs that changes something: it takes several."""
A_MINUTE, AN_HOUR = 100, 1000
"""What a person, or a service, may cost: of the 5000 requests an hour that GitHub grants an installation at least."""
MOST_ASKED = 20
"""Repositories that one list asks about; the next list asks about others."""

_MOST_REMEMBERED = 20_000
_MOST_CALLERS = 1_000

_log = structlog.get_logger("imq.api")


class People(Protocol):
    """GitHub, as far as people are concerned; `bot.gateway.people` answers."""

    async def collaborator(self, repository: Repository, login: str) -> tuple[Actor | None, Permission]:
        """Who has this login, and their permission."""
        ...

    async def by_id(self, installation_id: int, person_id: int) -> Actor | None:
        """The account with this id."""
        ...


@dataclass(frozen=True, slots=True)
class Right:
    """A person's permission, and the login under which GitHub knows them now."""

    login: str
    permission: Permission


class Budget:
    """How much each caller may have IMQ ask of GitHub; callers are told apart by person, or else by token."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent: LRUCache[str, tuple[RateLimit, RateLimit]] = LRUCache(_MOST_CALLERS)

    def allows(self, token: Token, cost: int = QUESTION) -> bool:
        """Whether the caller has so much left."""
        now = self._clock.now()
        return token.grant.operator or all(window.wait(now, cost) <= timedelta(0) for window in self._windows(token))

    def spend(self, token: Token, cost: int = QUESTION) -> None:
        """Count what a call is about to cost; operators may spend all. Raises ApiError 429 when nothing is left."""
        if token.grant.operator:
            return
        now, windows = self._clock.now(), self._windows(token)
        if not self.allows(token, cost):
            wait = max(window.wait(now, cost) for window in windows)
            raise ApiError(429, "this token made too many calls; try again later", retry_after=wait)
        for window in windows:
            window.take(now, cost)

    def _windows(self, token: Token) -> tuple[RateLimit, RateLimit]:
        who = _who(token)
        if who not in self._spent:
            self._spent[who] = (
                RateLimit(A_MINUTE, timedelta(minutes=1)),
                RateLimit(AN_HOUR, timedelta(hours=1)),
            )
        return self._spent[who]


class Permissions:
    """The memory, and the questions. For tokens of persons only."""

    def __init__(self, people: People, store: Store, clock: Clock) -> None:
        self.budget = Budget(clock)
        self._people = people
        self._store = store
        self._clock = clock
        self._known: LRUCache[tuple[str, int | str], tuple[datetime, Right]] = LRUCache(_MOST_REMEMBERED)

    async def of(self, token: Token, repository: Repository, *, alias: str | None = None, fresh: bool = False) -> Right:
        """The person's right in a repository; `fresh` asks GitHub in any case. Raises ApiError 429 and GitHubError.

        `alias` is a name that IMQ does not know: the answer is asked for in this repository, and remembered for the
        name. So a stranger waits as long for what there is not as for what is hidden.
        """
        key = (_who(token), repository.id if alias is None else alias)
        if not fresh and (known := self._remembered(key)) is not None:
            return known
        self.budget.spend(token)
        # What merges need goes first: a reader waits for landings.
        with working(None if fresh else RequestPriority.BACKGROUND):
            right = await self._ask(token, repository)
        self._known[key] = (self._clock.now(), right)
        return right

    async def readable(
        self, token: Token, listed: Sequence[Repository], beside: Sequence[Repository]
    ) -> frozenset[int]:
        """Ids of those that the person may read, as far as is known.

        GitHub is asked about some of the `listed` that are not known yet, and never about those `beside` them.
        """
        unknown = [each for each in _once(listed) if self._remembered((_who(token), each.id)) is None]
        await asyncio.gather(*(self._learn(token, repository) for repository in unknown[:MOST_ASKED]))
        rights = {each.id: self._remembered((_who(token), each.id)) for each in (*listed, *beside)}
        return frozenset(
            number for number, right in rights.items() if right is not None and right.permission is not Permission.NONE
        )

    async def _learn(self, token: Token, repository: Repository) -> None:
        """Ask about one of many; a list goes without what is not told."""
        try:
            await self.of(token, repository)
        except ApiError:
            return
        except GitHubError as error:
            _log.info("permission_not_told", error=f"{type(error).__name__}: {error.message}")

    async def _ask(self, token: Token, repository: Repository) -> Right:
        """Under the login that was seen last, and where that is not this person's now, under the present one."""
        grant = token.grant
        login = grant.login or ""
        nothing = Right(login, Permission.NONE)
        try:
            account, permission = await self._people.collaborator(repository, login)
            if account is not None and grant.person_id is None:
                await self._bind(token, account)
            if account is not None and grant.person_id in {None, account.id}:
                return Right(account.login, permission)
            if grant.person_id is None:
                return nothing
            self.budget.spend(token, 2 * QUESTION)
            present = await self._people.by_id(repository.installation_id, grant.person_id)
            if present is None or present.login.casefold() == login.casefold():
                return nothing
            await self._bind(token, present)
            account, permission = await self._people.collaborator(repository, present.login)
        except (Forbidden, Unauthorized) as error:
            # A repository that IMQ can no longer see is one that does not exist, for callers who may not know of it.
            _log.warning("permission_not_told", error=f"{type(error).__name__}: {error.message}")
            return nothing
        return Right(present.login, permission) if account == present else nothing

    async def _bind(self, token: Token, account: Actor) -> None:
        async with self._store.transaction() as tx:
            await tx.tokens.bind(token, login=account.login, person_id=account.id)
        _log.info("token_bound", token=token.name, login=account.login, person_id=account.id)

    def _remembered(self, key: tuple[str, int | str]) -> Right | None:
        if (known := self._known.get(key)) is None:
            return None
        at, right = known
        return right if timedelta(0) <= self._clock.now() - at < REMEMBERED else None


def _once(repositories: Iterable[Repository]) -> Sequence[Repository]:
    return list({each.id: each for each in repositories}.values())


def _who(token: Token) -> str:
    """Whose memory and budget it is: all tokens of a person share one."""
    grant = token.grant
    if grant.person_id is not None:
        return f"person {grant.person_id}"
    return f"token {token.id}"
