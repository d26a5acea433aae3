"""People who asked for something without the right to it: how often in a row, and when last."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Make the table of throttled people."""
    op.create_table(
        "throttles",
        sa.Column("repository_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("login", sa.String(255), primary_key=True),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    )
