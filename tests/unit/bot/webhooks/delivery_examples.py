"""Deliveries with only what a test cares about named."""

from typing import Any

from bot.webhooks.normalize import may_matter, normalize
from queue_engine.domain.webhook_event import WebhookEvent, WebhookKind

OWN_APP = 77


def _payload(**parts: Any) -> dict[str, Any]:
    return {
        "installation": {"id": 9, "node_id": "x"},
        "repository": {"id": 5, "name": "engine", "full_name": "ada/engine", "owner": {"login": "ada"}},
        "sender": {"login": "grace", "type": "User"},
        **parts,
    }


def _normalized(event: str, payload: Any) -> WebhookEvent | None:
    """The event without its facts, which `test_known_facts.py` covers."""
    webhook_event = normalize(event, "d-1", payload, own_app_id=OWN_APP)
    assert webhook_event is None or may_matter(event, payload.get("action")), "a lost one would never be asked for"
    return webhook_event and webhook_event.model_copy(update={"facts": ()})


def _webhook_event(kind: WebhookKind, **parts: Any) -> WebhookEvent:
    common: dict[str, Any] = {
        "delivery": "d-1",
        "installation_id": 9,
        "repository_id": 5,
        "owner": "ada",
        "name": "engine",
        "sender": "grace",
    }
    if kind in {WebhookKind.LABELED, WebhookKind.CONSENT, WebhookKind.REVIEW, WebhookKind.CONVERSATION}:
        common["branch"] = "main"
    return WebhookEvent(kind=kind, **(common | parts))
