"""Endpoints of the labels that a repository has."""

import re

from github_emulator import payloads
from github_emulator.callers.errors import invalid
from github_emulator.core.errors import NotFound
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes

routes = Routes("issues/labels")
_COLOR = re.compile(r"[0-9a-fA-F]{6}")
_LONGEST_DESCRIPTION = 100
"""Characters ("Create a label")."""


@routes.repository("GET", "/labels/{name}", "issues=read", "pull_requests=read", docs="#get-a-label")
def get(call: Call) -> Answer:
    """One label, by its name in any case."""
    found = call.repository.labels.get(call.params["name"].lower())
    if found is None:
        raise NotFound()
    return Answer(payloads.label(call.github.source, call.repository, found))


@routes.repository("POST", "/labels", "issues=write", "pull_requests=write", role="write", docs="#create-a-label")
def create(call: Call) -> Answer:
    """Creates a label; one of this name is an error, whatever the case."""
    name, color = call.take("name", str), call.take("color", str, "ededed")
    description = call.take("description", str, None)
    if name.lower() in call.repository.labels:
        raise invalid("Label", "name", "already_exists")
    if not _COLOR.fullmatch(color):
        raise invalid("Label", "color")
    if len(description or "") > _LONGEST_DESCRIPTION:
        raise invalid("Label", "description")
    label = call.github.conversation.create_label(
        call.repository, name, actor=call.actor, color=color, description=description
    )
    return Answer(payloads.label(call.github.source, call.repository, label), 201)
