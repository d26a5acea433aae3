"""A comment that somebody must act on replaces the one before it, and is created once."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Note which notice a comment was created for, and which comment is still to be deleted."""
    op.add_column("outbox", sa.Column("announced_at", sa.DateTime(timezone=True)))
    op.add_column("outbox", sa.Column("superseded_id", sa.BigInteger()))
