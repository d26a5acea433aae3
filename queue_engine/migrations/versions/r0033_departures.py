"""One row for each entry that left its queue: what it waited for, and what its checks cost.

Running code derives the rows of earlier departures from the timeline (`queue_engine.handlers.departures`).
"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"

_PARTS = ("waited", "capacity", "checks", "paused", "base_red", "other")

_QUEUE = ["repository_id", "base_branch"]
_INDEXES = {
    "ix_departures_repository_id_number": ["repository_id", "number"],
    "ix_departures_repository_id_base_branch_day": [*_QUEUE, "day"],
    "ix_departures_days": ["outcome", "day", *_QUEUE],
    "ix_departures_waits": ["outcome", "waited", "day", *_QUEUE],
}
_PARTIAL = (
    ("ix_departures_reasons", ["outcome", "reason", "day", *_QUEUE, "is_last"], "is_last"),
    ("ix_departures_flaky", ["day", *_QUEUE], "flaky IS NOT NULL"),
)


def upgrade() -> None:
    """Add the table of departures."""
    op.create_table(
        "departures",
        sa.Column("id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("entry_id", sa.String(32), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("base_branch", sa.String(255), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text()),
        sa.Column("author", sa.String(255)),
        sa.Column("joined_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("left_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(64)),
        *(sa.Column(name, sa.Double(), nullable=False) for name in _PARTS),
        sa.Column("ci_seconds", sa.Double()),
        sa.Column("reruns", sa.Integer(), nullable=False),
        sa.Column("flaky", sa.JSON(none_as_null=True)),
        sa.Column("is_last", sa.Boolean(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
    )
    op.create_index("ix_departures_left_at", "departures", ["left_at"])
    for name, columns in _INDEXES.items():
        op.create_index(name, "departures", columns)
    for name, columns, only in _PARTIAL:
        where = sa.text(only)
        op.create_index(name, "departures", columns, sqlite_where=where, postgresql_where=where)
