"""What the pull request of an entry lacks that waits outside its queue, and when IMQ last read that."""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"


def upgrade() -> None:
    """Add the columns; entries that are there are in their queues, and lack nothing."""
    op.add_column("entries", sa.Column("unmet", sa.JSON(none_as_null=True)))
    op.add_column("entries", sa.Column("read_at", sa.DateTime(timezone=True)))
