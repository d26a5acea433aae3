"""Who was first to log in with a login that IMQ_OPERATORS names."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    """Make the table; an operator who is named by login logs in again."""
    op.create_table(
        "login_owners",
        sa.Column("login", sa.String(255), primary_key=True),
        sa.Column("person_id", sa.BigInteger(), nullable=False),
    )
