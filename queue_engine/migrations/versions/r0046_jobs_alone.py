"""Jobs without the id of a batch: the runs of trains are stored in tables of their own."""

from alembic import op

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    """Drop the column, which no version has filled."""
    with op.batch_alter_table("jobs") as table:
        table.drop_column("batch_job_id")
