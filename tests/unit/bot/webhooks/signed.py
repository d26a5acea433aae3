"""Deliveries as GitHub signs them, and the inbox that stores them."""

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from queue_engine.domain.webhooks import WebhookEvent

SECRET = "it's a sécret"
PAYLOAD: dict[str, Any] = {
    "action": "closed",
    "installation": {"id": 9},
    "repository": {"id": 5, "full_name": "ada/engine"},
    "pull_request": {
        "number": 3,
        "head": {"sha": "h1"},
        "base": {"ref": "main"},
        "state": "closed",
        "updated_at": "2026-01-02T03:04:05Z",
    },
}


@dataclass
class Inbox:
    """Stores hints by delivery, or fails to."""

    hints: list[Any] = field(default_factory=list)
    broken: bool = False

    async def store(self, webhook_event: WebhookEvent) -> bool:
        if self.broken:
            raise OSError("disk full")
        known = webhook_event.delivery in {each.delivery for each in self.hints}
        self.hints += [] if known else [webhook_event]
        return not known


def _signed(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _headers(body: bytes, **changes: str | None) -> dict[str, str]:
    headers: dict[str, str | None] = {
        "X-GitHub-Event": "pull_request",
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "X-Hub-Signature-256": _signed(body),
        "Content-Type": "application/json",
    }
    headers |= {name.replace("_", "-"): value for name, value in changes.items()}
    return {name: value for name, value in headers.items() if value is not None}


async def _post(
    session: aiohttp.ClientSession, url: str, body: bytes, **changes: str | None
) -> tuple[int, dict[str, Any]]:
    async with session.post(url, data=body, headers=_headers(body, **changes)) as response:
        return response.status, await response.json()
