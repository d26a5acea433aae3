"""How often a job was held, by the reason."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add the counts; for jobs that were held before they begin at none."""
    with op.batch_alter_table("jobs") as table:
        table.add_column(sa.Column("holds", sa.JSON(none_as_null=True)))
