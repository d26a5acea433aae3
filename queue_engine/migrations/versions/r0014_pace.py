"""What each process reserved of GitHub's limits, and until when GitHub asked all of them to pause."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the tables of the shared pace."""
    op.create_table(
        "pace_reservations",
        sa.Column("id", COUNTER, primary_key=True, autoincrement=True),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("amount", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
    )
    op.create_index("ix_pace_reservations_installation_id_at", "pace_reservations", ["installation_id", "at"])
    op.create_table(
        "pace_pauses",
        sa.Column("installation_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("until", INSTANT, nullable=False),
    )
