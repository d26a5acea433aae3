"""Parse the path of a call: repository, branch, pull request."""

import re
from collections.abc import Mapping

from aiohttp import web

from bot.api.errors import ApiError

REPOSITORY = "/repositories/{owner:[A-Za-z0-9_.-]{1,100}}/{repo:[A-Za-z0-9_.-]{1,100}}"
PULL = f"{REPOSITORY}/pulls/{{number:[1-9][0-9]{{0,8}}}}"
# The router matches the encoded path, in which a byte may take three characters.
BRANCH = f"{REPOSITORY}/branches/{{branch:[^/]{{1,765}}}}"

PROCESS_ID = "[0-9a-f]{32}"
"""The pattern of a process id."""

VARIABLES: Mapping[str, str] = {
    "owner": "The owner of the repository.",
    "repo": "The name of the repository.",
    "number": "The number of the pull request.",
    "process_id": "The id of the process, from the answer that began it.",
    "branch": "The base branch; a slash in its name is written `%2F`.",
}

_BRANCH = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]{1,255}")


def number_of(request: web.Request) -> int:
    """Return the number of the pull request in the path."""
    return int(request.match_info["number"])


def branch_of(request: web.Request) -> str:
    """Return the base branch in the path. Raises ApiError 404 for an invalid branch name."""
    branch = request.match_info["branch"]
    if not _BRANCH.fullmatch(branch) or not branch.isprintable():
        raise no_such_branch()
    return branch


def no_such_branch() -> ApiError:
    """Return the error for a branch without a queue."""
    return ApiError(404, "no such branch, or the branch has no queue")
