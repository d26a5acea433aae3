"""Endpoints that merge: pull requests, their update from the base, and branches."""

from sandbox import payloads
from sandbox.rest.call import Call
from sandbox.rest.errors import invalid_request, not_found
from sandbox.rest.routing import Answer, Routes

routes = Routes("pulls/pulls")
_METHODS = ("merge", "squash", "rebase")


@routes.repository("GET", "/pulls/{number}/merge", "pull_requests=read")
def is_merged(call: Call) -> Answer:
    """204 when it is merged, 404 when not."""
    if not call.pull.merged:
        raise not_found()
    return Answer(None, 204)


@routes.repository("PUT", "/pulls/{number}/merge", "contents=write", role="write", creates=True)
def merge(call: Call) -> Answer:
    """Lands it: 405 when it cannot or may not be, 409 when the head is not the `sha` that was sent."""
    method = call.take("merge_method", str, "merge")
    if method not in _METHODS:
        raise invalid_request(f"For 'properties/merge_method', {method} is not a member of {list(_METHODS)}.")
    sha = call.github.merging.merge(
        call.pull,
        actor=call.actor,
        sha=call.take("sha", str, None),
        method=method,
        title=call.take("commit_title", str, None),
        message=call.take("commit_message", str, None),
    )
    return Answer({"sha": sha, "merged": True, "message": "Pull Request successfully merged"})


@routes.repository("PUT", "/pulls/{number}/update-branch", "pull_requests=write", role="write", creates=True)
def update_branch(call: Call) -> Answer:
    """Merges the base into the head, later: 202 is a promise to try."""
    pull = call.pull
    call.github.merging.update_branch(
        pull, actor=call.actor, expected_head_sha=call.take("expected_head_sha", str, None)
    )
    return Answer(
        {
            "message": "Updating pull request branch.",
            "url": payloads.simple_pull_request(call.github, pull)["html_url"],
        },
        202,
    )


@routes.repository("POST", "/merges", "contents=write", role="write", docs="branches/branches", creates=True)
def merge_branches(call: Call) -> Answer:
    """Merges a branch or commit into a branch: 201, 204 when there is nothing to do, 409 on a conflict."""
    repository = call.repository
    base, head = call.take("base", str), call.take("head", str)
    message = call.take("commit_message", str, None)
    sha = call.github.merging.merge_branch(repository, base=base, head=head, message=message, actor=call.actor)
    if sha is None:
        return Answer(None, 204)
    return Answer(payloads.commit(call.github, repository, repository.git.must(sha)), 201)
