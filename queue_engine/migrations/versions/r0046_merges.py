"""Merges that GitHub may finish after their entries have left, with what was tested."""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_AT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Add the table; of entries that left before, IMQ no longer knows what was tested."""
    op.create_table(
        "pending_merges",
        sa.Column("repository_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("queue_id", _ID, sa.ForeignKey("queues.id"), nullable=False),
        sa.Column("entry_id", sa.String(32), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("queued_by", sa.String(255), nullable=False),
        sa.Column("queued_head", sa.String(64), nullable=False),
        sa.Column("head", sa.String(64), nullable=False),
        sa.Column("own_check_required", sa.Boolean(), nullable=False),
        sa.Column("base_tip", sa.String(64)),
        sa.Column("tested_tree", sa.String(64)),
        sa.Column("merge_uuid", sa.String(64)),
        sa.Column("started_at", _AT),
        sa.Column("enqueued_at", _AT, nullable=False),
        sa.Column("left_at", _AT, nullable=False),
    )
    op.create_index("ix_pending_merges_left_at", "pending_merges", ["left_at"])
