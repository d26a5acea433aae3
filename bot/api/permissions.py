"""Decide what a token may see and do: by its scope, and by permissions that GitHub is asked for.

GitHub's id identifies a person: an abandoned login may get another owner. Each caller has a budget of requests to
GitHub, so that no token uses up the rate limits that landing needs.

The answer is cached for minutes, and forgotten in every process as soon as a webhook reports a change: that renews the
repository's generation. A replica of GitHub may lag behind the webhook, so the first answer after it counts for less.
`internal` repositories are private to GitHub, too (github/docs "About repository visibility"; octokit's schema has
`private: true` for them).

A caller cannot tell a repository that they may not read from one that does not exist: status, body and requests to
GitHub are the same. So access is checked before anything else.

No token may do more than its person or its scope. `test_hidden_repositories.py` and `test_api_tokens.py` hold both;
they walk the OpenAPI document.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import structlog
from aiohttp import web
from cachetools import LRUCache

from bot.api.api_errors import ApiError
from bot.api.auth import ANONYMOUS, caller
from queue_engine.admission.enqueue import CONTROL_ROLES
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.timing.clock import Clock
from queue_engine.core.timing.rate_limit import KeyLimits
from queue_engine.domain.errors import Forbidden, GitHubError, Refused, Unauthorized
from queue_engine.domain.facts import Actor, Permission
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
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
        self._limits = KeyLimits((PER_MINUTE, timedelta(minutes=1)), (PER_HOUR, timedelta(hours=1)))

    def allows(self, token: Token, cost: int = READ_COST) -> bool:
        """Whether the caller has this much left."""
        left = self._limits.wait(budget_key(token), self._clock.now(), cost)
        return token.grant.operator or left <= timedelta(0)

    def spend(self, token: Token, cost: int = READ_COST) -> None:
        """Charge the caller; operators have no budget. Raises ApiError 429 when too little is left."""
        if token.grant.operator:
            return
        if (wait := self._limits.take(budget_key(token), self._clock.now(), cost)) > timedelta(0):
            advice = _BULK_ADVICE if cost == WRITE_COST else ""
            raise ApiError(429, f"this token made too many calls; try again later{advice}", retry_after=wait)


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


REPOSITORIES_PER_MINUTE, REPOSITORIES_PER_HOUR = 60, 1000
"""Requests to GitHub that all who are not logged in cause together."""

SETTLES = timedelta(seconds=30)
"""How soon IMQ asks again after the first answer about a generation."""


class PublicRepositories:
    """Asks GitHub whether repositories are public, within bounds, and caches the answers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        spans = (REPOSITORIES_PER_MINUTE, timedelta(minutes=1)), (REPOSITORIES_PER_HOUR, timedelta(hours=1))
        self._limits = KeyLimits(together=spans)
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
        if self._limits.take(None, now) > timedelta(0):
            return False
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
        generations = await self._engine.store.read(lambda tx: tx.repositories.generations(repository_ids))
        return {number: self._cached((number, generations[number])) for number in repository_ids}

    async def _key(self, repository: Repository) -> tuple[int, int]:
        async with self._engine.store.reading() as tx:
            return repository.id, await tx.repositories.generation(repository.id)

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


class Access:
    """Checks access to repositories."""

    def __init__(self, engine: Engine, people: People, *, public_pages: bool = False) -> None:
        """`public_pages` lets those who are not logged in read public repositories."""
        self._engine = engine
        self._permissions = Permissions(people, engine.store, engine.clock, random=engine.random)
        self._public = PublicRepositories(engine) if public_pages else None

    async def readable(self, request: web.Request) -> Repository:
        """Return the repository of a request. Raises ApiError 404 if the caller may not read it; and GitHubError."""
        return await self.readable_by(caller(request), *_named(request))

    async def readable_by(self, token: Token, owner: str, name: str) -> Repository:
        """Return the repository of this name. Raises ApiError 404 if the caller may not read it; and GitHubError."""
        return (await self._find(token, owner, name))[0]

    async def writable(self, request: web.Request) -> tuple[Repository, str]:
        """Return the repository and the login of who changes it. Raises ApiError (403, 404, 429) and GitHubError."""
        return await self._writable(caller(request), *_named(request))

    async def _writable(self, token: Token, owner: str, name: str) -> tuple[Repository, str]:
        if token.login is None:
            raise ApiError(403, "this needs a token with a person or a scope; see `imq token create --help`")
        repository, login = await self._find(token, owner, name)
        self._permissions.budget.spend(token, WRITE_COST)
        if token.grant.operator and token.grant.login is not None:
            # `_find` asks GitHub nothing for an operator, so the login may belong to another account by now.
            right = await self._permissions.of(token, repository)
            if right.permission is Permission.NONE:
                raise ApiError(403, "the person of this token may not do this here")
            login = right.login
        return repository, login

    async def controllable(self, request: web.Request) -> tuple[Repository, str]:
        """Return the same for callers who may control queues. Raises ApiError 403 for other callers who may read it."""
        return await self._controllable(caller(request), *_named(request))

    async def allowed(self, token: Token, repository: Repository, *, controls: bool) -> tuple[Repository, str]:
        """Return what `writable` or `controllable` does, for a call that IMQ accepted before; raises their errors."""
        if token.grant.access is Permission.READ:
            raise ApiError(403, "this token may only read")
        judge = self._controllable if controls else self._writable
        return await judge(token, repository.owner, repository.name)

    async def _controllable(self, token: Token, owner: str, name: str) -> tuple[Repository, str]:
        if token.grant.access is not Permission.MAINTAIN:
            raise ApiError(403, "this needs a token made with `--maintain`")
        repository, login = await self._writable(token, owner, name)
        if token.grant.service:
            return repository, login
        right = await self._permissions.of(token, repository, fresh=True)
        if right.permission not in CONTROL_ROLES:
            raise ApiError(403, "this needs the role maintain or admin, which the person of this token does not have")
        return repository, right.login

    def spend(self, request: web.Request) -> None:
        """Charge the caller for one request to GitHub that a reading call makes. Raises ApiError 429."""
        self._permissions.budget.spend(caller(request))

    async def role(self, request: web.Request, repository: Repository) -> Permission:
        """Return the caller's permission, for pages: `NONE` without a person, and while GitHub does not answer."""
        return await self._role_of(caller(request), repository)

    async def _role_of(self, token: Token, repository: Repository) -> Permission:
        if token.grant.login is None or token.grant.access is not Permission.MAINTAIN:
            return Permission.NONE
        try:
            return (await self._permissions.of(token, repository)).permission
        except (ApiError, GitHubError):
            return Permission.NONE

    async def controlled(self, token: Token, among: Iterable[Repository]) -> frozenset[int]:
        """Return those of the ids whose queues the caller may control, to show a button: `controllable` decides."""
        covered = [repository for repository in among if token.grant.covers(repository)][:MAX_LOOKUPS]
        roles = {repository.id: await self._role_of(token, repository) for repository in covered}
        return frozenset(number for number, role in roles.items() if role in CONTROL_ROLES)

    async def visible(
        self, token: Token | None, listed: Iterable[Repository], summed: Iterable[Repository]
    ) -> frozenset[int]:
        """Return the ids of the repositories that an answer may include, of those `listed` and those only `summed`.

        Without a token there are none.
        """
        if token is None:
            return frozenset()
        if token is ANONYMOUS:
            return frozenset() if self._public is None else await self._public.among(listed)
        grant = token.grant
        within, around = ([each for each in some if grant.covers(each)] for some in (listed, summed))
        if grant.operator or grant.service:
            return frozenset(each.id for each in (*within, *around))
        return frozenset() if grant.login is None else await self._permissions.readable(token, within, around)

    async def knows_all(self, token: Token, listed: Iterable[Repository]) -> bool:
        """Return whether `visible` judged all of these: IMQ asks GitHub about some repositories at a time."""
        if token is ANONYMOUS:
            return self._public is None or await self._public.knows(listed)
        grant = token.grant
        if grant.operator or grant.service:
            return True
        return self._permissions.knows(token, [each for each in listed if grant.covers(each)])

    async def _find(self, token: Token, owner: str, name: str) -> tuple[Repository, str]:
        """Return the repository and the caller's login. Raises ApiError 404, and GitHubError."""
        if token is ANONYMOUS and self._public is None:
            raise no_such_repository()
        grant, login = token.grant, token.login or ""
        async with self._engine.store.reading() as tx:
            found = await tx.repositories.named(owner, name)
            instead = await tx.repositories.some(owner)
        if token is ANONYMOUS and self._public is not None:
            return await self._find_public(found, instead, f"{owner}/{name}".casefold()), ""
        if found is not None and not grant.covers(found):
            found = None
        if grant.login is not None and not grant.operator and (asked := found or instead) is not None:
            alias = f"{owner}/{name}".casefold() if found is None else None
            right = await self._permissions.of(token, asked, alias=alias)
            login = right.login
            if right.permission is Permission.NONE:
                found = None
        elif not grant.operator and not grant.service:
            found = None
        if found is None:
            raise no_such_repository()
        return found, login

    async def _find_public(self, found: Repository | None, instead: Repository | None, alias: str) -> Repository:
        """Return a public repository. An unknown name takes as many requests to GitHub as a hidden repository."""
        assert self._public is not None, "the caller checks it"
        asked = found or instead
        public = asked is not None and await self._public.is_public(asked, alias=alias if found is None else None)
        if found is None or not public:
            raise no_such_repository()
        return found


def _named(request: web.Request) -> tuple[str, str]:
    return request.match_info["owner"], request.match_info["repo"]


def no_such_repository() -> ApiError:
    """Return the error for a repository that does not exist or is hidden from the caller."""
    return ApiError(404, "IMQ has no such repository, or this token may not see it")
