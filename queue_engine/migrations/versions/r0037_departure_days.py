"""The sums of the departures of each day, which the statistics add up; an index of each queue's last departures."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"

_PARTS = ("waited", "capacity", "checks", "paused", "base_red", "other")
_FILL = """
    INSERT INTO departure_days (
        day, repository_id, base_branch, outcome, reason, departures, pulls,
        waited, capacity, checks, paused, base_red, other, ci_seconds, ci_known, reruns
    )
    SELECT
        day, repository_id, base_branch, outcome, coalesce(reason, ''), count(*),
        sum(CASE WHEN is_last THEN 1 ELSE 0 END),
        sum(waited), sum(capacity), sum(checks), sum(paused), sum(base_red), sum(other),
        coalesce(sum(ci_seconds), 0), count(ci_seconds), sum(reruns)
    FROM departures
    GROUP BY day, repository_id, base_branch, outcome, coalesce(reason, '')
"""


def upgrade() -> None:
    """Add the table of sums, with those of the departures so far."""
    op.create_table(
        "departure_days",
        sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("repository_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("base_branch", sa.String(255), primary_key=True),
        sa.Column("outcome", sa.String(16), primary_key=True),
        sa.Column("reason", sa.String(64), primary_key=True, server_default=""),
        sa.Column("departures", sa.Integer(), nullable=False),
        sa.Column("pulls", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=False) for name in _PARTS),
        sa.Column("ci_seconds", sa.Double(), nullable=False),
        sa.Column("ci_known", sa.Integer(), nullable=False),
        sa.Column("reruns", sa.Integer(), nullable=False),
    )
    op.create_index(
        "ix_departure_days_repository_id_base_branch_day", "departure_days", ["repository_id", "base_branch", "day"]
    )
    op.create_index(
        "ix_departures_repository_id_base_branch_left_at", "departures", ["repository_id", "base_branch", "left_at"]
    )
    op.execute(_FILL)
