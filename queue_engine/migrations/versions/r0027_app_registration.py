"""The registration of the GitHub App, so that a hosted process can finish it, and all others find its credentials."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Create the table of the one registration."""
    op.create_table(
        "app_registration",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("nonce", sa.String(64), nullable=False),
        sa.Column("state", sa.String(64)),
        sa.Column("sealed", sa.Text()),
    )
