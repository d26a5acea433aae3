"""Webhooks: who gets one, signed, over real HTTP, recorded, never retried by themselves.

Source: GitHub's pages on webhook deliveries. GitHub gives a receiver ten seconds; a redelivery keeps its GUID.
"""

import hashlib
import hmac
import json
import random
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp

from sandbox import payloads
from sandbox.errors import NotFound
from sandbox.state import App, Delivery, Installation, Repository, User
from sandbox.webhook_faults import WebhookFaults

if TYPE_CHECKING:
    from sandbox.github import GitHub

Observer = Callable[[str, dict[str, Any]], None]

TIMEOUT_SECONDS = 10

_NEEDED = {
    "branch_protection_configuration": ("administration",),
    "branch_protection_rule": ("administration",),
    "check_run": ("checks",),
    "check_suite": ("checks",),
    "create": ("contents",),
    "delete": ("contents",),
    "issue_comment": ("issues", "pull_requests"),
    "label": ("issues", "pull_requests", "metadata"),
    "pull_request": ("pull_requests",),
    "pull_request_review": ("pull_requests",),
    "pull_request_review_comment": ("pull_requests",),
    "pull_request_review_thread": ("pull_requests",),
    "push": ("contents",),
    "repository": ("metadata",),
    "repository_ruleset": ("administration",),
    "status": ("statuses",),
    "workflow_run": ("actions",),
}
"""Event -> permissions of which an installation needs one, at least to read."""


class Webhooks:
    """Sends events to the apps they concern. `observers` see every event, subscribed to or not."""

    def __init__(self, github: "GitHub") -> None:
        self._github = github
        self._random: random.Random = github.random("webhooks")
        self._session: aiohttp.ClientSession | None = None
        self.faults = WebhookFaults(github.random("webhook faults"))
        self.observers: list[Observer] = []

    def send(
        self,
        event: str,
        action: str | None,
        repository: Repository,
        sender: User,
        content: Callable[[], dict[str, Any]],
        *,
        only: App | None = None,
    ) -> None:
        """Send an event of a repository to each app installed there, subscribed and permitted (or `only` that one)."""
        recipients = [
            installation
            for installation in self._github.state.installations_of(repository)
            if only in {None, installation.app} and _concerns(installation, event)
        ]
        if not recipients and not self.observers:
            return
        payload: dict[str, Any] = {} if action is None else {"action": action}
        with self._github.accounts.showing_members(False):
            shown = content()
        payload |= shown | {
            "repository": payloads.webhook_repository(self._github, repository),
            "sender": payloads.user(self._github, sender),
        }
        if repository.owner.kind == "Organization":
            payload["organization"] = payloads.organization(self._github, repository.owner)
        self._observe(event, payload)
        for installation in recipients:
            stub = {"id": installation.id, "node_id": payloads.node_id("IntegrationInstallation", installation.id)}
            self._deliver(installation, event, action, payload | {"installation": stub}, repository)

    def send_of_account(self, event: str, action: str, account: User, sender: User, content: dict[str, Any]) -> None:
        """Send an event of an organisation, which has no repository, to each app installed there."""
        payload: dict[str, Any] = {"action": action, **content, "sender": payloads.user(self._github, sender)}
        payload["organization"] = payloads.organization(self._github, account)
        self._observe(event, payload)
        for installation in self._github.state.installations.values():
            if installation.account is account and installation.suspended_at is None and _concerns(installation, event):
                stub = {"id": installation.id, "node_id": payloads.node_id("IntegrationInstallation", installation.id)}
                self._deliver(installation, event, action, payload | {"installation": stub}, None)

    def send_to(self, installation: Installation, event: str, action: str, payload: dict[str, Any]) -> None:
        """Send an event about an installation to its own app, subscribed or not."""
        self._observe(event, payload)
        self._deliver(installation, event, action, payload, None)

    def redeliver(self, delivery_id: int) -> Delivery:
        """Send a delivery once more: a new id, the same GUID and payload. Raises NotFound for an unknown id."""
        old = next((delivery for delivery in self._github.state.deliveries if delivery.id == delivery_id), None)
        if old is None:
            raise NotFound()
        new = Delivery(
            id=self._github.state.next_id("delivery"),
            guid=old.guid,
            app=old.app,
            event=old.event,
            action=old.action,
            installation_id=old.installation_id,
            repository_id=old.repository_id,
            url=old.app.webhook_url or old.url,
            payload=old.payload,
            request_headers=dict(old.request_headers),
            redelivery=True,
        )
        self._record(new)
        self._plan(new, timedelta(0))
        return new

    async def close(self) -> None:
        """Close the connections. A later delivery would open new ones."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _observe(self, event: str, payload: dict[str, Any]) -> None:
        for observer in self.observers:
            observer(event, payload)

    def _deliver(
        self,
        installation: Installation,
        event: str,
        action: str | None,
        payload: dict[str, Any],
        repository: Repository | None,
    ) -> None:
        app = installation.app
        if app.webhook_url is None:
            return
        guid = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        text = json.dumps(payload, separators=(",", ":"))
        delivery = Delivery(
            id=self._github.state.next_id("delivery"),
            guid=guid,
            app=app,
            event=event,
            action=action,
            installation_id=installation.id,
            repository_id=repository.id if repository else None,
            url=app.webhook_url,
            payload=text,
            request_headers=_headers(app, event, guid, text),
        )
        self._record(delivery)
        fate = self.faults.fate(event, action)
        if fate.drop:
            delivery.status = "failed to connect to host"
            return
        for _ in range(fate.copies):
            self._plan(delivery, fate.delay)

    def _plan(self, delivery: Delivery, delay: timedelta) -> None:
        name = f"webhook {delivery.event} {delivery.action or ''}".strip()
        self._github.schedule.after(self._github.timings.webhook + delay, partial(self._post, delivery), name=name)

    def _record(self, delivery: Delivery) -> None:
        delivery.delivered_at = self._github.clock.now()
        self._github.state.deliveries.append(delivery)

    async def _post(self, delivery: Delivery) -> None:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(
                timeout=timeout, connector=connector, cookie_jar=aiohttp.DummyCookieJar()
            )
        started = delivery.delivered_at = self._github.clock.now()
        try:
            async with self._session.post(
                delivery.url, data=delivery.payload.encode(), headers=delivery.request_headers, allow_redirects=False
            ) as answer:
                delivery.response_body = await answer.text(errors="replace")
                delivery.response_headers = dict(answer.headers)
                delivery.status_code = answer.status
                delivery.status = "OK" if answer.ok else (answer.reason or "Invalid HTTP Response")
        except TimeoutError:
            delivery.status, delivery.status_code = "timed out", 0
        except aiohttp.ClientError:
            delivery.status, delivery.status_code = "failed to connect to host", 0
        delivery.duration = (self._github.clock.now() - started).total_seconds()


def _concerns(installation: Installation, event: str) -> bool:
    needed = _NEEDED[event]
    return event in installation.app.events and any(
        permission == "metadata" or installation.permissions.get(permission, "none") != "none" for permission in needed
    )


def _headers(app: App, event: str, guid: str, text: str) -> dict[str, str]:
    digest = hmac.new(app.webhook_secret.encode(), text.encode(), hashlib.sha256).hexdigest()
    return {
        "Accept": "*/*",
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/5ca11ab",
        "X-GitHub-Delivery": guid,
        "X-GitHub-Event": event,
        "X-GitHub-Hook-ID": str(app.hook_id),
        "X-GitHub-Hook-Installation-Target-ID": str(app.id),
        "X-GitHub-Hook-Installation-Target-Type": "integration",
        "X-Hub-Signature-256": f"sha256={digest}",
    }
