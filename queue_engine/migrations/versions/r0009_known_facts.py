"""Stores facts from webhooks and answers to writes, so that IMQ recognizes older reads."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the table of known facts."""
    op.create_table(
        "known_facts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("subject", sa.String(300), nullable=False),
        sa.Column("told", sa.JSON(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_known_facts"),
    )
    op.create_index("ix_known_facts_at", "known_facts", ["at"])
    op.create_index("ix_known_facts_repository_id_subject_id", "known_facts", ["repository_id", "subject", "id"])
