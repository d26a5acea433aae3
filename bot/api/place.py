"""What a call is about, and whether whoever calls may ask: the repository, the branch, the person's right there."""

import re
from collections.abc import Mapping

from aiohttp import web

from bot.api.auth import caller
from bot.api.errors import ApiError
from queue_engine.desk import MAY_STEER
from queue_engine.engine import Engine
from queue_engine.errors import NotFound
from queue_engine.facts import Permission
from queue_engine.model import Repository

REPOSITORY = "/repositories/{owner:[A-Za-z0-9_.-]{1,100}}/{repo:[A-Za-z0-9_.-]{1,100}}"
PULL = f"{REPOSITORY}/pulls/{{number:[1-9][0-9]{{0,8}}}}"
# The router compares what was sent: three characters for each byte that had to be encoded, a slash among them.
BRANCH = f"{REPOSITORY}/branches/{{branch:[^/]{{1,765}}}}"

VARIABLES: Mapping[str, str] = {
    "owner": "The owner of the repository.",
    "repo": "The name of the repository.",
    "number": "The number of the pull request.",
    "branch": "The base branch; a slash in its name is written `%2F`.",
}

_BRANCH = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]{1,255}")


def person(request: web.Request) -> str:
    """The GitHub user for whom the token acts. Raises ApiError 403."""
    login = caller(request).login
    if login is None:
        raise ApiError(403, "this token may not do that: it needs one made with `imq token create --login`")
    return login


def number_of(request: web.Request) -> int:
    """The number of the pull request that is asked about."""
    return int(request.match_info["number"])


def branch_of(request: web.Request) -> str:
    """The base branch that is asked about. Raises ApiError 404 for what no branch can be called."""
    branch = request.match_info["branch"]
    if not _BRANCH.fullmatch(branch) or not branch.isprintable():
        raise no_such_branch()
    return branch


async def repository_of(request: web.Request, engine: Engine) -> Repository:
    """The repository that is asked about, if IMQ is installed there. Raises ApiError 404."""
    async with engine.store.reading() as tx:
        found = await tx.queues.repository(request.match_info["owner"], request.match_info["repo"])
    if found is None:
        raise _no_such_repository()
    return found


async def readable(request: web.Request, engine: Engine) -> Repository:
    """The same, for who may read it: operators, and the token's person if GitHub says so now.

    Raises ApiError (403 for a token of nobody; 404, so that nobody learns what there is) and GitHubError.
    """
    if caller(request).operator:
        return await repository_of(request, engine)
    login = person(request)
    repository = await repository_of(request, engine)
    if await _right(engine, repository, login) is Permission.NONE:
        raise _no_such_repository()
    return repository


async def steerable(request: web.Request, engine: Engine) -> tuple[Repository, str]:
    """The repository, and the person of the token, if they may steer its queues. Raises ApiError 403, 404."""
    login = person(request)
    repository = await repository_of(request, engine)
    if await _right(engine, repository, login) not in MAY_STEER:
        raise ApiError(403, "this needs the role maintain or admin, and the person of this token does not have it here")
    return repository, login


def no_such_branch() -> ApiError:
    """Nobody knows such a branch."""
    return ApiError(404, "there is no such branch, or no queue of it")


async def _right(engine: Engine, repository: Repository, login: str) -> Permission:
    try:
        return await engine.github.permission(repository, login)
    except NotFound:
        return Permission.NONE


def _no_such_repository() -> ApiError:
    return ApiError(404, "IMQ knows no such repository: is its GitHub App installed there?")
