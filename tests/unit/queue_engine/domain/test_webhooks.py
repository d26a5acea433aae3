"""Webhook events as jobs store them."""

import pytest

from queue_engine.domain.webhooks import (
    WEBHOOK_EVENTS,
    Changed,
    Edited,
    HeadPushed,
    InstallationChanged,
    Reviewed,
    ReviewedWithCommands,
    RulesChanged,
    Unlabeled,
    Webhook,
)
from tests.support.webhooks import a_webhook


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("consent", {"action": "closed"}, Changed),
        ("consent", {"action": "unlabeled"}, Unlabeled),
        ("consent", {"action": "edited", "title": "New"}, Edited),
        ("consent", {"action": "synchronize"}, HeadPushed),
        ("review", {"action": "dismissed"}, Reviewed),
        ("review", {"action": "submitted", "commands": ["why"], "review_id": 3, "sender": "ann"}, ReviewedWithCommands),
        ("rules", {"repository_id": None, "owner": None, "name": None}, RulesChanged),
        ("installed", {"action": "renamed"}, InstallationChanged),
    ],
)
def test_stored_event_is_read_as_the_class_of_its_kind_and_action(
    kind: str, fields: dict[str, object], expected: type[Webhook]
) -> None:
    """P2: what was stored for a delivery is what its job follows."""
    event = a_webhook(kind, **fields)
    assert type(event) is expected
    assert WEBHOOK_EVENTS.validate_python(event.model_dump(mode="json", exclude_none=True)) == event
