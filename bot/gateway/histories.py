"""Compare a head with its base by commits and parents, when GitHub cannot make the diff between them.

`compare` makes a diff, and may fail for long on large ones: 422 or 500 "this diff is taking too long to generate"
(github-changelog-generator #920), or 503. Lists of commits need none.
"""

from collections.abc import Sequence

from bot.gateway import facts
from bot.gateway.http.client import Call, owner_and_repo, parse_list
from bot.gateway.http.connection import Connection
from bot.gateway.schemas import ListedCommitAnswer
from queue_engine.domain.errors import GitHubError, Invalid, Unavailable
from queue_engine.domain.facts import Comparison
from queue_engine.domain.model import Repository

_TEMPLATE = "/repos/{owner}/{repo}/commits?sha={sha}&per_page=100"


def may_lack_diff(fault: GitHubError) -> bool:
    """Whether `compare` may have failed for its diff alone: 422, or any error of GitHub's own."""
    return isinstance(fault, Invalid) or (isinstance(fault, Unavailable) and (fault.status or 0) >= 500)


async def compare_histories(
    connection: Connection, repository: Repository, base_branch: str, head_sha: str, *, own_login: str
) -> Comparison:
    """`GET /repos/{owner}/{repo}/commits` of the head and of the base, a hundred commits of each.

    Raises Unavailable when a hundred commits do not show how far apart they are.
    """
    of_head = await _newest(connection, repository, head_sha)
    of_base = await _newest(connection, repository, base_branch)
    compared = compare_commits(of_head, of_base, head_sha, own_login=own_login)
    if compared is None:
        raise Unavailable(f"GitHub cannot compare {head_sha} with {base_branch}, and they are far apart")
    return compared


def compare_commits(
    of_head: Sequence[ListedCommitAnswer], of_base: Sequence[ListedCommitAnswer], head_sha: str, *, own_login: str
) -> Comparison | None:
    """Compare the newest commits of both, newest first; None when they have no commit in common.

    The head is up to date exactly if the base's tip is among its ancestors. Else the newest commit that both have is
    a merge base: a parent that equals it is a commit of the base.
    """
    if not of_head or not of_base or of_head[0].sha != head_sha:
        return None
    ancestors = {commit.sha for commit in of_head}
    merge_base = next((commit.sha for commit in of_base if commit.sha in ancestors), None)
    if merge_base is None:
        return None
    return Comparison(
        base_tip=of_base[0].sha,
        merge_base=merge_base,
        behind=len(_reachable(of_base) - ancestors),
        head=facts.listed_commit(of_head[0], own_login=own_login),
    )


def _reachable(commits: Sequence[ListedCommitAnswer]) -> set[str]:
    """Return the listed commits that the first one contains, itself included."""
    parents = {commit.sha: [parent.sha for parent in commit.parents] for commit in commits}
    found, left = {commits[0].sha}, [commits[0].sha]
    while left:
        new = [parent for parent in parents[left.pop()] if parent in parents and parent not in found]
        found.update(new)
        left += new
    return found


async def _newest(connection: Connection, repository: Repository, sha: str) -> list[ListedCommitAnswer]:
    page = await connection.call(repository, Call("GET", _TEMPLATE, {**owner_and_repo(repository), "sha": sha}))
    return parse_list(ListedCommitAnswer, page.data)
