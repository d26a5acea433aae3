"""Jobs without the id of a batch: a run of a train, with its candidate, is a record of its own."""

from alembic import op

revision = "0050"
down_revision = "0049"

unused_since = "0.1.0"


def upgrade() -> None:
    """Drop the column, which was always empty."""
    op.drop_column("jobs", "batch_job_id")
