"""Each repository's rules, and commands: priorities, pauses with an end, reruns, replies to commands."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Give entries their rank, queues what makes them stand, and the last command on a pull request a place."""
    op.add_column("repositories", sa.Column("generation", sa.Integer(), nullable=False, server_default=sa.text("0")))
    _queues()
    _entries()
    op.create_index(
        "ix_timeline_repository_id_base_branch_event_id", "timeline", ["repository_id", "base_branch", "event", "id"]
    )
    op.create_table(
        "answers",
        sa.Column("repository_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("number", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("comment_id", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("replies", sa.JSON(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("repository_id", "number", name="pk_answers"),
    )


def _queues() -> None:
    for column in (
        sa.Column("paused_until", INSTANT),
        sa.Column("paused_by", sa.String(255)),
        sa.Column("told", sa.Text()),
        sa.Column("red_check", sa.String(255)),
        sa.Column("red_tip", sa.String(64)),
        sa.Column("red_since", INSTANT),
        sa.Column("red_looks", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("red_look_at", INSTANT),
    ):
        op.add_column("queues", column)


def _entries() -> None:
    no = sa.text("FALSE")
    for column in (
        sa.Column("arrived", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("rank", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("first", sa.Boolean(), nullable=False, server_default=no),
        sa.Column("interrupts", sa.Boolean(), nullable=False, server_default=no),
        sa.Column("fixes_base", sa.Boolean(), nullable=False, server_default=no),
        sa.Column("freeze_exempt", sa.Boolean(), nullable=False, server_default=no),
        sa.Column("reruns", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("rerun_checks", sa.JSON(), nullable=False, server_default=sa.text("'[]'")),
        sa.Column("rerun_at", INSTANT),
        sa.Column("check_seconds", sa.Integer()),
    ):
        op.add_column("entries", column)
    # Those who stand already keep their order: by sequence alone, before all who join from now on.
    op.drop_index("ix_entries_queue_id_priority_seq", "entries")
    op.create_index("ix_entries_queue_id_first_rank_seq", "entries", ["queue_id", "first", "rank", "seq"])
