"""The JSON that generic webhooks get. docs/notifications.md describes its fields; fields are only added."""

import json
from typing import Any

from notifications.sinks.message import Message
from notifications.sinks.text import Site, link, next_step, queue_link, sentence


def payload(message: Message, site: Site) -> bytes:
    """Return the body: the same bytes at each try, as receivers verify the signature over them."""
    content = {
        "type": message.kind.value,
        "timestamp": message.at.isoformat().replace("+00:00", "Z"),
        "data": _data(message, site),
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _data(message: Message, site: Site) -> dict[str, Any]:
    base = message.branch or "the base branch"
    return {
        "event": message.event,
        "reason": None if message.reason is None else message.reason.value,
        "sentence": sentence(message, base),
        "next_step": next_step(message, base),
        "whose_move": message.whose_move,
        "repository": message.repository,
        "branch": message.branch,
        "pull_request": _pull_request(message, site),
        "link": link(message, site),
        "queue": queue_link(message, site),
        "by": message.by,
        "until": message.until,
        "before": message.before,
        "sha": message.sha,
        "detail": message.detail,
        "failing": [each.model_dump(mode="json") for each in message.failing],
    }


def _pull_request(message: Message, site: Site) -> dict[str, Any] | None:
    if message.number is None:
        return None
    return {
        "number": message.number,
        "title": message.title,
        "author": message.author,
        "url": link(message, site),
    }
