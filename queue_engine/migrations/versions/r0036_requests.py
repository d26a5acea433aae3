"""Requests: what people and programs asked of IMQ, known for days after their jobs are done."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    """Add the table; requests before it are seen only as jobs and dead letters."""
    op.create_table(
        "requests",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("repository_id", sa.BigInteger(), sa.ForeignKey("repositories.id"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("asked", sa.String(255), nullable=False),
        sa.Column("asked_by", sa.String(255)),
        sa.Column("process_id", sa.String(255)),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_requests_process_id", "requests", ["process_id"])
    op.create_index("ix_requests_asked_at_id", "requests", ["asked_at", "id"])
    op.create_index("ix_requests_repository_id_asked_at_id", "requests", ["repository_id", "asked_at", "id"])
