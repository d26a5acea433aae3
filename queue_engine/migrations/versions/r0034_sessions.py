"""Sessions of people at the pages."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    """Make the table of sessions."""
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("secret_hash", sa.String(64), nullable=False),
        sa.Column("former_hash", sa.String(64)),
        sa.Column("former_until", sa.DateTime(timezone=True)),
        sa.Column("person_id", sa.BigInteger(), nullable=False),
        sa.Column("login", sa.String(255), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("renewed_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("secret_hash"),
    )
    op.create_index("ix_sessions_former_hash", "sessions", ["former_hash"])
    op.create_index("ix_sessions_person_id", "sessions", ["person_id"])
