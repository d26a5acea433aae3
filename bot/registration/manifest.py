"""Read the App's manifest, `app.yml`, and fill it in for one registration."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from queue_engine.config.document import parse

PATH = Path(__file__).with_name("app.yml")
"""A link to the file in the root of the repository, so that an installed package has it too."""

_EVENTS_OF: Mapping[str, Collection[str]] = {
    "actions": ("workflow_run",),
    "administration": ("branch_protection_configuration", "branch_protection_rule", "repository_ruleset"),
    "members": ("membership", "team"),
}
"""The events for which GitHub demands an optional permission: it refuses a manifest with such an event alone
(cyrus #1406, superplane #5235)."""


class InvalidManifest(Exception):
    """The manifest has not the form of an App's manifest."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of an App. `content` is all of it, as GitHub's manifest flow takes it."""

    permissions: dict[str, str]
    events: tuple[str, ...]
    content: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where GitHub sends people and webhooks. URLs without a trailing slash."""

    home: str
    """The page of the App."""
    webhook: str
    redirect: str
    """Where GitHub sends the code of the registration."""
    setup: str | None
    """Where GitHub sends a person who installed the App."""
    callback: str | None
    """Where GitHub sends a person who signed in."""


def read_manifest(path: Path = PATH) -> Manifest:
    """Read a manifest. Raises InvalidManifest, ConfigError for invalid YAML, and OSError without a file."""
    document = parse(path.read_text(encoding="utf-8"))
    content = document.value
    if document.problems or not isinstance(content, dict):
        raise InvalidManifest("a manifest is a mapping, in which each key stands once")
    permissions, events = content.get("default_permissions"), content.get("default_events")
    if not isinstance(permissions, dict) or not isinstance(events, list):
        raise InvalidManifest("default_permissions is a mapping, and default_events a list")
    return Manifest({name: str(level) for name, level in permissions.items()}, tuple(map(str, events)), content)


def fill_in(manifest: Manifest, addresses: Addresses, *, name: str, permissions: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest of one registration, as JSON takes it.

    Events whose permission was left out are left out as well, and those of an added permission are added.
    """
    dropped = {event for needed, events in _EVENTS_OF.items() if needed not in permissions for event in events}
    events = [*manifest.events, *(event for name in permissions for event in _EVENTS_OF.get(name, ()))]
    filled: dict[str, Any] = {
        "name": name,
        "url": addresses.home,
        "hook_attributes": {"url": addresses.webhook, "active": True},
        "redirect_url": addresses.redirect,
        "public": bool(manifest.content["public"]),
        "default_permissions": dict(permissions),
        "default_events": [event for event in dict.fromkeys(events) if event not in dropped],
    }
    if addresses.callback is not None:
        filled["callback_urls"] = [addresses.callback]
    if addresses.setup is not None:
        filled["setup_url"] = addresses.setup
    return filled
