"""Jobs are found in the order in which they are claimed, without sorting all that wait."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Let the index run the way of the claims: highest priority first, then oldest."""
    op.drop_index("ix_jobs_status_priority_seq", "jobs")
    op.create_index("ix_jobs_status_priority_seq", "jobs", ["status", sa.text("priority DESC"), "seq"])
