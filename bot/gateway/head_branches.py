"""Find the pull requests of a head branch, for callers who know their branch and not the number."""

from bot.gateway import facts
from bot.gateway.http.answers import parse_list
from bot.gateway.http.client import Call, owner_and_repo
from bot.gateway.http.connection import Connection
from bot.gateway.schemas import PullRequestAnswer
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Repository


class HeadBranches:
    """Reads pull requests by their head branch. Raises the errors of `queue_engine.domain.errors`."""

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
