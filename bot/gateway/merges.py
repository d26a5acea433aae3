"""Merge pull requests, at once or in the background; disable GitHub's auto-merge; read head branches and their pushes.

No commit says when it was pushed. Its dates are what its author likes, `pushedDate` was removed as incorrect
(policy-bot #598), and a branch that is moved forward to a commit of another branch leaves no event
(shepherdjerred/monorepo #1657). Repository activity has each move of a branch ("List repository activities";
dependabot-core #14840 and monorepo #1704 read it for the same purpose).
"""

from datetime import UTC, timedelta
from http import HTTPStatus
from typing import Any

import structlog
from pydantic import AliasPath, Field

from bot.gateway import conversions
from bot.gateway.http.client import Call, Unsupported, check, parse_answer
from bot.gateway.http.connection import Connection
from bot.gateway.repository_api import RepositoryApi
from bot.gateway.schemas import ActivityAnswer, PullRequestAnswer, ShaAnswer
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.errors import Forbidden, Invalid, NotFound, Refused, Unavailable
from queue_engine.domain.facts import Commit, HeadPush, MergeCommit, MergeMethod, PullRequest
from queue_engine.domain.model import Repository
from queue_engine.domain.port import MergeState, PendingMerge

_MERGE_LIMIT = timedelta(seconds=60)
"""Merges of big repositories take long, and a merge given up on must be read back."""

_ALSO_ANSWERS = frozenset({400, 409})
"""A pull request that is not ready, and a request that is under way, with the same fields as for success."""


class _Details(ReadModel):
    """The details of a merge in the background; `uuid` while it is pending, `sha` once it has landed."""

    message: str = ""
    uuid: str | None = None
    sha: str | None = None


class _PendingMergeAnswer(ReadModel):
    """`PUT` and `GET .../merge-async` (gh-stack, "Merge API"; octocrab and go-github #4491 read the same fields)."""

    status: str
    details: _Details


class MergeApi(RepositoryApi):
    """Merges pull requests. Part of `Gateway`."""

    async def merge(
        self, repository: Repository, number: int, head_sha: str, method: MergeMethod, text: MergeCommit | None = None
    ) -> str:
        call = _merge("/repos/{owner}/{repo}/pulls/{pull_number}/merge", number, _body(head_sha, method, text))
        page = await self._connection.call(repository, call)
        return parse_answer(ShaAnswer, page.data).sha

    async def merge_in_background(
        self, repository: Repository, number: int, head_sha: str, method: MergeMethod, text: MergeCommit | None = None
    ) -> PendingMerge:
        """`PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge-async`, never by GitHub's own queue."""
        its_body = {**_body(head_sha, method, text), "merge_action": "direct_merge"}
        call = _merge("/repos/{owner}/{repo}/pulls/{pull_number}/merge-async", number, its_body, _ALSO_ANSWERS)
        return _pending((await self._connection.call(repository, call)).data)

    async def pending_merge(self, repository: Repository, number: int, uuid: str) -> PendingMerge:
        """`GET /repos/{owner}/{repo}/pulls/{pull_number}/merge-async/{uuid}`, never from a cache."""
        template = "/repos/{owner}/{repo}/pulls/{pull_number}/merge-async/{uuid}"
        call = Call("GET", template, {"pull_number": str(number), "uuid": uuid})
        return _pending((await self._connection.call(repository, call, fresh=True)).data)

    async def disable_auto_merge(self, repository: Repository, node_id: str) -> bool:
        """`disablePullRequestAutoMerge`, which only GraphQL has; False if it was not enabled any more.

        It needs `contents: write` and `pull_requests: write` (kubevirt-plugin #4513, pylegifrance #67, csshw #234).

        Raises Forbidden where IMQ lacks the permission, or this GitHub has no such mutation.
        """
        try:
            answer = await self._connection.ask(repository, _DISABLE, {"pull": node_id})
            if any(error.type == _UNPROCESSABLE for error in answer.errors):
                return False
            check(answer, [("disablePullRequestAutoMerge",)])
        except (NotFound, Unsupported) as missing:
            raise Forbidden(f"GitHub offers no way to disable auto-merge: {missing}", status=403) from missing
        return True

    async def revert_pull_request(
        self, repository: Repository, node_id: str, title: str, body: str
    ) -> tuple[int, str, Commit]:
        """`revertPullRequest`, which only GraphQL has (changelog of 2023-01-27; cli/cli #8826 calls it).

        No source quotes what GitHub answers about a conflict, so each error of this field counts as a refusal, unless
        its type or its words say otherwise; without the right to push they say that there are no commits
        (flutter/cocoon, `GraphQLRevertMethod`). Raises Invalid for that, and Forbidden where this GitHub has no such
        mutation.
        """
        try:
            answer = await self._connection.ask(repository, _REVERT, {"pull": node_id, "title": title, "body": body})
            for error in answer.errors:
                of_field = bool(error.path) and answer.data is not None and error.type in (None, "", _UNPROCESSABLE)
                if of_field and _UNEXPLAINED not in error.message.lower():
                    raise Invalid(error.message, status=422)
            check(answer, [("revertPullRequest",)])
        except Unsupported as missing:
            raise Forbidden(f"GitHub offers no way to revert a pull request: {missing}", status=403) from missing
        made = parse_answer(_RevertAnswer, answer.data).revert
        if (target := made.target) is None:
            return made.number, made.branch, Commit(made.head_sha, "", ())
        parents = tuple(each.oid for each in target.parents)
        return made.number, made.branch, Commit(made.head_sha, target.tree, parents, message=target.message)

    async def head_pushes(self, repository: Repository, pull: PullRequest) -> tuple[HeadPush, ...]:
        """Read `GET /repos/{owner}/{repo}/activity`, newest first; nothing where GitHub does not tell.

        The period is named, as one client found a day to be the default. With any token GitHub lists public forks
        (the page: "if only public resources are requested").
        """
        if pull.head_repository is None:
            return ()
        return await self._branch_pushes(repository, pull.head_repository, pull.head_branch)

    async def branch_pushes(self, repository: Repository, branch: str) -> tuple[HeadPush, ...]:
        return await self._branch_pushes(repository, repository.full_name, branch)

    async def _branch_pushes(self, repository: Repository, full_name: str, branch: str) -> tuple[HeadPush, ...]:
        """Read the moves of a branch of a repository by this name, newest first; those of IMQ's own name its App.

        The web page of this list shows `renovate[bot]` beside branches that it created, moved and deleted by the API
        (tatsuroro/renovate-config, the-unicorns/renovate-config; the reference has `actor` and `branch_creation`).
        """
        owner, _, name = full_name.partition("/")
        ref = f"refs/heads/{branch}"
        asked = {"ref": ref, "time_period": "year", "direction": "desc", "per_page": "100"}
        template = "/repos/{owner}/{repo}/activity{?ref,time_period,direction,per_page}"
        try:
            moves = await self._connection.listed(
                repository, ActivityAnswer, template, {"owner": owner, "repo": name, **asked}, fresh=True
            )
        except (Forbidden, NotFound, Refused) as error:
            if isinstance(error, Refused):
                if error.status != HTTPStatus.FORBIDDEN or full_name == repository.full_name:
                    raise
                # A token's permissions say nothing about a fork. That IMQ's own repository is shown does.
                await self._connection.call(repository, Call("GET", _REPOSITORY, {"repository_id": str(repository.id)}))
            _log.info("head_pushes_unreadable", repository=full_name, branch=branch, error=error.message)
            return ()
        return tuple(
            HeadPush(each.before, each.after, each.timestamp.astimezone(UTC), each.actor.login if each.actor else None)
            for each in moves
            if each.ref == ref
        )


def _merge(template: str, number: int, body: dict[str, str], answered_with: frozenset[int] = frozenset()) -> Call:
    its_number = {"pull_number": str(number)}
    return Call("PUT", template, its_number, body=body, limit=_MERGE_LIMIT, answered_with=answered_with)


def _body(head_sha: str, method: MergeMethod, message: MergeCommit | None) -> dict[str, str]:
    texts = {} if message is None else {"commit_title": message.title, "commit_message": message.body}
    given = {name: text for name, text in texts.items() if text is not None}
    return {"sha": head_sha, "merge_method": method.value, **given}


def _pending(data: Any) -> PendingMerge:
    """Convert GitHub's answer. Raises Unavailable for a state that IMQ does not know."""
    answer = parse_answer(_PendingMergeAnswer, data)
    if answer.status not in set(MergeState):
        raise Unavailable(f"the answer is not GitHub's: a merge is {answer.status!r}")
    details = answer.details
    return PendingMerge(MergeState(answer.status), details.message, details.uuid, details.sha)


_DISABLE = """mutation DisableAutoMerge($pull: ID!) {
  disablePullRequestAutoMerge(input: {pullRequestId: $pull}) { clientMutationId }
}"""
_UNPROCESSABLE = "UNPROCESSABLE"


_REVERT = """mutation Revert($pull: ID!, $title: String!, $body: String!) {
  revertPullRequest(input: {pullRequestId: $pull, title: $title, body: $body}) {
    revertPullRequest {
      number headRefOid headRefName
      headRef { target { ... on Commit { message tree { oid } parents(first: 2) { nodes { oid } } } } }
    }
  }
}"""
_UNEXPLAINED = "something went wrong"
"""GitHub's words for a fault of its own, such as a time limit."""


class _Oid(ReadModel):
    oid: str


class _Target(ReadModel):
    message: str
    tree: str = Field(validation_alias=AliasPath("tree", "oid"))
    parents: tuple[_Oid, ...] = Field(validation_alias=AliasPath("parents", "nodes"))


class _Reverted(ReadModel):
    number: int
    head_sha: str = Field(alias="headRefOid")
    branch: str = Field(alias="headRefName")
    target: _Target | None = Field(None, validation_alias=AliasPath("headRef", "target"))


class _RevertAnswer(ReadModel):
    revert: _Reverted = Field(validation_alias=AliasPath("revertPullRequest", "revertPullRequest"))


class HeadBranches:
    """Reads pull requests by their head branch, for callers who do not know the number. Raises GitHubError."""

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
        variables = {"head": f"{owner}:{branch}", "state": state, "per_page": "30"}
        found = await self._connection.listed(repository, PullRequestAnswer, template, variables, fresh=True)
        return tuple(
            conversions.pull_request(answer) for answer in found if answer.head.ref == branch and _is_of(answer, owner)
        )


def _is_of(answer: PullRequestAnswer, owner: str) -> bool:
    """Whether the head belongs to this account; also where its repository was deleted, which has no owner."""
    of = answer.head.repo
    return of is None or of.full_name.partition("/")[0].casefold() == owner.casefold()


_log = structlog.get_logger(__name__)

_REPOSITORY = "/repositories/{repository_id}"
