"""Read when a pull request's head branch was pushed to, by GitHub's clock. Commits carry any date that people like.

GitHub has no such time in a commit: `pushedDate` was removed as incorrect (policy-bot #598), and a branch that is moved
forward to a commit of another branch leaves no event (shepherdjerred/monorepo #1657). Repository activity has each move
of a branch ("List repository activities"; dependabot-core #14840 and monorepo #1704 read it for the same purpose).
"""

from datetime import UTC
from http import HTTPStatus

import structlog

from bot.gateway.http.answers import parse_list
from bot.gateway.http.client import Call
from bot.gateway.http.connection import Connection
from bot.gateway.schemas import ActivityAnswer
from queue_engine.domain.errors import Forbidden, Invalid, NotFound, Refused
from queue_engine.domain.facts import HeadPush, PullRequest
from queue_engine.domain.model import Repository

_log = structlog.get_logger(__name__)

_REPOSITORY = "/repositories/{repository_id}"


async def head_pushes(connection: Connection, repository: Repository, pull: PullRequest) -> tuple[HeadPush, ...]:
    """Read `GET /repos/{owner}/{repo}/activity`, newest first; nothing where GitHub does not tell.

    The period is named, as one client found a day to be the default. With any token GitHub lists public forks
    (the page: "if only public resources are requested").
    """
    if pull.head_repository is None:
        return ()
    return await branch_pushes(connection, repository, pull.head_repository, pull.head_branch)


async def branch_pushes(
    connection: Connection, repository: Repository, full_name: str, branch: str
) -> tuple[HeadPush, ...]:
    """Read the moves of a branch of a repository by this name, newest first; those of IMQ's own name its App.

    The web page of this list shows `renovate[bot]` beside branches that it created, moved and deleted by the API
    (tatsuroro/renovate-config, the-unicorns/renovate-config; the reference has `actor` and `branch_creation`).
    """
    owner, _, name = full_name.partition("/")
    ref = f"refs/heads/{branch}"
    asked = {"ref": ref, "time_period": "year", "direction": "desc", "per_page": "100"}
    template = "/repos/{owner}/{repo}/activity{?ref,time_period,direction,per_page}"
    call = Call("GET", template, {"owner": owner, "repo": name, **asked})
    try:
        page = await connection.call(repository, call, fresh=True)
    except (Forbidden, Invalid, NotFound, Refused) as error:
        if isinstance(error, Refused):
            if error.status != HTTPStatus.FORBIDDEN or full_name == repository.full_name:
                raise
            # A token's permissions say nothing about a fork. That IMQ's own repository is shown does.
            await connection.call(repository, Call("GET", _REPOSITORY, {"repository_id": str(repository.id)}))
        _log.info("head_pushes_unreadable", repository=full_name, branch=branch, error=error.message)
        return ()
    return tuple(
        HeadPush(each.before, each.after, each.timestamp.astimezone(UTC), each.actor.login if each.actor else None)
        for each in parse_list(ActivityAnswer, page.data)
        if each.ref == ref
    )
