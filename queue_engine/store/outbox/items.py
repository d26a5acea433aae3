"""Outbox items: desired state on GitHub, as the sender claims it, and as a dead letter keeps it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from sqlalchemy import Row

from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.domain.model import Repository
from queue_engine.domain.notice import Notice
from queue_engine.store.repositories import repository_of

LETTER_JOB = "letter"
"""Type of an item's dead letter, and kind of the job that has the item sent after all."""

NAME = ("kind", "repository_id", "number", "label")
"""What identifies an item, and the payload of its dead letter. `label` is empty for all kinds but a label."""


class OutboxKind(StrEnum):
    """What is written to GitHub."""

    COMMENT = "comment"
    CHECK_RUN = "check_run"
    LABEL = "label"


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """The desired state of one thing on GitHub, as claimed by one sender.

    `remote_id` is GitHub's id of the comment or check run once known, `remote_head` the commit that the check run is
    on. `maybe_created` says that something may have been created without our learning its id. `attempts` counts
    failures. `announced_at` is the instant of the notice that the newest comment was created for, `superseded_id` the
    comment that it replaces and that is still to be deleted. `label_on` says whether the pull request is to carry
    `label`.
    """

    id: int
    kind: OutboxKind
    repository: Repository
    number: int
    notice: Notice | None
    label: str
    label_on: bool | None
    remote_id: int | None
    remote_head: str | None
    maybe_created: bool
    announced_at: datetime | None
    superseded_id: int | None
    version: int
    attempts: int
    owner: str
    settled_at: datetime
    """When what was wanted before was sent, or given up."""
    trace: str | None
    """The W3C traceparent of what made it wanted last."""


def dead_id(kind: str, repository_id: int, number: int, label: str = "") -> str:
    """The id of an item's dead letter: one for each row that the outbox can have, so that a retry finds it."""
    of_label = f":{label}" if label else ""
    return sha256(f"{LETTER_JOB}:{kind}:{repository_id}:{number}{of_label}".encode()).hexdigest()[:32]


def dead_letter(row: Row[Any], error: str, now: datetime, *, attempts: int, retryable: bool) -> DeadLetter:
    """The dead letter of this row, whose item failed for good."""
    return DeadLetter(
        id=dead_id(row.kind, row.repository_id, row.number, row.label),
        process_id=f"{row.repository_id}:{row.number}",
        job_type=LETTER_JOB,
        error_message=error,
        payload={name: row._mapping[name] for name in NAME},
        failed_at=now,
        retryable=retryable,
        attempts=attempts,
        priority=0,
        created_at=now,
        trace=row.trace,
    )


def item_of(row: Row[Any]) -> OutboxItem:
    """The item of a row of the outbox that selected `REPOSITORY_FIELDS`. Raises pydantic's ValidationError."""
    return OutboxItem(
        id=row.id,
        kind=OutboxKind(row.kind),
        repository=repository_of(row),
        number=row.number,
        notice=None if row.notice is None else Notice.model_validate(row.notice),
        label=row.label,
        label_on=row.label_on,
        remote_id=row.remote_id,
        remote_head=row.remote_head,
        maybe_created=row.maybe_created,
        announced_at=row.announced_at,
        superseded_id=row.superseded_id,
        version=row.version,
        attempts=row.attempts,
        owner=row.lease_owner,
        settled_at=row.updated_at,
        trace=row.trace,
    )
