"""A pause for what GitHub refuses: an installation or a repository that is out of order."""

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0048"


def upgrade() -> None:
    """Add the slot; no queue is paused for it yet."""
    op.add_column("queues", sa.Column("github_refuses", sa.JSON(none_as_null=True)))
