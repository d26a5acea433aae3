"""Dead letters of the outbox, and the jobs that resend their items, are named by the outbox."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Rename the kind in place; ids and payloads stay, so that a retry still finds its item."""
    op.execute(sa.text("UPDATE failed_jobs SET job_type = 'outbox_item' WHERE job_type = 'letter'"))
    op.execute(sa.text("UPDATE jobs SET kind = 'outbox_item' WHERE kind = 'letter'"))
