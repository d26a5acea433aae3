"""The number of the account that queued each entry: people change their logins."""

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"


def upgrade() -> None:
    """Add the number; entries that wait already go by the login."""
    op.add_column("entries", sa.Column("queued_by_id", sa.BigInteger()))
