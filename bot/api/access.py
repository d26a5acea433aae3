"""Decide what a token may see and do: by its scope, and by its person's permission on GitHub.

A caller cannot tell a repository that they may not read from one that does not exist: status, body and requests to
GitHub are the same. So access is checked before anything else.

No token may do more than its person or its scope. `test_hidden_repositories.py` and `test_api_tokens.py` hold both;
they walk the OpenAPI document.
"""

from collections.abc import Iterable

from aiohttp import web

from bot.api.auth import ANONYMOUS, caller
from bot.api.errors import ApiError
from bot.api.permissions import MAX_LOOKUPS, WRITE_COST, People, Permissions
from bot.api.public import PublicRepositories
from queue_engine.admission.enqueue import CONTROL_ROLES
from queue_engine.domain.errors import GitHubError
from queue_engine.domain.facts import Permission
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
from queue_engine.store.tokens import Token


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
        """Return the repository and the login of the person who changes it. The engine decides whether they may.

        Raises ApiError (403 for a token that changes nothing, 404, 429) and GitHubError.
        """
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
        """Return what `writable` does, or `controllable`, for a call of this token that IMQ accepted before.

        Raises the errors of these; ApiError 403 also for a token that may only read by now.
        """
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
        """Return the permission of the caller, so that pages show only what they may do; each call is checked again.

        `NONE` for callers without a person, and while GitHub does not answer.
        """
        return await self._role_of(caller(request), repository)

    async def _role_of(self, token: Token, repository: Repository) -> Permission:
        if token.grant.login is None or token.grant.access is not Permission.MAINTAIN:
            return Permission.NONE
        try:
            return (await self._permissions.of(token, repository)).permission
        except (ApiError, GitHubError):
            return Permission.NONE

    async def controlled(self, token: Token, among: Iterable[Repository]) -> frozenset[int]:
        """Return the ids of those repositories whose queues the caller may control, as far as IMQ knows.

        For showing a button: `controllable` decides.
        """
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
            found = await tx.queues.repository(owner, name)
            instead = await tx.queues.some_repository(owner)
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
