"""Tables through which much passes and in which little stays are swept often on PostgreSQL.

By its defaults PostgreSQL looks after a table when a fifth of it is dead rows, slowly and in small steps. Of a table of
jobs everything is dead soon after, so its size would follow the largest crowd that ever was.
"""

from alembic import op

revision = "0005"
down_revision = "0004"

_BUSY = ("jobs", "idempotency_keys", "outbox", "processes")
_OFTEN = (
    "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,"
    " autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000,"
    " autovacuum_vacuum_cost_delay = 0"
)


def upgrade() -> None:
    """Let PostgreSQL clear these tables after a thousand dead rows, at its next round, without pauses."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in _BUSY:
        op.execute(f"ALTER TABLE {table} SET ({_OFTEN})")
