"""Endpoints of commit statuses."""

from github_emulator import payloads
from github_emulator.callers.errors import invalid_request
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call
from github_emulator.rest.checks.checks import resolve
from github_emulator.rest.paging import paginate
from github_emulator.rest.routing import Routes

routes = Routes("commits/statuses")
_STATES = ("error", "failure", "pending", "success")


@routes.repository(
    "GET", "/commits/{ref}/status", "statuses=read", docs="#get-the-combined-status-for-a-specific-reference"
)
def combined(call: Call) -> Answer:
    """All contexts of a commit in one word, with the newest status of each."""
    sha = resolve(call, call.params["ref"])
    latest = call.github.checks.latest_statuses(call.repository, sha)
    chosen, headers = paginate(latest, call.query, call.url)
    return Answer(payloads.combined_status(call.github.source, call.repository, sha, chosen), headers=headers)


@routes.repository("GET", "/commits/{ref}/statuses", "statuses=read", docs="#list-commit-statuses-for-a-reference")
def list_all(call: Call) -> Answer:
    """Every status ever reported on a commit, newest first."""
    sha = resolve(call, call.params["ref"])
    newest = call.repository.statuses.get(sha, [])[::-1]
    return call.page(newest, lambda status: payloads.status(call.github.source, call.repository, status))


@routes.repository("POST", "/statuses/{sha}", "statuses=write", role="write", docs="#create-a-commit-status")
def create(call: Call) -> Answer:
    """Reports a status."""
    state = call.take("state", str)
    if state not in _STATES:
        raise invalid_request(f"For 'properties/state', {state} is not a member of {list(_STATES)}.")
    status = call.github.checks.create_status(
        call.repository,
        call.params["sha"],
        actor=call.actor,
        state=state,
        context=call.take("context", str, "default"),
        description=call.take("description", str, None),
        target_url=call.take("target_url", str, None),
    )
    return Answer(payloads.status(call.github.source, call.repository, status), 201)
