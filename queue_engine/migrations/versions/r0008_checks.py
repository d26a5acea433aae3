"""Checks as they come: since when a merge is refused, which checks started, which reported on the former head."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Add to entries what is known of refusals and of started checks, and to queues what holds for all of them."""
    _entries()
    _queues()


def _entries() -> None:
    for column in (
        sa.Column("refused_since", INSTANT),
        sa.Column("former_checks", sa.JSON()),
        sa.Column("started_checks", sa.JSON(), nullable=False, server_default=sa.text("'[]'")),
        sa.Column("checks_started_at", INSTANT),
    ):
        op.add_column("entries", column)


def _queues() -> None:
    for column in (
        sa.Column("red_untested", sa.Boolean(), nullable=False, server_default=sa.text("FALSE")),
        sa.Column("red_rerun", sa.String(64)),
        sa.Column("stalled_since", INSTANT),
        sa.Column("stalled_head", sa.String(64)),
        sa.Column("stalled_checks", sa.Text()),
        sa.Column("ci_seen_at", INSTANT),
    ):
        op.add_column("queues", column)
