"""Record what a webhook asks for in somebody's name."""

from datetime import datetime

from queue_engine.domain.model import Repository
from queue_engine.domain.webhook_event import WebhookEvent, WebhookKind
from queue_engine.store.requests import RequestKind, RequestRecord


def request_of(
    job_id: str, webhook: WebhookEvent, repository: Repository | None, now: datetime
) -> RequestRecord | None:
    """Return what a webhook asks for in somebody's name: a label or commands; None for any other webhook."""
    number = webhook.number
    if repository is None or number is None:
        return None
    asked: tuple[RequestKind, str] | None = None
    if webhook.kind is WebhookKind.LABELED and webhook.label is not None:
        asked = RequestKind.LABEL, webhook.label
    elif webhook.commands:
        asked = RequestKind.COMMAND, " ".join(f"/{line}" for line in webhook.commands)
    if asked is None:
        return None
    return RequestRecord(job_id, repository, number, *asked, asked_by=webhook.sender, asked_at=now)
