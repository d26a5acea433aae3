"""The inbox: deliveries and jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create what a webhook is stored in."""
    op.create_table(
        "deliveries",
        sa.Column("guid", sa.String(64)),
        sa.Column("event", sa.String(64), nullable=False),
        sa.Column("received_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("guid", name="pk_deliveries"),
    )
    op.create_index("ix_deliveries_received_at", "deliveries", ["received_at"])
    op.create_table(
        "jobs",
        sa.Column("seq", COUNTER, autoincrement=True),
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("process_id", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("batch_job_id", sa.String(255)),
        sa.Column("response", sa.JSON()),
        sa.Column("error_message", sa.Text()),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("not_before", INSTANT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("owner", sa.String(255)),
        sa.Column("leased_until", INSTANT),
        sa.Column("claims", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_jobs"),
        sa.UniqueConstraint("id", name="uq_jobs_id"),
        sa.CheckConstraint("status IN ('PENDING', 'IN_PROGRESS', 'COMPLETED', 'FAILED')", name="status"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_jobs_process_id", "jobs", ["process_id"])
    op.create_index("ix_jobs_status_priority_seq", "jobs", ["status", "priority", "seq"])
