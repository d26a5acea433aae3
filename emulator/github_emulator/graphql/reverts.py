"""The mutation `revertPullRequest`: a pull request that takes back what a merged one brought.

It opens the same as the button on the page (GitHub's changelog of 2023-01-27; cli/cli #8826 calls it). An App needs
`contents: write` and `pull_requests: write`. No source quotes the refusal of a conflict.
"""

from typing import Any

from github_emulator.callers.tokens import Caller
from github_emulator.domain.merging.signing import author_and_committer
from github_emulator.domain.pulls.pulls import PullRequestOptions
from github_emulator.facade.github import GitHub
from github_emulator.graphql.auto_merges import pull_request
from github_emulator.graphql.errors import Refused, not_accessible
from github_emulator.state import Actor, PullRequest


def revert_pull_request(github: GitHub, caller: Caller, actor: Actor, given: dict[str, Any]) -> dict[str, Any]:
    """Open the revert of a merged pull request. Raises Refused where it is not merged, or conflicts."""
    pull = pull_request(github, caller, given["pullRequestId"])
    if actor.app is not None and not (actor.may("contents") and actor.may("pull_requests")):
        raise not_accessible()
    repository, git = pull.repository, pull.repository.git
    tip = git.branch(pull.base_branch)
    if not pull.merged or pull.merge_commit_sha is None or tip is None:
        raise Refused("UNPROCESSABLE", "Pull request is not merged")
    tree = git.revert_tree(pull.merge_commit_sha, _before(pull), tip)
    if tree is None or tree == git.tree(tip):
        raise Refused("UNPROCESSABLE", "This pull request could not be reverted automatically.")
    title = given.get("title") or f'Revert "{pull.title}"'
    body = given.get("body") or f"Reverts {repository.full_name}#{pull.number}"
    branch = _free_branch(pull)
    landed = git.must(pull.merge_commit_sha).message.split("\n")[0]
    quotes_landed = github.behaviour.revert_quotes == "landed"
    message = (
        f'Revert "{landed}"\n\nThis reverts commit {pull.merge_commit_sha}.' if quotes_landed else f"{title}\n\n{body}"
    )
    sha = git.write_commit(tree, (tip,), message, *author_and_committer(github.clock, actor.user))
    github.refs.create(repository, branch, sha, actor=actor)
    opened = github.pulls.open(
        repository,
        title=title,
        head=(repository, branch),
        base=pull.base_branch,
        actor=actor,
        options=PullRequestOptions(body, bool(given.get("draft"))),
    )
    return {
        "clientMutationId": given.get("clientMutationId"),
        "revertPullRequest": {
            "number": opened.number,
            "headRefOid": sha,
            "headRefName": branch,
            "headRef": {"name": branch, "target": _commit(sha, tree, tip, message)},
        },
    }


def _commit(sha: str, tree: str, parent: str, message: str) -> dict[str, Any]:
    parents = {"nodes": [{"__typename": "Commit", "oid": parent}]}
    return {"__typename": "Commit", "oid": sha, "tree": {"oid": tree}, "message": message, "parents": parents}


def _before(pull: PullRequest) -> str:
    """The commit of the base before this landed; a rebase landed as many commits as the pull request had."""
    git, sha = pull.repository.git, pull.merge_commit_sha
    assert sha is not None
    landed = git.must(sha)
    own = git.log(pull.head_sha, exclude=pull.base_sha)
    replayed = len(landed.parents) == 1 and landed.message == (own[0].message if own else "")
    for _ in range(len(own) if replayed else 1):
        sha = git.must(sha).parents[0]
    return sha


def _free_branch(pull: PullRequest) -> str:
    """`revert-N-BRANCH`, and a number where that is taken, as on the page."""
    name = f"revert-{pull.number}-{pull.head_branch}"
    found = (name if not more else f"{name}-{more}" for more in range(100))
    return next(each for each in found if pull.repository.git.branch(each) is None)
