"""Endpoints of the labels on an issue or pull request."""

from typing import Any

from github_emulator import payloads
from github_emulator.callers.errors import invalid_request
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes

routes = Routes("issues/labels")
_READ = ("issues=read", "pull_requests=read")
_WRITE = ("issues=write", "pull_requests=write")


@routes.repository("GET", "/issues/{number}/labels", *_READ, docs="#list-labels-for-an-issue")
def list_labels(call: Call) -> Answer:
    """The labels it has."""
    return call.page(call.pull.labels, lambda label: payloads.label(call.github.source, call.repository, label))


@routes.repository("POST", "/issues/{number}/labels", *_WRITE, role="triage", docs="#add-labels-to-an-issue")
def add_labels(call: Call) -> Answer:
    """Adds labels, creating those that the repository does not have; one that is there already is no event."""
    pull = call.pull
    call.github.conversation.label(pull, label_names(call), actor=call.actor)
    return Answer([payloads.label(call.github.source, call.repository, label) for label in pull.labels])


@routes.repository("PUT", "/issues/{number}/labels", *_WRITE, role="triage", docs="#set-labels-for-an-issue")
def set_labels(call: Call) -> Answer:
    """Makes these its labels, and no others."""
    pull = call.pull
    call.github.conversation.set_labels(pull, label_names(call), actor=call.actor)
    return Answer([payloads.label(call.github.source, call.repository, label) for label in pull.labels])


@routes.repository(
    "DELETE", "/issues/{number}/labels/{name}", *_WRITE, role="triage", docs="#remove-a-label-from-an-issue"
)
def remove_label(call: Call) -> Answer:
    """Takes a label off and answers those that stay."""
    pull = call.pull
    call.github.conversation.unlabel(pull, call.params["name"], actor=call.actor)
    return Answer([payloads.label(call.github.source, call.repository, label) for label in pull.labels])


def label_names(call: Call) -> list[str]:
    """The names in `labels`, given as text or as objects."""
    names: list[Any] = [entry.get("name") if isinstance(entry, dict) else entry for entry in call.take("labels", list)]
    for name in names:
        if not isinstance(name, str) or not name:
            raise invalid_request(f"For 'labels/items', {name} is not a string.")
    return names
