"""Build candidates: branches of IMQ's own, merges and commits on them, and what starts CI on them.

Refusals of `updateRefs` come as an answer of status 200 with errors. No source quotes the words for a moved tip, so
IMQ goes by the words of rules.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any

from cachetools import LRUCache
from pydantic import Field

from bot.gateway import conversions
from bot.gateway.http.client import Call, ErrorAnswer, QueryAnswer, Unsupported, check, parse_answer
from bot.gateway.http.connection import Connection
from bot.gateway.repository_api import CommitPart, FilePart
from bot.gateway.schemas import (
    CommitAnswer,
    FilesAnswer,
    ListedCommitAnswer,
    NumberAnswer,
    PullRequestAnswer,
    RefAnswer,
    ShaAnswer,
)
from bot.gateway.snapshots import CheckReads
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.errors import Forbidden, GitHubError, HeadConflict, Invalid, MergeError, NotFound, Unavailable
from queue_engine.domain.facts import Commit
from queue_engine.domain.model import Repository
from queue_engine.domain.port import NO_BRANCH, NOTES, BranchUpdate
from queue_engine.domain.run import CANDIDATE

_SUFFIXES = (".yml", ".yaml")


class EntryPart(ReadModel):
    """`TreeEntry`."""

    name: str
    object: FilePart | None = None


class FilesPart(ReadModel):
    """`Tree`; a file in the place of the directory has no entries."""

    entries: list[EntryPart] = Field(default_factory=list)


class WorkflowsPart(ReadModel):
    """`Repository`; `commit` and `directory` are null if they do not exist."""

    id: str
    commit: CommitPart | None = None
    directory: FilesPart | None = None


class WorkflowsAnswer(ReadModel):
    """The answer to the query for workflow files."""

    repository: WorkflowsPart


class TextsAnswer(ReadModel):
    """The answer to a query for files; null where there is none, by the alias of each."""

    repository: dict[str, FilePart | None]


def file_texts(paths: Sequence[str], answer: TextsAnswer) -> Mapping[str, str]:
    """Return the text of each file that there is; empty where GitHub shows no complete text, as of a folder."""
    found = {path: answer.repository.get(f"file{place}") for place, path in enumerate(paths)}
    return {
        path: blob.complete_text for path, blob in found.items() if blob is not None and blob.is_truncated is not None
    }


def workflow_texts(directory: str, tree: FilesPart | None) -> Mapping[str, str]:
    """Return the text of each workflow file by its path; empty where GitHub shows no complete text."""
    return {
        f"{directory}/{entry.name}": entry.object.complete_text if entry.object else ""
        for entry in (tree.entries if tree else ())
        if entry.name.endswith(_SUFFIXES)
    }


MERGE_LIMIT = timedelta(seconds=60)
"""Merges of big repositories take long, and a merge given up on must be read back."""

_MARK_LIMIT = timedelta(seconds=5)
"""A landing waits for its mark, and does without it where GitHub is slow."""

_UPDATE = """mutation UpdateRefs($repository: ID!, $updates: [RefUpdate!]!) {
  updateRefs(input: {repositoryId: $repository, refUpdates: $updates}) { clientMutationId }
}"""
_NODE = "query NodeId($owner: String!, $name: String!) { repository(owner: $owner, name: $name) { id } }"
_WORKFLOWS = """query Workflows($owner: String!, $name: String!, $commit: GitObjectID!, $directory: String!) {
  repository(owner: $owner, name: $name) {
    id
    commit: object(oid: $commit) { oid }
    directory: object(expression: $directory) {
      ... on Tree { entries { name object { ... on Blob { isBinary isTruncated text } } } }
    }
  }
}"""
_DIRECTORY = ".github/workflows"
_CONFLICT = "merge conflict"
_NO_WORKFLOWS = "`workflows` permission"
"""GitHub's words for an App that may not change workflow files (mantidproject/mantid #41541)."""
_OF_RULES = (
    "rule violation",
    "protected branch",
    "protected ref",
    "status check",
    "not authorized",
    "must ",
    "cannot ",
)
"""Words of rulesets (Kong/kong-operator #4536, dmf-mxl/mxl #356) and of classic protection."""
_OF_TIPS = ("cannot be updated", "but expected", "is at ", "fast forward", "fast-forward", "already exists")
_NO_OBJECT, _THERE, _GONE = "object does not exist", "reference already exists", "reference does not exist"
_NO_DRAFTS = "draft pull requests are not supported"
"""GitHub's words in repositories without drafts, as message or in `errors` (cli/cli #520, SWE-agent #179)."""
_OPEN_ALREADY = "a pull request already exists"


class CandidateApi(CheckReads):
    """Creates and moves branches for candidates. Part of `Gateway`."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._node_ids: LRUCache[int, str] = LRUCache(1000)
        """GitHub's ids of repositories in GraphQL, which never change."""

    async def create_branch(self, repository: Repository, branch: str, sha: str) -> None:
        await self._create_ref(repository, f"refs/heads/{branch}", sha)

    async def _create_ref(
        self, repository: Repository, ref: str, sha: str, limit: timedelta = timedelta(seconds=20)
    ) -> None:
        call = Call("POST", "/repos/{owner}/{repo}/git/refs", body={"ref": ref, "sha": sha}, limit=limit)
        await self._connection.call(repository, call)

    async def create_ref(self, repository: Repository, ref: str, sha: str) -> None:
        """`POST /repos/{owner}/{repo}/git/refs`."""
        try:
            await self._create_ref(repository, ref, sha, _MARK_LIMIT)
        except Invalid as refusal:
            words = refusal.message.lower()
            kind = HeadConflict if _THERE in words else NotFound if _NO_OBJECT in words else None
            if kind is None:
                raise
            raise kind(refusal.message, status=refusal.status) from refusal

    async def _move_ref(self, repository: Repository, ref: str, target: str, *, force: bool) -> None:
        """`PATCH /repos/{owner}/{repo}/git/refs/{ref}`."""
        template, variables = "/repos/{owner}/{repo}/git/refs{/ref*}", {"ref": ref.split("/")[1:]}
        await self._connection.call(
            repository, Call("PATCH", template, variables, body={"sha": target, "force": force})
        )

    async def _write_tree(self, repository: Repository, onto: str | None, files: Mapping[str, str]) -> str:
        """`POST /repos/{owner}/{repo}/git/trees`: the tree `onto` with these files."""
        entries = [{"path": path, "mode": "100644", "type": "blob", "content": text} for path, text in files.items()]
        body: dict[str, Any] = {"tree": entries} | ({} if onto is None else {"base_tree": onto})
        answer = await self._write(repository, "POST", "/repos/{owner}/{repo}/git/trees", body)
        return parse_answer(ShaAnswer, answer).sha

    async def write_notes(self, repository: Repository, onto: Commit | None, notes: Mapping[str, str]) -> Commit:
        """`POST .../git/trees` and `POST .../git/commits`, then `PATCH` or `POST` of the ref."""
        # The folders are those of `git notes` in a repository with many of them: it reads both forms.
        files = {f"{commit[:2]}/{commit[2:]}": text for commit, text in notes.items()}
        tree = await self._write_tree(repository, None if onto is None else onto.tree, files)
        parents = () if onto is None else (onto.sha,)
        made = await self.create_commit(repository, tree, parents, f"Notes of {len(notes)} landings by IMQ")
        try:
            if onto is None:
                await self._create_ref(repository, NOTES, made.sha)
            else:
                await self._move_ref(repository, NOTES, made.sha, force=False)
        except Invalid as refusal:
            if any(each in refusal.message.lower() for each in (_THERE, _GONE, *_OF_TIPS)):
                raise HeadConflict(refusal.message, status=refusal.status) from refusal
            raise
        return made

    async def candidate_branches(self, repository: Repository) -> Mapping[str, str]:
        """`GET /repos/{owner}/{repo}/git/matching-refs/heads/imq`: published branches and build branches."""
        template = "/repos/{owner}/{repo}/git/matching-refs/heads/imq"
        found = await self._connection.items(repository, RefAnswer, template)
        names = {each.ref.removeprefix("refs/heads/"): each.object.sha for each in found}
        return {name: sha for name, sha in names.items() if CANDIDATE.fullmatch(name)}

    async def merge_into(self, repository: Repository, branch: str, head_sha: str, message: str) -> Commit | None:
        """`POST /repos/{owner}/{repo}/merges`: 201 with a commit, 204 without. Words tell a rule from a conflict."""
        body = {"base": branch, "head": head_sha, "commit_message": message}
        call = Call("POST", "/repos/{owner}/{repo}/merges", body=body, limit=MERGE_LIMIT)
        try:
            answer = (await self._connection.call(repository, call)).data
        except HeadConflict as refusal:
            if _CONFLICT in refusal.message.lower():
                raise
            kind = Forbidden if _NO_WORKFLOWS in refusal.message else Invalid
            raise kind(refusal.message, status=refusal.status) from refusal
        if answer is None:
            return None
        merged = parse_answer(ListedCommitAnswer, answer)
        return Commit(merged.sha, merged.commit.tree.sha, tuple(parent.sha for parent in merged.parents))

    async def create_commit(self, repository: Repository, tree: str, parents: Sequence[str], message: str) -> Commit:
        body = {"message": message, "tree": tree, "parents": list(parents)}
        answer = await self._write(repository, "POST", "/repos/{owner}/{repo}/git/commits", body)
        return conversions.commit(parse_answer(CommitAnswer, answer))

    async def update_refs(self, repository: Repository, updates: Sequence[BranchUpdate]) -> None:
        """The mutation `updateRefs`, and once for each repository a query for its id in GraphQL."""
        node = await self._node_id(repository)
        variables = {"repository": node, "updates": [_ref_update(each) for each in updates]}
        answer = await self._ask(repository, _UPDATE, variables)
        for error in answer.errors:
            if (refusal := _refusal(error)) is not None:
                raise refusal
        _check(answer, [("updateRefs",)])

    async def open_draft(self, repository: Repository, head: str, base: str, title: str, body: str) -> int:
        """`POST /repos/{owner}/{repo}/pulls`. The open pull request of this head and base, if there is one already."""
        request = {"title": title, "head": head, "base": base, "body": body, "draft": True}
        try:
            return await self._open(repository, request)
        except Invalid as refusal:
            words = refusal.message.lower()
            if _NO_DRAFTS in words:
                return await self._open_undrafted(repository, request)
            if _OPEN_ALREADY not in words:
                raise
            return await self._already_open(repository, head, base, refusal)

    async def close_pull_request(self, repository: Repository, number: int) -> None:
        template = "/repos/{owner}/{repo}/pulls/{pull_number}"
        await self._write(repository, "PATCH", template, {"state": "closed"}, pull_number=str(number))

    async def dispatch_workflow(
        self, repository: Repository, path: str, branch: str, inputs: Mapping[str, str]
    ) -> None:
        """`POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches`; the id may be the file's name."""
        template = "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches"
        body: dict[str, Any] = {"ref": branch} | ({"inputs": dict(inputs)} if inputs else {})
        await self._write(repository, "POST", template, body, workflow_id=PurePosixPath(path).name)

    async def workflow_files(self, repository: Repository, commit: str) -> Mapping[str, str]:
        """A query for the entries of `.github/workflows`; files that GitHub shows no complete text of are empty."""
        variables = {
            "owner": repository.owner,
            "name": repository.name,
            "commit": commit,
            "directory": f"{commit}:{_DIRECTORY}",
        }
        answer = await self._ask(repository, _WORKFLOWS, variables)
        _check(answer, [("repository",), ("repository", "commit"), ("repository", "directory")])
        found = parse_answer(WorkflowsAnswer, answer.data).repository
        if found.commit is None:
            raise NotFound(f"No commit found for {commit}", status=404)
        self._node_ids[repository.id] = found.id
        return workflow_texts(_DIRECTORY, found.directory)

    async def texts(self, repository: Repository, commit: str, paths: Sequence[str]) -> Mapping[str, str]:
        declared = "".join(f", $path{place}: String!" for place in range(len(paths)))
        read = "".join(
            f" file{place}: object(expression: $path{place}) {{ ... on Blob {{ isBinary isTruncated text }} }}"
            for place in range(len(paths))
        )
        fields = f"repository(owner: $owner, name: $name) {{ id{read} }}"
        text = f"query Texts($owner: String!, $name: String!{declared}) {{ {fields} }}"
        variables = {f"path{place}": f"{commit}:{path}" for place, path in enumerate(paths)}
        answer = await self._ask(repository, text, {"owner": repository.owner, "name": repository.name, **variables})
        _check(answer, [("repository",)])
        found = answer.data or {}
        blobs = {name: each for name, each in found["repository"].items() if name != "id"}
        return file_texts(paths, parse_answer(TextsAnswer, {"repository": blobs}))

    async def paths(self, repository: Repository, commit: str) -> Sequence[str] | None:
        """`GET /repos/{owner}/{repo}/git/trees/{tree_sha}`, recursive. A submodule has no file of this repository."""
        template = "/repos/{owner}/{repo}/git/trees/{tree_sha}?recursive=1"
        answer = await self._connection.get(repository, FilesAnswer, template, {"tree_sha": commit})
        files = [each.path for each in answer.tree if each.type == "blob" and each.size != 0]
        return None if answer.truncated else files

    async def _open(self, repository: Repository, request: Mapping[str, Any]) -> int:
        answer = await self._write(repository, "POST", "/repos/{owner}/{repo}/pulls", dict(request))
        return parse_answer(NumberAnswer, answer).number

    async def _open_undrafted(self, repository: Repository, request: Mapping[str, Any]) -> int:
        try:
            return await self._open(repository, {**request, "draft": False})
        except Invalid as refusal:
            if _OPEN_ALREADY not in refusal.message.lower():
                raise
            return await self._already_open(repository, request["head"], request["base"], refusal)

    async def _already_open(self, repository: Repository, head: str, base: str, refusal: Invalid) -> int:
        """Find the open pull request, after an answer that was lost.

        IMQ closes what this returns, so it compares the branch: GitHub also lists pull requests of other branches on
        the same commit (octokit.js #2056).
        """
        template = "/repos/{owner}/{repo}/pulls?state=open&head={head}&base={base}&per_page=5"
        variables = {"head": f"{repository.owner}:{head}", "base": base}
        for answer in await self._connection.listed(repository, PullRequestAnswer, template, variables, fresh=True):
            if answer.head.ref == head:
                return answer.number
        raise refusal

    async def _node_id(self, repository: Repository) -> str:
        if repository.id not in self._node_ids:
            answer = await self._ask(repository, _NODE, {"owner": repository.owner, "name": repository.name})
            _check(answer, [("repository",)])
            found = (answer.data or {}).get("repository")
            if not isinstance(found, dict) or not isinstance(found.get("id"), str):
                raise Unavailable("the answer is not GitHub's: a repository without an id")
            self._node_ids[repository.id] = found["id"]
        return self._node_ids[repository.id]

    async def _ask(self, repository: Repository, text: str, variables: Mapping[str, Any]) -> QueryAnswer:
        with _with_trains():
            return await self._connection.ask(repository, text, variables)


def _check(answer: QueryAnswer, needed: Iterable[tuple[str, ...]]) -> None:
    with _with_trains():
        check(answer, needed)


@contextmanager
def _with_trains() -> Iterator[None]:
    """Raise Forbidden where GitHub lacks what trains need of GraphQL."""
    try:
        yield
    except Unsupported as missing:
        raise Forbidden(f"this GitHub offers no trains: {missing}", status=403) from missing


def _ref_update(update: BranchUpdate) -> dict[str, Any]:
    before = {} if update.before is None else {"beforeOid": update.before}
    return {
        # GitHub lets no branch begin so (its changelog of 2023-03-23).
        "name": update.branch if update.branch.startswith("refs/") else f"refs/heads/{update.branch}",
        "afterOid": update.after or NO_BRANCH,
        "force": update.force,
        **before,
    }


def _refusal(error: ErrorAnswer) -> GitHubError | None:
    """Return the error of a refused update; None for errors of GraphQL itself, and for outages."""
    words = error.message.lower()
    if _NO_WORKFLOWS in words:
        return Forbidden(error.message, status=403)
    if error.type != "UNPROCESSABLE":
        return None
    if any(part in words for part in _OF_RULES) and not any(part in words for part in _OF_TIPS):
        return MergeError(error.message, status=422)
    return HeadConflict(error.message, status=422)
