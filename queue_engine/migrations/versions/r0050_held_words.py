"""Since when a limit of GitHub's holds an outbox item."""

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"


def upgrade() -> None:
    """Add the instant; no limit holds an item yet."""
    op.add_column("outbox", sa.Column("held_since", sa.DateTime(timezone=True)))
