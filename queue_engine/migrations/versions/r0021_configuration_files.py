"""Configuration files as they were last read, so that processes share them and a restart finds them."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Make the table of configuration files."""
    op.create_table(
        "configuration_files",
        sa.Column("file", sa.String(400), primary_key=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text()),
        sa.Column("unreadable", sa.Text()),
        sa.Column("reviewed", sa.Boolean(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    )
