"""Webhook events with only what a test cares about named."""

from typing import Any

from queue_engine.core.read_model import adapter
from queue_engine.domain.webhooks import WebhookEvent
from tests.store.examples import NOW, REPOSITORY


def a_webhook(kind: str, **fields: Any) -> Any:
    """An event of this kind and action, about pull request 1."""
    common = {
        "delivery": "guid",
        "installation_id": REPOSITORY.installation_id,
        "repository_id": REPOSITORY.id,
        "owner": REPOSITORY.owner,
        "name": REPOSITORY.name,
        "number": 1,
        "branch": "main",
        "head_sha": "head-1",
        "before": "head-0",
        "updated_at": NOW,
    }
    return adapter(WebhookEvent).validate_python({**common, "kind": kind, **fields})
