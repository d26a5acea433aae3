"""Columns that are named by the terms of the field."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

_RENAMED = {
    "entries": {
        "awaited_checks": "pending_checks",
        "reported_checks": "completed_checks",
        "suspect": "needs_refetch",
        "trouble": "github_failures",
        "trouble_since": "github_failing_since",
        "refusals": "merge_refusals",
        "recheck": "polls",
        "recheck_at": "next_poll_at",
        "vouched": "trusted_labels",
        "first": "hotfix",
        "interrupts": "preempts",
    },
    "queues": {"beneath": "underlying_freeze", "told": "announced", "wakes": "wake_count"},
    "outbox": {"unsure": "maybe_created"},
    "held": {"vouched": "trusted_labels"},
}


def upgrade() -> None:
    """Rename the columns in place; every value stays. SQLite and PostgreSQL rename them in indexes too."""
    op.drop_index("ix_entries_queue_id_first_rank_seq", table_name="entries")
    for table, names in _RENAMED.items():
        for old, new in names.items():
            op.execute(sa.text(f'ALTER TABLE "{table}" RENAME COLUMN "{old}" TO "{new}"'))
    op.create_index("ix_entries_queue_id_hotfix_rank_seq", "entries", ["queue_id", "hotfix", "rank", "seq"])
