"""Apps that people register from a manifest, and the codes that give their credentials away.

Source: GitHub's page "Registering a GitHub App from a manifest". Its words of refusal are those of cyrus #1406,
superplane #5235 and tuist #10709 (events), curia #933 (`url` is wanted twice) and probot's tests (names).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from github_emulator.core.errors import Invalid, NotFound
from github_emulator.core.event_permissions import EVENT_PERMISSIONS
from github_emulator.domain.accounts.accounts import Accounts
from github_emulator.events.context import Context
from github_emulator.state import App, AppCode, User

_CODE_LIFE = timedelta(hours=1)
_LONGEST_NAME = 34
_SUPPORTING = EVENT_PERMISSIONS | {"issue_comment": ("issues",)}
"""A manifest with `issue_comment` needs `issues`, though `pull_requests` lets the event through (derive #269)."""


class AppManifests:
    """Registers apps from manifests."""

    def __init__(self, context: Context, *, accounts: Accounts) -> None:
        self._context = context
        self._accounts = accounts
        self._random = context.randomness.of("app manifests")

    def problems(self, manifest: Mapping[str, Any]) -> list[str]:
        """What GitHub's page says of a manifest that it refuses, before it asks for a name."""
        hook, events = manifest.get("hook_attributes"), list(manifest.get("default_events", ()))
        permissions = {"metadata": "read"} | dict(manifest.get("default_permissions", {}))
        found = ['"url" wasn\'t supplied.'] * (not manifest.get("url"))
        found += ['"url" wasn\'t supplied.'] * (hook is not None and not hook.get("url"))
        found += ["Redirect url must be a valid URL"] * (not _is_url(manifest.get("redirect_url")))
        unknown = [event for event in events if event not in EVENT_PERMISSIONS]
        found += [f"Default events unsupported: {_listed(unknown)}"] * bool(unknown)
        barred = [event for event in events if not permissions.keys() & set(_SUPPORTING.get(event, ()))]
        found += [f"Default events are not supported by permissions: {_listed(barred)}"] * bool(barred)
        return found

    def register(self, manifest: Mapping[str, Any], name: str, owner: User) -> str:
        """Register an app and return its code. Raises Invalid, whose message a person reads on the page."""
        if problems := self.problems(manifest):
            raise Invalid("; ".join(problems))
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        if not slug:
            raise Invalid("Name can't be blank")
        if len(name) > _LONGEST_NAME:
            raise Invalid(f"Name is too long (maximum is {_LONGEST_NAME} characters)")
        if f"{slug}[bot]" in self._context.state.users or slug in self._context.state.users:
            raise Invalid("Name is already taken")
        hook = manifest.get("hook_attributes") or {}
        app = self._accounts.create_app(
            slug,
            manifest.get("default_permissions", {}),
            manifest.get("default_events", ()),
            hook.get("url") if hook.get("active", True) else None,
            self._digits(),
        )
        app.owner, app.name, app.setup_url = owner, name, manifest.get("setup_url")
        app.client_secret = self._digits()
        app.callback_urls = tuple(manifest.get("callback_urls", ()))
        app.public = bool(manifest.get("public", True))
        code = self._digits()
        self._context.state.app_codes[code] = AppCode(code, app, self._context.clock.now())
        return code

    def convert(self, code: str) -> App:
        """The app whose credentials the code gives, once. Raises NotFound after that, or after an hour."""
        found = self._context.state.app_codes.pop(code, None)
        if found is None or self._context.clock.now() - found.created_at >= _CODE_LIFE:
            raise NotFound()
        return found.app

    def _digits(self) -> str:
        return f"{self._random.getrandbits(160):040x}"


def _is_url(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))


def _listed(names: Sequence[str]) -> str:
    """The names as Rails lists them: "a, b, and c"."""
    if len(names) < 3:
        return " and ".join(names)
    return f"{', '.join(names[:-1])}, and {names[-1]}"
