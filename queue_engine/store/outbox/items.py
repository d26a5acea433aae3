"""Outbox items: desired state on GitHub, as the dispatcher claims it, and as a dead letter stores it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any

from sqlalchemy import Row

from queue_engine.core.database.database import record_in
from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.domain.facts import OwnCheckRun
from queue_engine.domain.model import Repository
from queue_engine.domain.notice import Notice
from queue_engine.store.repositories import repository_of

OUTBOX_JOB = "outbox_item"
"""Type of an item's dead letter, and kind of the job that resends the item."""

_DEAD_ID = "letter"
"""Prefix of what a dead letter's id is computed from. It stays, so that stored ids stay valid."""

NAME = ("kind", "repository_id", "number", "label")
"""The key of an item, and the payload of its dead letter. `label` is empty for comments and check runs."""


LATE = timedelta(minutes=1)
"""How long words may wait for a limit of GitHub's, or for a dispatcher, before they are late."""


READS_LAG = timedelta(seconds=10)
"""After a request, how long a search may miss what it created: GitHub answers reads from replicas that lag."""


class OutboxKind(StrEnum):
    """Kinds of writes to GitHub."""

    COMMENT = "comment"
    CHECK_RUN = "check_run"
    LABEL = "label"


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """The desired state of one comment, check run or label, as claimed by one dispatcher.

    `remote_id` is GitHub's id of the comment or check run once known, `remote_head` the commit of the check run.
    `maybe_created`: GitHub may have created a comment or check run whose id IMQ did not get, since
    `create_requested_at` if this database requested it. `attempts` counts failures. `announced_at` is the instant of
    the notice for which the newest comment was created. `superseded_id` is the former comment, which is still to be
    deleted. `label_on`: whether the pull request shall have `label`.
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
    create_requested_at: datetime | None
    announced_at: datetime | None
    superseded_id: int | None
    version: int
    attempts: int
    owner: str
    settled_at: datetime
    """When the former state was sent, or given up."""
    trace: str | None
    """The W3C traceparent of the last change of the desired state."""
    held_since: datetime | None
    """Since when a limit of GitHub's holds it, and nothing else shows its words."""
    error: str | None
    """Why it failed last; None: it did not."""


@dataclass(frozen=True, slots=True)
class CheckRunState:
    """The desired notice of a check run, whether GitHub shows it, and the error if IMQ gave up or may not write it."""

    notice: Notice
    shown: bool
    error: str | None


@dataclass(frozen=True, slots=True)
class OutboxRun:
    """The check run of a pull request as IMQ wrote it last, and when."""

    number: int
    run: OwnCheckRun
    at: datetime


def dead_id(kind: str, repository_id: int, number: int, label: str = "") -> str:
    """Compute the id of an item's dead letter: one per key, so that a retry finds it."""
    of_label = f":{label}" if label else ""
    return sha256(f"{_DEAD_ID}:{kind}:{repository_id}:{number}{of_label}".encode()).hexdigest()[:32]


def dead_letter(row: Row[Any], error: str, now: datetime, *, attempts: int, retryable: bool) -> DeadLetter:
    """Make the dead letter of a row whose item failed for good."""
    return DeadLetter(
        id=dead_id(row.kind, row.repository_id, row.number, row.label),
        process_id=f"{row.repository_id}:{row.number}",
        job_type=OUTBOX_JOB,
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
    """Read an item from a row of the outbox with `REPOSITORY_FIELDS`. Raises pydantic's ValidationError."""
    return record_in(
        OutboxItem,
        row,
        kind=OutboxKind(row.kind),
        repository=repository_of(row),
        notice=None if row.notice is None else Notice.model_validate(row.notice),
        owner=row.lease_owner,
        settled_at=row.updated_at,
    )
