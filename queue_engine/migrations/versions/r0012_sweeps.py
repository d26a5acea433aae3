"""Sweeps: up to which instant each part of the sweep has found everything."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the table of sweeps."""
    op.create_table(
        "sweeps",
        sa.Column("part", sa.String(64), primary_key=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    )
