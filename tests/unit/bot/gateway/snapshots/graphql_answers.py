"""GitHub's answers to the query of a snapshot."""

from typing import Any

from tests.unit.bot.github_double import Says

GRAPHQL = "/graphql"
PULL = "/repos/ada/engine/pulls/3"
PERMISSION = "/repos/ada/engine/collaborators/grace/permission"

COMPARED = {"aheadBy": 1, "behindBy": 0, "baseTarget": {"oid": "b1"}, "headTarget": {"oid": "h1"}}


def pull(**parts: Any) -> dict[str, Any]:
    return {
        "number": 3,
        "title": "Count holes",
        "body": "Why",
        "state": "OPEN",
        "isDraft": False,
        "updatedAt": "2026-01-02T03:00:00Z",
        "author": {"__typename": "Bot", "login": "renovate"},
        "assignees": {"nodes": [{"login": "ada"}]},
        "labels": {"nodes": [{"name": "merge-queue"}]},
        "headRefOid": "h1",
        "headRefName": "holes",
        "headRepository": {"nameWithOwner": "ada/engine"},
        "baseRefName": "main",
        "baseRef": {"compare": COMPARED},
        "mergeable": "MERGEABLE",
        "mergeStateStatus": "BLOCKED",
        "maintainerCanModify": True,
        "mergeCommit": None,
        "commits": {"nodes": [{"commit": {"oid": "h1", "tree": {"oid": "t1"}, "parents": {"nodes": [{"oid": "b1"}]}}}]},
        "reviewDecision": "APPROVED",
        "latestOpinionatedReviews": {"nodes": [{"state": "APPROVED", "author": {"login": "max"}}]},
        "reviewThreads": threads(True),
        **parts,
    }


def threads(*resolved: bool, after: str | None = None) -> dict[str, Any]:
    nodes = [{"id": f"T{number}", "isResolved": each} for number, each in enumerate(resolved)]
    return {"nodes": nodes, "pageInfo": {"hasNextPage": after is not None, "endCursor": after}}


def answer(found: dict[str, Any] | None = None, **repository: Any) -> Says:
    return Says(
        {
            "data": {
                "repository": {
                    "mergeCommitAllowed": False,
                    "squashMergeAllowed": True,
                    "rebaseMergeAllowed": False,
                    "defaultBranchRef": {"name": "main"},
                    "collaborators": {"edges": [{"permission": "MAINTAIN", "node": {"login": "Grace"}}]},
                    "pullRequest": found or pull(),
                    **repository,
                }
            }
        }
    )


def refused(kind: str, message: str, path: list[str] | None = None, code: str | None = None) -> Says:
    error: dict[str, Any] = {"type": kind, "message": message, "path": path, "extensions": {"code": code}}
    return Says({"data": {"repository": None}, "errors": [error]})
