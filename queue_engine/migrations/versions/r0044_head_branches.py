"""The head branch of each entry, by which IMQ finds others that share it."""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    """Add the name; entries that wait already share no head, as far as IMQ knows."""
    op.add_column("entries", sa.Column("head_branch", sa.Text()))
