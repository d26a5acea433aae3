"""What names the merge of a run that GitHub makes in the background."""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"


def upgrade() -> None:
    """Add the name; no run that began before has such a merge."""
    op.add_column("runs", sa.Column("merge_uuid", sa.String(64)))
