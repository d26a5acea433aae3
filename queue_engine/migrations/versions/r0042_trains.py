"""Runs of several members, and what plans for them remember."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_AT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Add both tables, empty; no queue is in trains."""
    op.add_column("queues", sa.Column("in_trains", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("runs", sa.Column("candidate_run", sa.Integer()))
    op.create_table(
        "candidate_runs",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("queue_id", _ID, sa.ForeignKey("queues.id"), nullable=False),
        sa.Column("run_id", _ID, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("trigger", sa.String(16), nullable=False),
        sa.Column("base_tip", sa.String(64), nullable=False),
        sa.Column("candidate", sa.String(64)),
        sa.Column("members", sa.JSON(), nullable=False),
        sa.Column("tested", sa.JSON(), nullable=False),
        sa.Column("pull_request", sa.Integer()),
        sa.Column("started_at", _AT, nullable=False),
        sa.Column("published_at", _AT),
        sa.Column("checks_since", _AT),
        sa.UniqueConstraint("run_id"),
        sa.CheckConstraint("state IN ('building', 'testing', 'passed', 'landing', 'ended')", name="state"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_candidate_runs_queue_id", "candidate_runs", ["queue_id"])
    op.create_index("ix_candidate_runs_candidate", "candidate_runs", ["candidate"])
    op.create_table(
        "trains",
        sa.Column("queue_id", _ID, sa.ForeignKey("queues.id"), primary_key=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("memory", sa.JSON(), nullable=False),
    )
