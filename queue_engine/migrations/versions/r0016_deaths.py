"""How often a job's worker died while it did the job, apart from the tries that failed."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the count; what was counted as failed tries before stays so."""
    with op.batch_alter_table("jobs") as table:
        table.add_column(sa.Column("deaths", sa.Integer(), nullable=False, server_default="0"))
