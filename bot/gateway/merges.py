"""Merge pull requests: at once, or in the background; and disable GitHub's own auto-merge, which only GraphQL does."""

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from bot.gateway.http import client
from bot.gateway.http.client import Call, QueryAnswer, Unsupported, owner_and_repo, parse_answer
from bot.gateway.http.connection import Connection
from bot.gateway.repository_api import RepositoryApi
from bot.gateway.schemas import ShaAnswer
from queue_engine.domain.errors import Forbidden, NotFound, Unavailable
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import Repository
from queue_engine.domain.port import MergeState, PendingMerge

_MERGE_LIMIT = timedelta(seconds=60)
"""Merges of big repositories take long, and a merge given up on must be read back."""

_ALSO_ANSWERS = frozenset({400, 409})
"""A pull request that is not ready, and a request that is under way, with the same fields as for success."""


class _Details(BaseModel):
    """The details of a merge in the background; `uuid` while it is pending, `sha` once it has landed."""

    message: str = ""
    uuid: str | None = None
    sha: str | None = None


class _PendingMergeAnswer(BaseModel):
    """`PUT` and `GET .../merge-async` (gh-stack, "Merge API"; octocrab and go-github #4491 read the same fields)."""

    status: str
    details: _Details


class MergeApi(RepositoryApi):
    """Merges pull requests. Part of `Gateway`."""

    async def merge(
        self,
        repository: Repository,
        number: int,
        head_sha: str,
        method: MergeMethod,
        *,
        title: str | None = None,
        body: str | None = None,
    ) -> str:
        """`PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge`. Returns the SHA that landed."""
        call = Call(
            "PUT",
            "/repos/{owner}/{repo}/pulls/{pull_number}/merge",
            _pull(repository, number),
            body=_body(head_sha, method, title, body),
            limit=_MERGE_LIMIT,
        )
        page = await self._connection.call(repository, call)
        return parse_answer(ShaAnswer, page.data).sha

    async def merge_in_background(
        self,
        repository: Repository,
        number: int,
        head_sha: str,
        method: MergeMethod,
        *,
        title: str | None = None,
        body: str | None = None,
    ) -> PendingMerge:
        """`PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge-async`, never by GitHub's own queue."""
        call = Call(
            "PUT",
            "/repos/{owner}/{repo}/pulls/{pull_number}/merge-async",
            _pull(repository, number),
            body={**_body(head_sha, method, title, body), "merge_action": "direct_merge"},
            limit=_MERGE_LIMIT,
            answered_with=_ALSO_ANSWERS,
        )
        return _pending((await self._connection.call(repository, call)).data)

    async def pending_merge(self, repository: Repository, number: int, uuid: str) -> PendingMerge:
        """`GET /repos/{owner}/{repo}/pulls/{pull_number}/merge-async/{uuid}`, never from a cache."""
        template = "/repos/{owner}/{repo}/pulls/{pull_number}/merge-async/{uuid}"
        call = Call("GET", template, {**_pull(repository, number), "uuid": uuid})
        return _pending((await self._connection.call(repository, call, fresh=True)).data)


def _pull(repository: Repository, number: int) -> dict[str, str]:
    return {**owner_and_repo(repository), "pull_number": str(number)}


def _body(head_sha: str, method: MergeMethod, title: str | None, body: str | None) -> dict[str, str]:
    message = {"commit_title": title, "commit_message": body}
    return {"sha": head_sha, "merge_method": method.value} | {
        name: text for name, text in message.items() if text is not None
    }


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
_NOTHING_TO_DISABLE = "UNPROCESSABLE"


async def disable_auto_merge(connection: Connection, repository: Repository, node_id: str) -> bool:
    """`disablePullRequestAutoMerge`; False if it was not enabled any more.

    It needs `contents: write` and `pull_requests: write` (kubevirt-plugin #4513, pylegifrance #67, csshw #234).

    Raises Forbidden where IMQ lacks the permission, or this GitHub has no such mutation.
    """
    call = client.query(connection.api_url, _DISABLE, {"pull": node_id})
    try:
        answer = parse_answer(QueryAnswer, (await connection.call(repository, call)).data)
        if any(error.type == _NOTHING_TO_DISABLE for error in answer.errors):
            return False
        client.check(answer, [("disablePullRequestAutoMerge",)])
    except (NotFound, Unsupported) as missing:
        raise Forbidden(f"GitHub offers no way to disable auto-merge: {missing}", status=403) from missing
    return True
