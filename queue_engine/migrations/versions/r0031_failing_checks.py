"""The checks that fail on a red base, with the links that people follow."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Add the column; it stays empty until the next red base."""
    op.add_column("queues", sa.Column("red_failing", sa.Text()))
