"""Which older processes may run on these tables, and an index by which old events of the timeline are found."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """Create the table of one row, which `migrate` fills, and the index."""
    op.create_table(
        "schema_compatibility",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("oldest", sa.String(32), nullable=False),
    )
    op.create_index("ix_timeline_at", "timeline", ["at"])
