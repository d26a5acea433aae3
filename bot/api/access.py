"""Decide what a token may see and do: by its scope, and by its person's permission on GitHub.

A repository that the caller may not read is one that there is not: the same status, the same body, the same questions
to GitHub. So it is looked at before anything else about it is.

Every route answers for what a caller may not see as for what does not exist. No token may do more than its person or
its scope. `test_hidden_repositories.py` and `test_api_tokens.py` hold both; they walk the OpenAPI document.
"""

from collections.abc import Iterable

from aiohttp import web

from bot.api.auth import caller
from bot.api.errors import ApiError
from bot.api.permissions import CHANGE, People, Permissions
from queue_engine.admission.enqueue import CONTROL_ROLES
from queue_engine.domain.facts import Permission
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
from queue_engine.store.operations.tokens import Token


class Access:
    """The judge of one process."""

    def __init__(self, engine: Engine, people: People) -> None:
        self._engine = engine
        self._permissions = Permissions(people, engine.store, engine.clock)

    async def readable(self, request: web.Request) -> Repository:
        """The repository that is asked about. Raises ApiError: 404 if the caller does not see it; and GitHubError."""
        return (await self._seen(request))[0]

    async def writable(self, request: web.Request) -> tuple[Repository, str]:
        """The repository, and under whose name it is changed. Whether that person may is the engine's to judge.

        Raises ApiError (403 for a token that changes nothing, 404, 429) and GitHubError.
        """
        token = caller(request)
        if token.login is None:
            raise ApiError(403, "this needs a token with a person or a scope; see `imq token create --help`")
        repository, login = await self._seen(request)
        self._permissions.budget.spend(token, CHANGE)
        if token.grant.operator and token.grant.login is not None:
            # An operator sees everything, so that nobody looked yet who has the login now.
            right = await self._permissions.of(token, repository)
            if right.permission is Permission.NONE:
                raise ApiError(403, "the person of this token may not do this here")
            login = right.login
        return repository, login

    async def steerable(self, request: web.Request) -> tuple[Repository, str]:
        """The same, for callers who may control queues there. Raises ApiError 403 for all others who see it."""
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
        self, token: Token | None, listed: Iterable[Repository], beside: Iterable[Repository]
    ) -> frozenset[int]:
        """Ids of the repositories that an answer may tell of: a list of some, and what stands `beside` it in sums.

        A stranger's lists are empty.
        """
        if token is None:
            return frozenset()
        grant = token.grant
        within, around = ([each for each in some if grant.covers(each)] for some in (listed, beside))
        if grant.operator or grant.service:
            return frozenset(each.id for each in (*within, *around))
        return frozenset() if grant.login is None else await self._permissions.readable(token, within, around)

    async def _seen(self, request: web.Request) -> tuple[Repository, str]:
        """The repository, and the caller's name there. Raises ApiError 404, whatever the reason is, and GitHubError."""
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
    """The one answer about what the caller does not see."""
    return ApiError(404, "IMQ has no such repository, or this token may not see it")
