"""Read the App's manifest, `app.yml`, explain its permissions, and fill it in for one registration."""

import base64
import json
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from bot.gateway.http.scopes import OPTIONAL
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
    """Return the manifest of one registration, as JSON takes it, with the events of its permissions."""
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


REASONS: Mapping[str, str] = {
    "actions": "To rerun failed jobs of GitHub Actions once, and to cancel runs that are outdated.",
    "administration": "To read which rules a branch has, and to learn when they change. IMQ changes no setting.",
    "checks": "To read the required check runs, and to write the check run IMQ.",
    "contents": "To merge pull requests, and to compare a branch with its base.",
    "issues": "To find pull requests by their label, to receive commands, and to create the label. GitHub lists pull "
    "requests as issues.",
    "members": "To read who is in the teams that may queue. Only organisations have teams.",
    "metadata": "To read who may merge. Every GitHub App has this permission.",
    "pull_requests": "To update branches, to merge, to write the one comment, and to set and remove the label.",
    "statuses": "To read required checks that are reported as commit statuses.",
    "workflows": "To merge pull requests that change .github/workflows.",
}


@dataclass(frozen=True, slots=True)
class PermissionChoice:
    """A permission as the form shows it."""

    name: str
    level: str
    reason: str
    without: str | None
    """What does not work without it; None if IMQ needs it."""
    chosen: bool


def choices(manifest: Manifest, without: Collection[str] = ()) -> list[PermissionChoice]:
    """Return all permissions, those that IMQ needs first. `without` are optional ones that are not chosen at first."""
    levels = manifest.permissions | {name: each.level for name, each in OPTIONAL.items()}
    found = [
        PermissionChoice(
            name,
            level,
            REASONS[name],
            OPTIONAL[name].without if name in OPTIONAL else None,
            name in manifest.permissions and name not in without,
        )
        for name, level in levels.items()
    ]
    return sorted(found, key=lambda each: each.without is not None)


def chosen_permissions(manifest: Manifest, optional: Collection[str]) -> dict[str, str]:
    """Return the permissions to ask for: what IMQ needs of each, and the chosen ones of the others."""
    levels = {
        each.name: each.level if each.without is None or each.name in optional else OPTIONAL[each.name].least
        for each in choices(manifest)
    }
    return {name: level for name, level in levels.items() if level}


def unknown_optional(names: Collection[str]) -> str | None:
    """Return a sentence about the first name that is no optional permission; None if all are."""
    for name in names:
        if name not in OPTIONAL:
            return f"{name} is no permission that IMQ can do without; those are {', '.join(sorted(OPTIONAL))}."
    return None


@dataclass(frozen=True, slots=True)
class Credentials:
    """What IMQ needs to act as the App, and the address of the App's page."""

    app_id: int
    html_url: str
    private_key: SecretStr
    """A PEM."""
    webhook_secret: SecretStr
    client_id: str = ""
    client_secret: SecretStr | None = None
    """With these two people log in."""

    @property
    def install_url(self) -> str:
        """Return the page on which people install the App."""
        return f"{self.html_url}/installations/new"

    def settings(self) -> dict[str, str]:
        """Return the settings by name. The key is in base64, which no shell and no file changes."""
        pem = self.private_key.get_secret_value()
        of_login = {
            "IMQ_GITHUB_CLIENT_ID": self.client_id,
            "IMQ_GITHUB_CLIENT_SECRET": self.client_secret.get_secret_value() if self.client_secret else "",
        }
        return {
            "IMQ_GITHUB_APP_ID": str(self.app_id),
            "IMQ_GITHUB_PRIVATE_KEY": base64.b64encode(pem.encode()).decode(),
            "IMQ_GITHUB_WEBHOOK_SECRET": self.webhook_secret.get_secret_value(),
            **{name: value for name, value in of_login.items() if value},
        }

    def complete(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the operator's settings, completed by those that they did not set."""
        return {
            **environ,
            **{name: value for name, value in self.settings().items() if not environ.get(name, "").strip()},
        }


def serialize(credentials: Credentials) -> bytes:
    """Return the credentials as bytes, secrets included: encrypt them before they are stored."""
    content = {
        "app_id": credentials.app_id,
        "html_url": credentials.html_url,
        "private_key": credentials.private_key.get_secret_value(),
        "webhook_secret": credentials.webhook_secret.get_secret_value(),
        "client_id": credentials.client_id,
        "client_secret": credentials.client_secret.get_secret_value() if credentials.client_secret else None,
    }
    return json.dumps(content).encode()


def deserialize(content: bytes) -> Credentials:
    """Return the credentials that `serialize` wrote."""
    read = json.loads(content)
    secret = read["client_secret"]
    return Credentials(
        read["app_id"],
        read["html_url"],
        SecretStr(read["private_key"]),
        SecretStr(read["webhook_secret"]),
        client_id=read["client_id"],
        client_secret=None if secret is None else SecretStr(secret),
    )


def _heroku(settings: Mapping[str, str]) -> str:
    return f"heroku config:set {_assignments(settings)}"


def _fly(settings: Mapping[str, str]) -> str:
    return f"fly secrets set {_assignments(settings)}"


def _render(settings: Mapping[str, str]) -> str:
    """Return the lines for Render's form Environment, Add from .env."""
    return "\n".join(f"{name}={value}" for name, value in settings.items())


def _assignments(settings: Mapping[str, str]) -> str:
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())


PLATFORMS: Mapping[str, Callable[[Mapping[str, str]], str]] = {"heroku": _heroku, "fly": _fly, "render": _render}
"""How each platform takes settings."""
