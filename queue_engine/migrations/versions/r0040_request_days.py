"""How many requests IMQ sent to GitHub for each repository and day."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    """Add the table of counts."""
    op.create_table(
        "request_days",
        sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("repository_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
    )
