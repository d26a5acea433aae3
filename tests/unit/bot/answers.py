"""GitHub's answers in the shape of its documentation, with the parts that a test cares about."""

from typing import Any


def repository(**parts: Any) -> dict[str, Any]:
    return {"id": 5, "name": "engine", "full_name": "ada/engine", "owner": {"login": "ada"}, **parts}


def pull_request(**parts: Any) -> dict[str, Any]:
    return {
        "number": 3,
        "title": "Count holes",
        "user": {"login": "grace"},
        "assignees": [{"login": "ada"}],
        "state": "open",
        "merged": False,
        "draft": False,
        "head": {"sha": "h1", "ref": "holes", "repo": {**repository(), "full_name": "grace/engine"}},
        "base": {"sha": "b1", "ref": "main", "repo": repository()},
        "mergeable": True,
        "labels": [{"name": "merge-queue"}],
        "merge_commit_sha": "trial",
        "maintainer_can_modify": True,
        **parts,
    }


def listed_commit(sha: str, *parents: str) -> dict[str, Any]:
    return {"sha": sha, "commit": {"tree": {"sha": f"tree-{sha}"}}, "parents": [{"sha": each} for each in parents]}


def comparison(*commits: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {
        "base_commit": listed_commit("tip"),
        "merge_base_commit": listed_commit("fork-point"),
        "ahead_by": len(commits),
        "behind_by": 0,
        "commits": list(commits),
        **parts,
    }


def check_run(**parts: Any) -> dict[str, Any]:
    return {"id": 1, "name": "test", "status": "completed", "conclusion": "success", "app": {"id": 15}, **parts}


def status(**parts: Any) -> dict[str, Any]:
    return {"id": 1, "context": "lint", "state": "success", "target_url": None, **parts}
