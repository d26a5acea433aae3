"""The payloads of events about an installation, which GitHub sends to its app alone, subscribed or not."""

from typing import Any

from github_emulator import payloads
from github_emulator.events.events import (
    AccountRenamed,
    InstallationChanged,
    InstallationEvent,
    RepositorySelectionChanged,
)
from github_emulator.payloads.source import Source


def compose_installation(source: Source, event: InstallationEvent) -> tuple[str, str, dict[str, Any]]:
    """GitHub's name of the event, its action, and its payload."""
    if isinstance(event, InstallationChanged):
        name, action, content = "installation", event.action, _installation(source, event)
    elif isinstance(event, RepositorySelectionChanged):
        name, action = "installation_repositories", "added" if event.added else "removed"
        content = _selection(source, event)
    elif isinstance(event, AccountRenamed):
        name, action, content = "installation_target", "renamed", _account(source, event)
    else:
        raise TypeError(f"no webhook tells of {event}")
    sender = payloads.user(source, event.installation.account)
    return name, action, content | {"action": action, "sender": sender}


def _installation(source: Source, event: InstallationChanged) -> dict[str, Any]:
    return {
        "installation": payloads.installation(source, event.installation),
        "repositories": [payloads.repository_stub(source, repository) for repository in event.repositories],
        "requester": None,
    }


def _selection(source: Source, event: RepositorySelectionChanged) -> dict[str, Any]:
    installation = event.installation
    return {
        "installation": payloads.installation(source, installation),
        "repository_selection": "all" if installation.repositories is None else "selected",
        "repositories_added": [payloads.repository_stub(source, repository) for repository in event.added],
        "repositories_removed": [payloads.repository_stub(source, repository) for repository in event.removed],
        "requester": None,
    }


def _account(source: Source, event: AccountRenamed) -> dict[str, Any]:
    installation = event.installation
    return {
        "account": payloads.user(source, installation.account),
        "changes": {"login": {"from": event.before}},
        "installation": {"id": installation.id, "node_id": payloads.node_id("Installation", installation.id)},
        "target_type": installation.account.kind,
    }
