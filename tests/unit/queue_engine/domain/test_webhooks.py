"""Webhook events as jobs store them."""

import pytest

from queue_engine.core.read_model import adapter
from queue_engine.domain.webhooks import (
    HeadChange,
    LabelChange,
    RepositoryChange,
    ReviewCommand,
    ReviewWebhook,
    RuleChange,
    StateChange,
    Webhook,
    WebhookEvent,
)
from tests.support.webhooks import a_webhook


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("consent", {"action": "closed"}, StateChange),
        ("consent", {"action": "unlabeled"}, LabelChange),
        ("consent", {"action": "edited", "title": "New"}, StateChange),
        ("consent", {"action": "synchronize"}, HeadChange),
        ("review", {"action": "dismissed"}, ReviewWebhook),
        ("review", {"action": "submitted", "commands": ["why"], "review_id": 3, "sender": "ann"}, ReviewCommand),
        ("rules", {"repository_id": None, "owner": None, "name": None}, RuleChange),
        ("installed", {"action": "renamed"}, RepositoryChange),
    ],
)
def test_stored_event_is_read_as_the_class_of_its_kind_and_action(
    kind: str, fields: dict[str, object], expected: type[Webhook]
) -> None:
    """P2: what was stored for a delivery is what its job follows."""
    event = a_webhook(kind, **fields)
    assert type(event) is expected
    assert adapter(WebhookEvent).validate_python(event.model_dump(mode="json", exclude_none=True)) == event
