"""For whom API tokens act, where, what they may do at most, and until when."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the columns; tokens that are there stay what they were."""
    op.add_column("api_tokens", sa.Column("person_id", sa.BigInteger()))
    op.add_column(
        "api_tokens", sa.Column("access", sa.String(16), nullable=False, server_default=sa.text("'maintain'"))
    )
    op.add_column("api_tokens", sa.Column("installation_id", sa.BigInteger()))
    op.add_column("api_tokens", sa.Column("repositories", sa.JSON()))
    op.add_column("api_tokens", sa.Column("expires_at", sa.DateTime(timezone=True)))
