"""Decide what a token may see and do: by its scope, and by its person's permission on GitHub.

A caller cannot tell a repository that they may not read from one that does not exist: status, body and requests to
GitHub are the same. So access is checked before anything else.

No token may do more than its person or its scope. `test_hidden_repositories.py` and `test_api_tokens.py` hold both;
they walk the OpenAPI document.
"""

from collections.abc import Iterable

from aiohttp import web

from bot.api.auth import caller
from bot.api.errors import ApiError
from bot.api.permissions import WRITE_COST, People, Permissions
from queue_engine.admission.enqueue import CONTROL_ROLES
from queue_engine.domain.facts import Permission
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
from queue_engine.store.operations.tokens import Token


class Access:
    """Checks access to repositories."""

    def __init__(self, engine: Engine, people: People) -> None:
        self._engine = engine
        self._permissions = Permissions(people, engine.store, engine.clock)

    async def readable(self, request: web.Request) -> Repository:
        """Return the repository of a request. Raises ApiError 404 if the caller may not read it; and GitHubError."""
        return (await self._find(request))[0]

    async def writable(self, request: web.Request) -> tuple[Repository, str]:
        """Return the repository and the login of the person who changes it. The engine decides whether they may.

        Raises ApiError (403 for a token that changes nothing, 404, 429) and GitHubError.
        """
        token = caller(request)
        if token.login is None:
            raise ApiError(403, "this needs a token with a person or a scope; see `imq token create --help`")
        repository, login = await self._find(request)
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
        token = caller(request)
        if token.grant.access is not Permission.MAINTAIN:
            raise ApiError(403, "this needs a token made with `--maintain`")
        repository, login = await self.writable(request)
        if token.grant.service:
            return repository, login
        right = await self._permissions.of(token, repository, fresh=True)
        if right.permission not in CONTROL_ROLES:
            raise ApiError(403, "this needs the role maintain or admin, which the person of this token does not have")
        return repository, right.login

    async def visible(
        self, token: Token | None, listed: Iterable[Repository], summed: Iterable[Repository]
    ) -> frozenset[int]:
        """Return the ids of the repositories that an answer may include, of those `listed` and those only `summed`.

        Without a token there are none.
        """
        if token is None:
            return frozenset()
        grant = token.grant
        within, around = ([each for each in some if grant.covers(each)] for some in (listed, summed))
        if grant.operator or grant.service:
            return frozenset(each.id for each in (*within, *around))
        return frozenset() if grant.login is None else await self._permissions.readable(token, within, around)

    async def _find(self, request: web.Request) -> tuple[Repository, str]:
        """Return the repository and the caller's login. Raises ApiError 404, and GitHubError."""
        token = caller(request)
        grant, login = token.grant, token.login or ""
        owner, name = request.match_info["owner"], request.match_info["repo"]
        async with self._engine.store.reading() as tx:
            found = await tx.queues.repository(owner, name)
            instead = await tx.queues.some_repository(owner)
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


def no_such_repository() -> ApiError:
    """Return the error for a repository that does not exist or is hidden from the caller."""
    return ApiError(404, "IMQ has no such repository, or this token may not see it")
