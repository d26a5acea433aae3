"""Endpoints that merge: pull requests, their update from the base, and branches."""

from github_emulator import payloads
from github_emulator.callers.errors import DOCS, Refusal, invalid_request, not_accessible, not_found
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes

routes = Routes("pulls/pulls")
_METHODS = ("merge", "squash", "rebase")
_ACTIONS = ("default", "direct_merge", "merge_queue")
_ASYNC = "merge-a-pull-request-asynchronously"


@routes.repository(
    "GET", "/pulls/{number}/merge", "pull_requests=read", docs="#check-if-a-pull-request-has-been-merged"
)
def is_merged(call: Call) -> Answer:
    """204 when it is merged, 404 when not."""
    if not call.pull.merged:
        raise not_found()
    return Answer(None, 204)


@routes.repository(
    "PUT", "/pulls/{number}/merge", "contents=write", role="write", creates=True, docs="#merge-a-pull-request"
)
def merge(call: Call) -> Answer:
    """Lands it: 405 when it cannot or may not be, 409 when the head is not the `sha` that was sent."""
    method = call.take("merge_method", str, "merge")
    if method not in _METHODS:
        raise invalid_request(f"For 'properties/merge_method', {method} is not a member of {list(_METHODS)}.")
    if call.github.stacks.of(call.pull) is not None:
        # As chdsbd/kodiak #923 quotes it.
        words = "Merging stacked PRs via this endpoint is not supported. Use the asynchronous merge endpoint instead."
        raise Refusal(call.github.behaviour.stacked_merge_status, words, docs=f"{DOCS}/pulls/pulls#{_ASYNC}")
    sha = call.github.merging.merge(
        call.pull,
        actor=call.actor,
        sha=call.take("sha", str, None),
        method=method,
        title=call.take("commit_title", str, None),
        message=call.take("commit_message", str, None),
    )
    return Answer({"sha": sha, "merged": True, "message": "Pull Request successfully merged"})


@routes.repository(
    "PUT",
    "/pulls/{number}/merge-async",
    "contents=write",
    role="write",
    creates=True,
    docs="#merge-a-pull-request-asynchronously",
)
def merge_async(call: Call) -> Answer:
    """Lands it later: 202, 200 when it has landed, 409 with the request that is under way, 400 when it is not open."""
    method = call.one_of("merge_method", _METHODS, "merge")
    status, request = call.github.async_merges.submit(
        call.pull,
        actor=call.actor,
        sha=call.take("sha", str, None),
        method=method if "merge_method" in call.data else None,
        action=call.one_of("merge_action", _ACTIONS, "default"),
        title=call.take("commit_title", str, None),
        text=call.take("commit_message", str, None),
    )
    return Answer(payloads.merge_request(request), status)


@routes.repository(
    "GET", "/pulls/{number}/merge-async/{uuid}", "pull_requests=read", docs="#get-the-result-of-an-asynchronous-merge"
)
def merge_result(call: Call) -> Answer:
    """What became of a merge that was asked for, for a day; the permission that it needs is not documented."""
    if call.github.behaviour.merge_results_need_contents and not call.actor.may("contents", "read"):
        raise not_accessible("contents=read")
    return Answer(payloads.merge_request(call.github.async_merges.find(call.pull, call.params["uuid"])))


@routes.repository(
    "PUT",
    "/pulls/{number}/update-branch",
    "pull_requests=write",
    role="write",
    creates=True,
    docs="#update-a-pull-request-branch",
)
def update_branch(call: Call) -> Answer:
    """Merges the base into the head, later: 202 is a promise to try."""
    pull = call.pull
    if not call.github.behaviour.stacked_updates and call.github.stacks.of(pull) is not None:
        words = "Merging stacked PRs via this API is not supported. Use the web interface instead."
        raise Refusal(403, words, docs=f"{DOCS}/pulls/pulls#{_ASYNC}")
    call.github.merging.update_branch(
        pull, actor=call.actor, expected_head_sha=call.take("expected_head_sha", str, None)
    )
    return Answer(
        {
            "message": "Updating pull request branch.",
            "url": payloads.simple_pull_request(call.github.source, pull)["html_url"],
        },
        202,
    )


@routes.repository(
    "POST", "/merges", "contents=write", role="write", creates=True, docs="branches/branches#merge-a-branch"
)
def merge_branches(call: Call) -> Answer:
    """Merges a branch or commit into a branch: 201, 204 when there is nothing to do, 409 on a conflict."""
    repository = call.repository
    base, head = call.take("base", str), call.take("head", str)
    message = call.take("commit_message", str, None)
    sha = call.github.merging.merge_branch(repository, base=base, head=head, message=message, actor=call.actor)
    if sha is None:
        return Answer(None, 204)
    return Answer(payloads.commit(call.github.source, repository, repository.git.must(sha)), 201)
