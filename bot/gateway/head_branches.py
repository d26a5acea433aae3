"""Read head branches: their pull requests, and when they were pushed to, by GitHub's clock.

Commits carry any date that people like. GitHub has no such time in a commit: `pushedDate` was removed as incorrect
(policy-bot #598), and a branch that is moved forward to a commit of another branch leaves no event
(shepherdjerred/monorepo #1657). Repository activity has each move of a branch ("List repository activities";
dependabot-core #14840 and monorepo #1704 read it for the same purpose).
"""

from datetime import UTC
from http import HTTPStatus

import structlog

from bot.gateway import facts
from bot.gateway.http.client import Call, owner_and_repo, parse_list
from bot.gateway.http.connection import Connection
from bot.gateway.schemas import ActivityAnswer, PullRequestAnswer
from queue_engine.domain.errors import Forbidden, Invalid, NotFound, Refused
from queue_engine.domain.facts import HeadPush, PullRequest
from queue_engine.domain.model import Repository


class HeadBranches:
    """Reads pull requests by their head branch, for callers who do not know the number.

    Raises the errors of `queue_engine.domain.errors`.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def pull_requests(
        self, repository: Repository, owner: str, branch: str, state: str
    ) -> tuple[PullRequest, ...]:
        """Read `GET /repos/{owner}/{repo}/pulls?head=`, one page, the newest first; `state` is `open` or `all`.

        `head` is `user:ref-name` (reference, "List pull requests"). GitHub ignores one in another form, and then lists
        every pull request (PyGithub #1566, git-pr-release #48), so IMQ compares the branch of each answer.
        """
        template = "/repos/{owner}/{repo}/pulls{?head,state,per_page}"
        variables = {**owner_and_repo(repository), "head": f"{owner}:{branch}", "state": state, "per_page": "30"}
        page = await self._connection.call(repository, Call("GET", template, variables), fresh=True)
        return tuple(
            facts.pull_request(answer)
            for answer in parse_list(PullRequestAnswer, page.data)
            if answer.head.ref == branch and _is_of(answer, owner)
        )


def _is_of(answer: PullRequestAnswer, owner: str) -> bool:
    """Whether the head belongs to this account; also where its repository was deleted, which has no owner."""
    of = answer.head.repo
    return of is None or of.full_name.partition("/")[0].casefold() == owner.casefold()


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
