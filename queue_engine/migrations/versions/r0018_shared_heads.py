"""Head branches of queued pull requests into which others are merged."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Have entries name such a head branch; those that are queued already name none."""
    op.add_column("entries", sa.Column("shared_head", sa.String(255)))
