"""List the files in which two commits differ, or two trees.

A comparison lists 300 files at most, on its first page only (docs, "Compare two commits"; rest-api-description #33 and
#3975), and a renamed file under its new name with the former one beside it. A tree with `recursive` is cut off after
100,000 entries or 7 MB, and then `truncated` (docs, "Get a tree"; go-github #922, release-please #1279).

`compare` makes a diff, and may fail for long on large ones: 422 or 500 "this diff is taking too long to generate"
(github-changelog-generator #920), or 503. Lists of commits need none.
"""

from collections.abc import Sequence

from cachetools import LRUCache

from bot.gateway import conversions
from bot.gateway.http.connection import Connection
from bot.gateway.schemas import FileAnswer, FilesAnswer, ListedCommitAnswer
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.errors import GitHubError, Unavailable
from queue_engine.domain.facts import Comparison
from queue_engine.domain.model import Repository

_TEMPLATE = "/repos/{owner}/{repo}/commits?sha={sha}&per_page=100"


def may_lack_diff(fault: GitHubError) -> bool:
    """Whether `compare` may have failed for its diff alone: 422, or any error of GitHub's own."""
    return isinstance(fault, Unavailable) and (fault.status == 422 or (fault.status or 0) >= 500)


async def compare_histories(
    connection: Connection, repository: Repository, base_branch: str, head_sha: str, *, own_login: str
) -> Comparison:
    """`GET /repos/{owner}/{repo}/commits` of both, a hundred each. Raises Unavailable if these are too few."""
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
    of_both = {commit.sha for commit in of_base}
    merge_base = next((commit.sha for commit in of_base if commit.sha in ancestors), None)
    if merge_base is None:
        return None
    return Comparison(
        base_tip=of_base[0].sha,
        merge_base=merge_base,
        behind=len(_reachable(of_base) - ancestors),
        head=conversions.listed_commit(of_head[0], own_login=own_login),
        ahead=tuple(commit.sha for commit in reversed(of_head) if commit.sha not in of_both),
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
    return await connection.listed(repository, ListedCommitAnswer, _TEMPLATE, {"sha": sha})


_MOST_FILES = 300
_MOST_TREES = 60
"""Trees that one comparison reads, where the first two are cut off."""

_REMEMBERED = 200
"""Answers that are remembered: the same two commits are compared while checks run, and before the merge."""

_CONTAINED = frozenset({"ahead", "identical"})
"""GitHub's words for a later commit that contains the earlier one."""


class _FileAnswer(ReadModel):
    filename: str
    previous_filename: str | None = None


class _ChangesAnswer(ReadModel):
    status: str
    files: list[_FileAnswer] | None = None


class _CutOff(Exception):
    """GitHub does not list all files."""


class FileChanges:
    """Reads the files that changed between two commits, which never change; remembers the last answers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: LRUCache[tuple[int, str, str], frozenset[str]] = LRUCache(_REMEMBERED)

    async def read(
        self, repository: Repository, before: str, after: str, *, contained: bool = True
    ) -> frozenset[str] | None:
        """Return former and new paths of the changed files; None if GitHub lists not all.

        Of two commits that have gone apart, the files changed since their common one: only without `contained`.
        """
        key = repository.id, before, f"{after} {contained}"
        if (known := self._known.get(key)) is not None:
            return known
        template = "/repos/{owner}/{repo}/compare/{base}...{head}"
        variables = {"base": before, "head": after}
        try:
            answer = await self._connection.get(repository, _ChangesAnswer, template, variables)
        except GitHubError as fault:
            if may_lack_diff(fault):
                return None
            raise
        if answer.files is None or len(answer.files) >= _MOST_FILES:
            return None
        if contained and answer.status not in _CONTAINED:
            return None
        names = [name for each in answer.files for name in (each.filename, each.previous_filename)]
        self._known[key] = frozenset(name for name in names if name is not None)
        return self._known[key]


async def differing_paths(
    connection: Connection, repository: Repository, one: str, other: str
) -> frozenset[str] | None:
    """Return the paths of files that only one of two trees has, or that differ; None if GitHub lists not all."""
    trees = _Trees(connection, repository)
    try:
        return frozenset(await trees.difference(one, other, ""))
    except _CutOff:
        return None


class _Trees:
    """Compares trees: whole ones, or where these are cut off one directory after the other."""

    def __init__(self, connection: Connection, repository: Repository) -> None:
        self._connection = connection
        self._repository = repository
        self._read = 0

    async def difference(self, one: str | None, other: str | None, folder: str) -> set[str]:
        whole = [await self._entries(sha, recursive=True) for sha in (one, other)]
        if not any(entries is None for entries in whole):
            return {folder + path for path, _ in _differing(whole)}
        parts = [await self._entries(sha, recursive=False) for sha in (one, other)]
        found: set[str] = set()
        for path, sides in _differing(parts):
            trees = [side.sha if side is not None and side.type == "tree" else None for side in sides]
            if any(trees):
                found |= await self.difference(trees[0], trees[1], f"{folder}{path}/")
            if any(side is not None and side.type != "tree" for side in sides):
                found.add(folder + path)
        return found

    async def _entries(self, sha: str | None, *, recursive: bool) -> dict[str, FileAnswer] | None:
        """Read a tree; None if GitHub cuts the whole of it off. Raises _CutOff for a part of it, or too many parts."""
        if sha is None:
            return {}
        self._read += 1
        if self._read > _MOST_TREES:
            raise _CutOff
        template = "/repos/{owner}/{repo}/git/trees/{tree_sha}" + ("?recursive=1" if recursive else "")
        answer = await self._connection.get(self._repository, FilesAnswer, template, {"tree_sha": sha})
        if answer.truncated and not recursive:
            raise _CutOff
        if answer.truncated:
            return None
        return {each.path: each for each in answer.tree if not recursive or each.type != "tree"}


_Sides = tuple[FileAnswer | None, FileAnswer | None]


def _differing(listed: list[dict[str, FileAnswer] | None]) -> list[tuple[str, _Sides]]:
    """Return the entries that only one side has, or that differ."""
    one, other = (each or {} for each in listed)
    pairs = [(path, (one.get(path), other.get(path))) for path in sorted(one.keys() | other.keys())]
    return [(path, sides) for path, sides in pairs if sides[0] != sides[1]]
