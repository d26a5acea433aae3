"""Webhooks: who gets one, signed, over real HTTP, recorded, never retried by themselves.

Source: GitHub's pages on webhook deliveries. GitHub gives a receiver ten seconds; a redelivery keeps its GUID.
Payloads are UTF-8 without escapes of other scripts (github/docs #3315, #3567).
"""

import hashlib
import hmac
import json
import random
import uuid
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

import aiohttp

from github_emulator import payloads
from github_emulator.core.errors import NotFound
from github_emulator.core.event_permissions import EVENT_PERMISSIONS
from github_emulator.events.context import Context
from github_emulator.events.events import WebhookEvent
from github_emulator.payloads.source import Source
from github_emulator.state import App, Delivery, Installation, Repository, User
from github_emulator.webhooks.faults import WebhookFaults
from github_emulator.webhooks.messages import Message, messages

Observer = Callable[[str, dict[str, Any]], None]
Scope = Repository | User | Installation

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
        context.events.subscribe(WebhookEvent, self._on_event)

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

    def _on_event(self, event: WebhookEvent) -> None:
        if self._context.events.is_muted:
            return
        for message in messages(self._source, event):
            self._send(message, event.scope, event.sender)

    def _send(self, message: Message, scope: Scope, sender: User) -> None:
        """Send a message to each app that it concerns, subscribed and permitted."""
        recipients = [
            installation
            for installation in self._installations(scope)
            if message.only in {None, installation.app} and _concerns(installation, message.name)
        ]
        if not recipients and not self.observers:
            return
        payload: dict[str, Any] = {} if message.action is None else {"action": message.action}
        with self._source.accounts.showing_members(False):
            shown = message.content()
        payload |= shown | {"sender": payloads.user(self._source, sender)}
        repository = scope if isinstance(scope, Repository) else None
        if repository is not None:
            payload["repository"] = payloads.webhook_repository(self._source, repository)
        account = scope.owner if isinstance(scope, Repository) and scope.owner.kind == "Organization" else scope
        if isinstance(account, User):
            payload["organization"] = payloads.organization(self._source, account)
        self._observe(message.name, payload)
        for installation in recipients:
            self._deliver(installation, message.name, message.action, _stub(installation) | payload, repository)

    def _installations(self, scope: Scope) -> Iterable[Installation]:
        """Those of which the apps may get a webhook about a repository, an organisation, or one of them itself."""
        match scope:
            case Installation():
                return (scope,)
            case Repository():
                return self._context.state.installations_of(scope)
            case User():
                every = self._context.state.installations.values()
                return (each for each in every if each.account is scope and each.suspended_at is None)

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
        text = json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
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
            request_headers=_headers(app, event, guid, text) | self._context.behaviour.version_headers,
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
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        started = delivery.delivered_at = self._context.clock.now()
        try:
            timeout = aiohttp.ClientTimeout(total=self._context.behaviour.webhook_seconds)
            async with self._session.post(
                delivery.url,
                timeout=timeout,
                data=_body(delivery),
                headers=delivery.request_headers,
                allow_redirects=False,
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
    """Whether its app gets the event: subscribed and permitted, or one of an installation, which needs neither."""
    needed = EVENT_PERMISSIONS.get(event)
    return needed is None or (
        event in installation.app.events
        and any(each == "metadata" or installation.permissions.get(each, "none") != "none" for each in needed)
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
