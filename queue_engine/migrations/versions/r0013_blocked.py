"""Entries that IMQ lacks a permission to land."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Add to entries since when they are blocked, and when IMQ tries again."""
    for name in ("blocked_since", "blocked_until"):
        op.add_column("entries", sa.Column(name, INSTANT))
