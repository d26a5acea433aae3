"""How much later than its arrival an entry counts, so that others come between the entries of one author."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    """Add the delay; entries that wait already keep their order."""
    op.add_column("entries", sa.Column("share_delay", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
