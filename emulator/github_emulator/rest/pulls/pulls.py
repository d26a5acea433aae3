"""Endpoints of pull requests, apart from merging them."""

from datetime import datetime
from functools import partial

from github_emulator import payloads
from github_emulator.callers.errors import invalid
from github_emulator.domain.pulls.pulls import PullRequestOptions
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes
from github_emulator.state import PullRequest, Repository

routes = Routes("pulls/pulls")
_READ, _WRITE = "pull_requests=read", "pull_requests=write"
_MOST_COMMITS = 250


@routes.repository("GET", "/pulls", _READ, docs="#list-pull-requests")
def list_pulls(call: Call) -> Answer:
    """Newest first unless asked otherwise; `head` is `owner:branch`."""
    query = call.query
    state, base, head = query.get("state", "open"), query.get("base"), query.get("head")
    found = [
        pull
        for pull in call.repository.pulls.values()
        if state in ("all", pull.state)
        and (base is None or pull.base_branch == base)
        and (head is None or ":" not in head or _has_head(call, pull, head))
    ]
    sort = query.get("sort", "created")
    # GitHub's default is descending for creation time, and ascending as soon as another order is asked for.
    direction = query.get("direction", "desc" if sort == "created" else "asc")
    found.sort(key=lambda pull: (sort_value(pull, sort), pull.number), reverse=direction == "desc")
    return call.page(found, partial(payloads.simple_pull_request, call.github.source))


def _has_head(call: Call, pull: PullRequest, head: str) -> bool:
    if call.github.behaviour.lists_heads_by_commit:
        return pull.head_sha == call.repository.git.branch(head.partition(":")[2])
    return f"{pull.head_owner}:{pull.head_branch}" == head


@routes.repository("POST", "/pulls", _WRITE, creates=True, docs="#create-a-pull-request")
def create_pull(call: Call) -> Answer:
    """Opens a pull request for a branch of this repository or of a fork (`owner:branch`)."""
    head, base = call.take("head", str), call.take("base", str)
    owner, colon, branch = head.rpartition(":")
    repository = call.repository
    source = repository if not colon else _fork(call, owner)
    if source is None:
        raise invalid("PullRequest", "head")
    pull = call.github.pulls.open(
        repository,
        title=call.take("title", str),
        head=(source, branch),
        base=base,
        actor=call.actor,
        options=PullRequestOptions(
            body=call.take("body", str, "", null=True) or "",
            draft=call.take("draft", bool, False),
            maintainer_can_modify=call.take("maintainer_can_modify", bool, True),
        ),
    )
    return Answer(payloads.pull_request(call.github.source, pull), 201)


@routes.repository("GET", "/pulls/{number}", _READ, docs="#get-a-pull-request")
def get_pull(call: Call) -> Answer:
    """One pull request. Asking starts the computation of `mergeable`, which is null until then."""
    return Answer(payloads.pull_request(call.github.source, call.pull))


@routes.repository("PATCH", "/pulls/{number}", _WRITE, docs="#update-a-pull-request")
def update_pull(call: Call) -> Answer:
    """Title, body, state, base and whether maintainers may push to a fork's branch."""
    apply_edits(call, call.pull)
    return Answer(payloads.pull_request(call.github.source, call.pull))


@routes.repository("GET", "/pulls/{number}/reviews", _READ, docs="pulls/reviews#list-reviews-for-a-pull-request")
def list_reviews(call: Call) -> Answer:
    """Oldest first."""
    pull = call.pull
    return call.page(pull.reviews, lambda review: payloads.review(call.github.source, pull, review))


@routes.repository("GET", "/pulls/{number}/commits", _READ, docs="#list-commits-on-a-pull-request")
def list_commits(call: Call) -> Answer:
    """Oldest first, at most 250."""
    commits = call.github.pulls.commits(call.pull)[:_MOST_COMMITS]
    return call.page(commits, lambda commit: payloads.commit(call.github.source, call.repository, commit))


@routes.repository("GET", "/pulls/{number}/files", _READ, docs="#list-pull-requests-files")
def list_files(call: Call) -> Answer:
    """What it changes against its merge base."""
    pull = call.pull
    files = call.github.pulls.files(pull)
    return call.page(
        files, lambda change: payloads.file_change(call.github.source, call.repository, pull.head_sha, change)
    )


def apply_edits(call: Call, pull: PullRequest) -> None:
    """The fields that the pull request's and the issue's PATCH share."""
    state = call.take("state", str, None)
    if state is not None and state not in ("open", "closed"):
        raise invalid("PullRequest", "state")
    body = call.take("body", str, None)
    title = call.data.get("title")
    call.github.pulls.edit(
        pull,
        actor=call.actor,
        title=title if title is None else str(title),
        body=body,
        state=state,
        base=call.take("base", str, None),
        maintainer_can_modify=call.take("maintainer_can_modify", bool, None),
    )


def _fork(call: Call, owner: str) -> Repository | None:
    root = call.repository.parent or call.repository
    network = call.github.state.repositories.values()
    return next((one for one in network if one.owner.login == owner and (one.parent or one) is root), None)


def sort_value(pull: PullRequest, sort: str) -> datetime | int:
    """What a list is ordered by: `created`, `updated`, or, as `popularity` or `comments`, how much was said."""
    if sort == "updated":
        return pull.updated_at
    if sort in ("popularity", "comments"):
        return len(pull.comments)
    return pull.created_at
