"""Read from a call's path what it is about: repository, branch, pull request."""

import re
from collections.abc import Mapping

from aiohttp import web

from bot.api.errors import ApiError

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


def number_of(request: web.Request) -> int:
    """The number of the pull request that is asked about."""
    return int(request.match_info["number"])


def branch_of(request: web.Request) -> str:
    """The base branch that is asked about. Raises ApiError 404 for what no branch can be called."""
    branch = request.match_info["branch"]
    if not _BRANCH.fullmatch(branch) or not branch.isprintable():
        raise no_such_branch()
    return branch


def no_such_branch() -> ApiError:
    """Nobody knows such a branch."""
    return ApiError(404, "no such branch, or the branch has no queue")
