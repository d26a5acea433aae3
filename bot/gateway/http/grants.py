"""Permissions that each installation grants, and the token request within them."""

from collections.abc import Mapping
from typing import Any

import structlog
from cachetools import LRUCache

from bot.gateway.http.client import Call
from bot.gateway.http.scopes import Purpose, Scope, requested_permissions, without
from bot.gateway.http.tokens import Token
from queue_engine.domain.errors import GitHubError, Invalid
from queue_engine.domain.known_facts import SHARED_RULES

log = structlog.get_logger("bot.gateway.http.connection")

_MAX_INSTALLATIONS = 10_000

_NOT_GRANTED = "not granted to this installation"
_NOT_ACCESSIBLE = "not accessible to the parent installation"
"""GitHub's message for a token beyond the installation (PyGithub #3539, tibdex/github-app-token #105)."""


class Grants:
    """Remembers the permissions that each installation grants, as far as GitHub has listed them."""

    def __init__(self) -> None:
        self._granted: LRUCache[int, Mapping[str, str]] = LRUCache(_MAX_INSTALLATIONS)

    def of(self, installation_id: int) -> Mapping[str, str] | None:
        """Return the permissions of an installation; None if they are not known."""
        return self._granted.get(installation_id)

    def note(self, installation_id: int, permissions: Mapping[str, str]) -> bool:
        """Remember the permissions; return whether they changed."""
        known = self._granted.get(installation_id)
        if known == permissions:
            return False
        self._granted[installation_id] = dict(permissions)
        for permission, consequence in without(permissions).items():
            log.info("permission_missing", installation=installation_id, permission=permission, without=consequence)
        return known is not None

    def missing(self, installation_id: int) -> Mapping[str, str]:
        """Return the optional permissions that an installation is known to lack, each with its consequence."""
        granted = self._granted.get(installation_id)
        return {} if granted is None else without(granted)

    def forget(self, installation_id: int) -> None:
        """Forget the permissions of an installation."""
        self._granted.pop(installation_id, None)

    def fits(self, scope: Scope, token: Token) -> bool:
        """Whether a stored token has the permissions that the installation is known to grant."""
        granted = self._granted.get(scope.installation_id)
        return granted is None or token.permissions == requested_permissions(scope, granted)


def token_request(scope: Scope, granted: Mapping[str, str] | None) -> Call:
    """`POST /app/installations/{installation_id}/access_tokens`, for the scope and no more."""
    body: dict[str, Any] = {"permissions": requested_permissions(scope, granted)}
    if scope.repository_id is not None:
        body["repository_ids"] = [scope.repository_id]
    elif scope.purpose is Purpose.SHARED:
        body["repositories"] = [SHARED_RULES]
    template = "/app/installations/{installation_id}/access_tokens"
    return Call("POST", template, {"installation_id": str(scope.installation_id)}, body=body)


def exceeds_grant(refusal: Invalid) -> bool:
    """Whether GitHub refused a token because the installation does not grant its permissions."""
    return _NOT_GRANTED in refusal.message.lower()


def is_inaccessible(refusal: GitHubError) -> bool:
    """Whether GitHub refused a token because the installation does not have the repository."""
    return _NOT_ACCESSIBLE in refusal.message.lower()
