"""Merges in the background, and reverts."""

from typing import Any

import pytest

from bot.gateway import Gateway
from queue_engine.domain.errors import Forbidden, GitHubError, HeadConflict, Invalid, NotFound, Unavailable
from queue_engine.domain.facts import Commit, MergeCommit, MergeMethod
from queue_engine.domain.model import Repository
from queue_engine.domain.port import MergeState, PendingMerge
from tests.unit.bot.github_double import GitHubDouble, Says

REPO = "/repos/ada/engine"
ASYNC = f"{REPO}/pulls/3/merge-async"
DETAILS = {"uuid": "u-1", "merge_method": "squash", "merge_action": "direct_merge", "expected_head_sha": "h1"}


def answer(status: str, message: str = "", **details: Any) -> dict[str, Any]:
    return {"status": status, "details": {"message": message, **details}}


@pytest.mark.parametrize(
    ("status", "content", "found"),
    [
        (202, answer("pending", **DETAILS), PendingMerge(MergeState.PENDING, uuid="u-1")),
        (409, answer("pending", "exists", **DETAILS), PendingMerge(MergeState.PENDING, "exists", "u-1")),
        (200, answer("merged", "done", sha="landed"), PendingMerge(MergeState.MERGED, "done", sha="landed")),
        (200, answer("enqueued", "queued"), PendingMerge(MergeState.ENQUEUED, "queued")),
        (400, answer("failed", "closed"), PendingMerge(MergeState.FAILED, "closed")),
    ],
)
async def test_merge_in_the_background_sends_the_expected_head_and_reads_each_answer(
    gateway: Gateway, github: GitHubDouble, repository: Repository, status: int, content: Any, found: PendingMerge
) -> None:
    """It is never left to GitHub's own queue; 409 and 400 carry the endpoint's answer, too."""
    github.on("PUT", ASYNC, Says(content, status))
    pending = await gateway.merge_in_background(repository, 3, "h1", MergeMethod.SQUASH, MergeCommit("T"))
    assert pending == found
    body = {"sha": "h1", "merge_method": "squash", "commit_title": "T", "merge_action": "direct_merge"}
    assert github.asked_for("PUT", ASYNC)[0].data == body


@pytest.mark.parametrize(
    ("status", "error"), [(409, HeadConflict), (404, NotFound), (400, GitHubError), (502, Unavailable)]
)
async def test_merge_in_the_background_refused_in_other_words_raises(
    gateway: Gateway, github: GitHubDouble, repository: Repository, status: int, error: type[Exception]
) -> None:
    """A refusal without the endpoint's fields is one like any other's."""
    github.on("PUT", ASYNC, Says({"message": "no"}, status))
    with pytest.raises(error):
        await gateway.merge_in_background(repository, 3, "h1", MergeMethod.MERGE)


async def test_result_of_a_merge_in_the_background_is_read_by_its_name(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A state that IMQ does not know is no answer of GitHub's."""
    where = f"{ASYNC}/u-1"
    github.on("GET", where, Says(answer("failed", "Merge conflict")), Says(answer("vanished")))
    assert await gateway.pending_merge(repository, 3, "u-1") == PendingMerge(MergeState.FAILED, "Merge conflict")
    with pytest.raises(Unavailable, match="vanished"):
        await gateway.pending_merge(repository, 3, "u-1")


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        ({"type": "UNPROCESSABLE", "message": "This could not be reverted automatically."}, Invalid),
        ({"type": "UNPROCESSABLE", "message": "No commits between main and revert-3-x"}, Invalid),
        ({"message": "Something went wrong while executing your query."}, Unavailable),
        ({"type": "FORBIDDEN", "message": "Resource not accessible by integration"}, GitHubError),
        ({"extensions": {"code": "undefinedField"}, "message": "Field 'revertPullRequest' doesn't exist"}, Forbidden),
    ],
)
async def test_revert_that_github_does_not_open_says_why(
    gateway: Gateway, github: GitHubDouble, repository: Repository, error: dict[str, Any], raised: type[GitHubError]
) -> None:
    """Without the right to push, GitHub's words are those of a revert without commits (flutter/cocoon)."""
    path = ["mutation Revert", "revertPullRequest"] if "extensions" in error else ["revertPullRequest"]
    data = {} if "extensions" in error else {"data": {"revertPullRequest": None}}
    github.on("POST", "/graphql", Says({"errors": [error | {"path": path}]} | data))
    with pytest.raises(raised, match=error["message"][:20]):
        await gateway.revert_pull_request(repository, "PR_3", "Revert", "body")


@pytest.mark.parametrize("has_commit", [True, False])
async def test_revert_has_the_title_and_description_that_imq_wants(
    gateway: Gateway, github: GitHubDouble, repository: Repository, has_commit: bool
) -> None:
    """P2, P4: the description has the mark by which IMQ finds it, and the answer the commit that GitHub made."""
    target = {"message": "Revert it", "tree": {"oid": "t9"}, "parents": {"nodes": [{"oid": "base"}]}}
    revert = {
        "number": 9,
        "headRefOid": "h9",
        "headRefName": "revert-3",
        "headRef": {"target": target} if has_commit else None,
    }
    github.on("POST", "/graphql", Says({"data": {"revertPullRequest": {"revertPullRequest": revert}}}))
    made = await gateway.revert_pull_request(repository, "PR_3", "Revert it", "why")
    commit = Commit("h9", "t9", ("base",)) if has_commit else Commit("h9", "", ())
    assert (made, made[2].message) == ((9, "revert-3", commit), "Revert it" if has_commit else "")
    [asked] = github.asked_for("POST", "/graphql")
    assert asked.data["variables"] == {"pull": "PR_3", "title": "Revert it", "body": "why"}
