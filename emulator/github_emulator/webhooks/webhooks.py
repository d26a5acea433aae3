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
from typing import Any
from urllib.parse import urlencode

import aiohttp

from github_emulator import payloads
from github_emulator.core.errors import NotFound
from github_emulator.core.event_permissions import EVENT_PERMISSIONS
from github_emulator.events.context import Context
from github_emulator.events.events import (
    InstallationEvent,
    OrganisationEvent,
    OrganisationRulesetChanged,
    RepositoryEvent,
)
from github_emulator.payloads.source import Source
from github_emulator.state import App, Delivery, Installation, Repository, User
from github_emulator.webhooks.compose import compose
from github_emulator.webhooks.faults import WebhookFaults
from github_emulator.webhooks.installation_messages import compose_installation
from github_emulator.webhooks.message import Message
from github_emulator.webhooks.organisation_messages import compose_organisation

Observer = Callable[[str, dict[str, Any]], None]

TIMEOUT_SECONDS = 10
_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"


class Webhooks:
    """Sends events to the apps they concern. `observers` see every event, subscribed to or not."""

    def __init__(self, context: Context, source: Source) -> None:
        self._context = context
        self._source = source
        self._random: random.Random = context.randomness.of("webhooks")
        self._session: aiohttp.ClientSession | None = None
        self.faults = WebhookFaults(context.randomness.of("webhook faults"))
        self.observers: list[Observer] = []
        context.events.subscribe(RepositoryEvent, self._on_repository_event)
        context.events.subscribe(OrganisationRulesetChanged, self._on_organisation_ruleset)
        context.events.subscribe(OrganisationEvent, self._on_organisation_event)
        context.events.subscribe(InstallationEvent, self._on_installation_event)

    def send_to(self, installation: Installation, event: str, action: str, payload: dict[str, Any]) -> None:
        """Send an event about an installation to its own app, subscribed or not."""
        self._observe(event, payload)
        self._deliver(installation, event, action, payload, None)

    def redeliver(self, delivery_id: int) -> Delivery:
        """Send a delivery again: a new id, the same GUID and payload. Raises NotFound for an unknown id."""
        old = next((delivery for delivery in self._context.state.deliveries if delivery.id == delivery_id), None)
        if old is None:
            raise NotFound()
        new = Delivery(
            id=self._context.state.next_id("delivery"),
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

    def _on_repository_event(self, event: RepositoryEvent) -> None:
        if self._context.events.is_muted:
            return
        for message in compose(self._source, event):
            self._send(message, event.scope, event.sender)

    def _send(self, message: Message, repository: Repository, sender: User) -> None:
        """Send a message to each app installed on the repository, subscribed and permitted."""
        recipients = [
            installation
            for installation in self._context.state.installations_of(repository)
            if message.only in {None, installation.app} and _concerns(installation, message.name)
        ]
        if not recipients and not self.observers:
            return
        payload: dict[str, Any] = {} if message.action is None else {"action": message.action}
        with self._source.accounts.showing_members(False):
            shown = message.content()
        payload |= shown | {
            "repository": payloads.webhook_repository(self._source, repository),
            "sender": payloads.user(self._source, sender),
        }
        if repository.owner.kind == "Organization":
            payload["organization"] = payloads.organization(self._source, repository.owner)
        self._observe(message.name, payload)
        for installation in recipients:
            self._deliver(installation, message.name, message.action, payload | _stub(installation), repository)

    def _on_organisation_ruleset(self, event: OrganisationRulesetChanged) -> None:
        """Send an event of an organisation, which has no repository, to each app installed there."""
        account = event.ruleset.organisation
        if self._context.events.is_muted or account is None:
            return
        name, source = "repository_ruleset", self._source
        payload: dict[str, Any] = {
            "action": event.action,
            "repository_ruleset": payloads.ruleset(source, None, event.ruleset),
            "sender": payloads.user(source, event.actor.user),
            "organization": payloads.organization(source, account),
        }
        self._observe(name, payload)
        for installation in self._context.state.installations.values():
            if installation.account is account and installation.suspended_at is None and _concerns(installation, name):
                self._deliver(installation, name, event.action, payload | _stub(installation), None)

    def _on_organisation_event(self, event: OrganisationEvent) -> None:
        if self._context.events.is_muted:
            return
        name, payload = compose_organisation(self._source, event)
        self._observe(name, payload)
        for installation in self._context.state.installations.values():
            here = installation.account is event.team.organisation and installation.suspended_at is None
            if here and _concerns(installation, name):
                self._deliver(installation, name, event.action, payload | _stub(installation), None)

    def _on_installation_event(self, event: InstallationEvent) -> None:
        if self._context.events.is_muted:
            return
        self.send_to(event.installation, *compose_installation(self._source, event))

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
            id=self._context.state.next_id("delivery"),
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
        self._context.schedule.after(self._context.timings.webhook + delay, partial(self._post, delivery), name=name)

    def _record(self, delivery: Delivery) -> None:
        delivery.delivered_at = self._context.clock.now()
        self._context.state.deliveries.append(delivery)

    async def _post(self, delivery: Delivery) -> None:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(
                timeout=timeout, connector=connector, cookie_jar=aiohttp.DummyCookieJar()
            )
        started = delivery.delivered_at = self._context.clock.now()
        try:
            async with self._session.post(
                delivery.url, data=_body(delivery), headers=delivery.request_headers, allow_redirects=False
            ) as answer:
                delivery.response_body = await answer.text(errors="replace")
                delivery.response_headers = dict(answer.headers)
                delivery.status_code = answer.status
                delivery.status = "OK" if answer.ok else (answer.reason or "Invalid HTTP Response")
        except TimeoutError:
            delivery.status, delivery.status_code = "timed out", 0
        except aiohttp.ClientError:
            delivery.status, delivery.status_code = "failed to connect to host", 0
        delivery.duration = (self._context.clock.now() - started).total_seconds()


def _concerns(installation: Installation, event: str) -> bool:
    needed = EVENT_PERMISSIONS[event]
    return event in installation.app.events and any(
        permission == "metadata" or installation.permissions.get(permission, "none") != "none" for permission in needed
    )


def _stub(installation: Installation) -> dict[str, Any]:
    node_id = payloads.node_id("IntegrationInstallation", installation.id)
    return {"installation": {"id": installation.id, "node_id": node_id}}


def _body(delivery: Delivery) -> bytes:
    return _encoded(delivery.payload, delivery.request_headers["Content-Type"])


def _encoded(text: str, content_type: str) -> bytes:
    return text.encode() if content_type == _JSON else urlencode({"payload": text}).encode()


def _headers(app: App, event: str, guid: str, text: str) -> dict[str, str]:
    content_type = _JSON if app.hook_format == "json" else _FORM
    digest = hmac.new(app.webhook_secret.encode(), _encoded(text, content_type), hashlib.sha256).hexdigest()
    return {
        "Accept": "*/*",
        "Content-Type": content_type,
        "User-Agent": "GitHub-Hookshot/5ca11ab",
        "X-GitHub-Delivery": guid,
        "X-GitHub-Event": event,
        "X-GitHub-Hook-ID": str(app.hook_id),
        "X-GitHub-Hook-Installation-Target-ID": str(app.id),
        "X-GitHub-Hook-Installation-Target-Type": "integration",
        "X-Hub-Signature-256": f"sha256={digest}",
    }
