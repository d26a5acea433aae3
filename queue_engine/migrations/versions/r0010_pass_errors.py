"""Queues count the passes that ended with an unexpected error."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Give queues the count, and the instant of the first error in a row."""
    op.add_column("queues", sa.Column("errors", sa.Integer(), nullable=False, server_default=sa.text("0")))
    op.add_column("queues", sa.Column("errors_since", sa.DateTime(timezone=True)))
