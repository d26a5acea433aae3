"""The time limit of each check of a run, by its name, in place of one limit for all."""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"


def upgrade() -> None:
    """Checks under way have the limit of those without history."""
    op.add_column("runs", sa.Column("check_limits", sa.JSON(none_as_null=True)))
