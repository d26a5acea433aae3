"""Whether the rules of the base branch require IMQ's own check."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    """Add the fact; the next pass finds it for entries that wait already."""
    no = sa.false()
    op.add_column("entries", sa.Column("own_check_required", sa.Boolean(), nullable=False, server_default=no))
