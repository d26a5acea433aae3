"""The mutation `disablePullRequestAutoMerge`.

An App needs `contents: write` and `pull_requests: write` (kubevirt-plugin #4513, pylegifrance #67).
"""

from typing import Any

from github_emulator.callers.tokens import Caller
from github_emulator.callers.visibility import visible
from github_emulator.facade.github import GitHub
from github_emulator.graphql.errors import Refused, not_accessible, not_found
from github_emulator.payloads import node_id
from github_emulator.state import Actor, PullRequest


def disable_auto_merge(github: GitHub, caller: Caller, actor: Actor, given: dict[str, Any]) -> dict[str, Any]:
    """Disable the auto-merge of a pull request. Raises Refused where it is not enabled."""
    pull = pull_request(github, caller, given["pullRequestId"])
    if actor.app is not None and not (actor.may("contents") and actor.may("pull_requests")):
        raise not_accessible()
    if pull.auto_merge is None:
        raise Refused("UNPROCESSABLE", "Can't disable auto-merge for this pull request.")
    github.auto_merges.disable(pull, actor=actor)
    return {"clientMutationId": given.get("clientMutationId")}


def pull_request(github: GitHub, caller: Caller, wanted: str) -> PullRequest:
    """Find a pull request that the caller may see by its id in GraphQL. Raises Refused."""
    for repository in github.state.repositories.values():
        for pull in repository.pulls.values():
            if node_id("PullRequest", pull.id) == wanted and visible(github, caller, repository):
                return pull
    raise not_found(f"node with the global id of '{wanted}'")
