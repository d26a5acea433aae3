"""Deliveries with only what a test cares about named."""

from datetime import UTC, datetime
from typing import Any

from bot.webhooks.normalize import may_matter, normalize
from tests.support.webhooks import a_webhook

OWN_APP = 77
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def _payload(**parts: Any) -> dict[str, Any]:
    return {
        "installation": {"id": 9, "node_id": "x"},
        "repository": {"id": 5, "name": "engine", "full_name": "ada/engine", "owner": {"login": "ada"}},
        "sender": {"login": "grace", "type": "User"},
        **parts,
    }


def _normalized(event: str, payload: Any) -> Any:
    """The event without its facts, which `test_known_facts.py` covers."""
    webhook_event = normalize(event, "d-1", payload, own_app_id=OWN_APP)
    assert webhook_event is None or may_matter(event, payload.get("action")), "a lost one would never be asked for"
    return webhook_event and webhook_event.model_copy(update={"facts": ()})


def _webhook_event(kind: str, **parts: Any) -> Any:
    common = {"delivery": "d-1", "installation_id": 9, "repository_id": 5, "owner": "ada", "name": "engine"}
    return a_webhook(kind, **{**common, "sender": "grace", "updated_at": AT, **parts})
