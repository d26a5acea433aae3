"""A pull request that waits for room in a full queue is an entry like any other."""

from datetime import UTC
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

_HOUR = 3_600_000
"""The head start of one point of priority in milliseconds, where the configuration names no other."""

_DROPPED_JOBS = ("held", "admit_waiting", "place")
"""Kinds of jobs that admitted held pull requests."""


def upgrade() -> None:
    """Each held pull request becomes the last entry of its queue, in their order, with what was kept of its consent.

    Its title is not known; who queued it stands for its author, who may not do more with it.
    """
    op.add_column("entries", sa.Column("held_since", sa.DateTime(timezone=True)))
    connection = op.get_bind()
    metadata = sa.MetaData()
    held, entries = (sa.Table(name, metadata, autoload_with=connection) for name in ("held", "entries"))
    for row in connection.execute(sa.select(held).order_by(held.c.seq)).mappings().all():
        _store(connection, entries, row)
    op.drop_table("held")
    names = ", ".join(f"'{kind}'" for kind in _DROPPED_JOBS)
    op.execute(f"DELETE FROM jobs WHERE kind IN ({names})")  # noqa: S608
    op.execute(f"DELETE FROM failed_jobs WHERE job_type IN ({names})")  # noqa: S608


def _store(connection: sa.Connection, entries: sa.Table, row: Any) -> None:
    queue, priority = entries.c.queue_id == row["queue_id"], row["priority"] or 0
    at = row["at"].replace(tzinfo=UTC) if row["at"].tzinfo is None else row["at"]
    latest = connection.execute(sa.select(sa.func.max(entries.c.arrived)).where(queue)).scalar_one()
    alike = sa.select(sa.func.max(entries.c.rank)).where(queue, entries.c.priority == priority)
    lowest = connection.execute(alike).scalar_one()
    arrived = max(round(at.timestamp() * 1000), latest or 0)
    rank = arrived - priority * _HOUR
    names = ("queue_id", "repository_id", "number", "queued_by", "trace", "delivery", "trusted_labels")
    flags = ("candidate_is_ours", "known_behind", "needs_refetch", "hotfix", "preempts", "fixes_base", "freeze_exempt")
    values: dict[str, Any] = {
        **{name: row[name] for name in names},
        **dict.fromkeys(flags, False),
        **dict.fromkeys(("github_failures", "merge_refusals", "polls", "reruns"), 0),
        **{name: [] for name in ("pending_checks", "completed_checks", "rerun_checks", "started_checks")},
        **dict.fromkeys(("enqueued_at", "status_since", "held_since"), at),
        "id": uuid4().hex,
        "title": f"Pull request {row['number']}",
        "author": row["queued_by"],
        "priority": priority,
        "status": "pending",
        "queued_head": row["head_sha"],
        "head": row["head_sha"],
        "head_proved": True,
        "version": 1,
        "arrived": arrived,
        "rank": rank if lowest is None else max(rank, lowest),
    }
    connection.execute(sa.insert(entries).values(values))
    queues = sa.table("queues", sa.column("id", sa.Integer()), sa.column("due_at", sa.DateTime(timezone=True)))
    due = sa.update(queues).where(queues.c.id == row["queue_id"], queues.c.due_at.is_(None))
    connection.execute(due.values(due_at=at))
