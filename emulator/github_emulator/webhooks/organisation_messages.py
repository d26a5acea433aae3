"""The payloads of events about the teams of an organisation."""

from typing import Any

from github_emulator import payloads
from github_emulator.events.events import MembershipChanged, OrganisationEvent, TeamChanged
from github_emulator.payloads.source import Source


def compose_organisation(source: Source, event: OrganisationEvent) -> tuple[str, dict[str, Any]]:
    """GitHub's name of the event, and its payload."""
    content: dict[str, Any] = {
        "action": event.action,
        "team": payloads.team(source, event.team),
        "organization": payloads.organization(source, event.team.organisation),
        "sender": payloads.user(source, event.actor.user),
    }
    if isinstance(event, MembershipChanged):
        return "membership", content | {"scope": "team", "member": payloads.user(source, event.member)}
    if isinstance(event, TeamChanged):
        return "team", content
    raise TypeError(f"no webhook tells of {event}")
