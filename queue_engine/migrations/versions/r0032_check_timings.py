"""When the checks of a run's candidate ran, and their links."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    """Add the timings; runs under way begin with none, and get theirs at their next read."""
    op.add_column("runs", sa.Column("timings", sa.JSON(), nullable=False, server_default=sa.text("'[]'")))
