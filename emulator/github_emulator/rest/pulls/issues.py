"""Endpoints of issues. The emulator's issues are its pull requests, seen from their conversation side."""

from datetime import UTC, datetime
from functools import partial

from github_emulator import payloads
from github_emulator.callers.errors import invalid_request
from github_emulator.rest import fields
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call
from github_emulator.rest.pulls.labels import label_names
from github_emulator.rest.pulls.pulls import apply_edits, sort_value
from github_emulator.rest.routing import Routes
from github_emulator.state import PullRequest

routes = Routes("issues/issues")
# Issues themselves are read by that permission alone; what hangs on them by either (GitHub's permission table).
_ISSUES = "issues=read"
_READ = ("issues=read", "pull_requests=read")
_WRITE = ("issues=write", "pull_requests=write")


@routes.repository("GET", "/issues", _ISSUES, docs="#list-repository-issues")
def list_issues(call: Call) -> Answer:
    """Those that have all the labels asked for, newest first unless asked otherwise."""
    query = call.query
    state = query.get("state", "open")
    labels = [name.strip().lower() for name in query.get("labels", "").split(",") if name.strip()]
    start = since(query.get("since"))
    found = [
        pull
        for pull in call.repository.pulls.values()
        if state in ("all", pull.state)
        and {label.name.lower() for label in pull.labels}.issuperset(labels)
        and (start is None or pull.updated_at >= start)
        and _concerns(pull, query.get("assignee"), query.get("creator"))
    ]
    found.sort(
        key=lambda pull: (sort_value(pull, query.get("sort", "created")), pull.number),
        reverse=query.get("direction") != "asc",
    )
    return call.page(found, partial(payloads.issue, call.github.source))


@routes.repository("GET", "/issues/{number}", _ISSUES, docs="#get-an-issue")
def get_issue(call: Call) -> Answer:
    """One issue or pull request."""
    return Answer(payloads.issue(call.github.source, call.pull))


@routes.repository("PATCH", "/issues/{number}", *_WRITE, docs="#update-an-issue")
def update_issue(call: Call) -> Answer:
    """Title, body, state, labels and assignees."""
    pull = call.pull
    apply_edits(call, pull)
    if "labels" in call.data:
        call.github.conversation.set_labels(pull, label_names(call), actor=call.actor)
    if "assignees" in call.data:
        wanted = call.take("assignees", list)
        gone = [user.login for user in pull.assignees if user.login not in wanted]
        call.github.conversation.unassign(pull, gone, actor=call.actor)
        call.github.conversation.assign(pull, wanted, actor=call.actor)
    return Answer(payloads.issue(call.github.source, pull))


@routes.repository("GET", "/issues/{number}/events", *_READ, docs="issues/events#list-issue-events")
def list_events(call: Call) -> Answer:
    """What happened to it, oldest first."""
    # Reviews are told by the timeline only.
    events = [event for event in call.pull.events if event.event != "reviewed"]
    return call.page(events, lambda event: payloads.issue_event(call.github.source, call.pull, event))


@routes.repository("GET", "/issues/{number}/timeline", *_READ, docs="issues/timeline#list-timeline-events-for-an-issue")
def list_timeline(call: Call) -> Answer:
    """Events, comments, reviews and commits, oldest first."""
    return call.page(fields.timeline(call.github, call.pull), lambda item: item)


@routes.repository(
    "POST", "/issues/{number}/assignees", *_WRITE, role="triage", docs="issues/assignees#add-assignees-to-an-issue"
)
def add_assignees(call: Call) -> Answer:
    """Assigns people; those who cannot be assigned are passed over."""
    call.github.conversation.assign(call.pull, call.take("assignees", list, []), actor=call.actor)
    return Answer(payloads.issue(call.github.source, call.pull), 201)


@routes.repository(
    "DELETE",
    "/issues/{number}/assignees",
    *_WRITE,
    role="triage",
    docs="issues/assignees#remove-assignees-from-an-issue",
)
def remove_assignees(call: Call) -> Answer:
    """Unassigns people."""
    call.github.conversation.unassign(call.pull, call.take("assignees", list, []), actor=call.actor)
    return Answer(payloads.issue(call.github.source, call.pull))


def since(text: str | None) -> datetime | None:
    """The instant that a `since` parameter names, UTC unless it says otherwise. Raises 422 for nonsense."""
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise invalid_request(f"For 'since', {text} is not a valid date-time.") from error
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


def _concerns(pull: PullRequest, assignee: str | None, creator: str | None) -> bool:
    assigned = {user.login for user in pull.assignees}
    if assignee == "none":
        fits = not assigned
    elif assignee == "*":
        fits = bool(assigned)
    else:
        fits = assignee is None or assignee in assigned
    return fits and (creator is None or creator == pull.author.login)
