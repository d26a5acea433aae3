"""Normalize deliveries about reviews and conversations. Pure functions."""

from collections.abc import Mapping
from typing import Any

from bot.webhooks import known_facts
from bot.webhooks.payloads import ReviewEvent, ReviewThreadEvent
from queue_engine.commands.comments import commands_in
from queue_engine.domain.webhook_event import WebhookEvent, WebhookKind

REVIEW_ACTIONS = frozenset({"submitted", "dismissed"})
THREAD_ACTIONS = frozenset({"resolved", "unresolved"})


def of_review(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    """Normalize a review, with the commands in its text."""
    event = ReviewEvent.model_validate(payload)
    # An edited review has the same state.
    if event.action not in REVIEW_ACTIONS:
        return None
    pull, review = event.pull_request, event.review
    fields: dict[str, Any] = {}
    by_person = event.sender is not None and event.sender.type != "Bot"
    if event.action == "submitted" and by_person and review is not None and review.id is not None:
        commands = commands_in(review.body or "")
        if commands:
            fields = {
                "review_id": review.id,
                "commands": commands,
                "head_sha": review.commit_id,
                "association": review.author_association,
                "author": pull.user.login if pull.user else None,
                "updated_at": review.submitted_at,
            }
    return event.webhook_event(
        WebhookKind.REVIEW,
        delivery,
        number=pull.number,
        branch=pull.base and pull.base.ref,
        facts=known_facts.of_review_event(event),
        **fields,
    )


def of_thread(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    """Normalize a conversation that was resolved, or opened again.

    GitHub sends the event to Apps with the permission `pull_requests` (docs, "Webhook events and payloads";
    palantir/bulldozer #819). Its payload has the pull request and the id of the thread (octokit/webhooks #593).
    """
    event = ReviewThreadEvent.model_validate(payload)
    if event.action not in THREAD_ACTIONS:
        return None
    pull = event.pull_request
    return event.webhook_event(
        WebhookKind.CONVERSATION,
        delivery,
        number=pull.number,
        branch=pull.base and pull.base.ref,
        facts=known_facts.of_review_thread_event(event),
    )
