"""The queue: repositories, queues, entries, the timeline, the outbox, and refusals."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)
SHA = sa.String(64)


def upgrade() -> None:
    """Create the tables of queues and entries, their timeline and outbox."""
    op.create_table(
        "repositories",
        sa.Column("id", sa.BigInteger(), autoincrement=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_repositories"),
    )
    _create_queues()
    _create_entries()
    _create_timeline()
    _create_outbox()
    _create_door()


def _create_queues() -> None:
    op.create_table(
        "queues",
        sa.Column("id", COUNTER, autoincrement=True),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("base_branch", sa.String(255), nullable=False),
        sa.Column("paused_reason", sa.String(64)),
        sa.Column("paused_detail", sa.Text()),
        sa.Column("paused_since", INSTANT),
        sa.Column("due_at", INSTANT),
        sa.Column("wakes", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(255)),
        sa.Column("leased_until", INSTANT),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_queues"),
        sa.ForeignKeyConstraint(["repository_id"], ["repositories.id"], name="fk_queues_repository_id"),
        sa.UniqueConstraint("repository_id", "base_branch", name="uq_queues_repository_id_base_branch"),
        sa.CheckConstraint("(paused_reason IS NULL) = (paused_since IS NULL)", name="paused"),
        sa.CheckConstraint("(lease_owner IS NULL) = (leased_until IS NULL)", name="lease"),
    )
    op.create_index("ix_queues_due_at", "queues", ["due_at"])


def _create_entries() -> None:
    op.create_table(
        "entries",
        sa.Column("seq", COUNTER, autoincrement=True),
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("queue_id", COUNTER, nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("queued_by", sa.String(255), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("queued_head", SHA, nullable=False),
        sa.Column("head", SHA, nullable=False),
        sa.Column("head_proved", sa.Boolean(), nullable=False),
        sa.Column("updated_from", SHA),
        sa.Column("candidate_head", SHA),
        sa.Column("candidate_is_ours", sa.Boolean(), nullable=False),
        sa.Column("known_behind", sa.Boolean(), nullable=False),
        sa.Column("base_tip", SHA),
        sa.Column("tested_tree", SHA),
        sa.Column("awaited_checks", sa.JSON(), nullable=False),
        sa.Column("reported_checks", sa.JSON(), nullable=False),
        sa.Column("suspect", sa.Boolean(), nullable=False),
        sa.Column("merge_requested_at", INSTANT),
        sa.Column("trouble", sa.Integer(), nullable=False),
        sa.Column("trouble_since", INSTANT),
        sa.Column("refusals", sa.Integer(), nullable=False),
        sa.Column("recheck", sa.Integer(), nullable=False),
        sa.Column("recheck_at", INSTANT),
        sa.Column("enqueued_at", INSTANT, nullable=False),
        sa.Column("started_at", INSTANT),
        sa.Column("status_since", INSTANT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_entries"),
        sa.ForeignKeyConstraint(["queue_id"], ["queues.id"], name="fk_entries_queue_id"),
        sa.ForeignKeyConstraint(["repository_id"], ["repositories.id"], name="fk_entries_repository_id"),
        sa.UniqueConstraint("id", name="uq_entries_id"),
        sa.UniqueConstraint("repository_id", "number", name="uq_entries_repository_id_number"),
        sa.CheckConstraint("status IN ('pending', 'updating', 'checking', 'ready')", name="waiting"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_entries_queue_id_priority_seq", "entries", ["queue_id", "priority", "seq"])


def _create_timeline() -> None:
    op.create_table(
        "timeline",
        sa.Column("id", COUNTER, autoincrement=True),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("event", sa.String(64), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("base_branch", sa.String(255), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("entry_id", sa.String(32)),
        sa.Column("reason", sa.String(64)),
        sa.Column("delivery", sa.String(64)),
        sa.Column("data", sa.JSON()),
        sa.PrimaryKeyConstraint("id", name="pk_timeline"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_timeline_repository_id_number_id", "timeline", ["repository_id", "number", "id"])


def _create_outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", COUNTER, autoincrement=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("notice", sa.JSON()),
        sa.Column("label", sa.String(255)),
        sa.Column("remote_id", sa.BigInteger()),
        sa.Column("remote_head", SHA),
        sa.Column("unsure", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", INSTANT),
        sa.Column("lease_owner", sa.String(255)),
        sa.Column("leased_until", INSTANT),
        sa.Column("error", sa.Text()),
        sa.Column("dead", sa.Boolean(), nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.ForeignKeyConstraint(["repository_id"], ["repositories.id"], name="fk_outbox_repository_id"),
        sa.UniqueConstraint("kind", "repository_id", "number", name="uq_outbox_kind_repository_id_number"),
        sa.CheckConstraint("kind IN ('comment', 'check_run', 'label_off')", name="kind"),
        sa.CheckConstraint("(lease_owner IS NULL) = (leased_until IS NULL)", name="lease"),
    )
    op.create_index("ix_outbox_due_at", "outbox", ["due_at"])


def _create_door() -> None:
    op.create_table(
        "refusals",
        sa.Column("repository_id", sa.BigInteger(), autoincrement=False),
        sa.Column("number", sa.Integer(), autoincrement=False),
        sa.Column("head_sha", SHA, nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("repository_id", "number", name="pk_refusals"),
    )
    op.create_table(
        "held",
        sa.Column("seq", COUNTER, autoincrement=True),
        sa.Column("queue_id", COUNTER, nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("head_sha", SHA, nullable=False),
        sa.Column("queued_by", sa.String(255), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_held"),
        sa.ForeignKeyConstraint(["queue_id"], ["queues.id"], name="fk_held_queue_id"),
        sa.ForeignKeyConstraint(["repository_id"], ["repositories.id"], name="fk_held_repository_id"),
        sa.UniqueConstraint("repository_id", "number", name="uq_held_repository_id_number"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_held_queue_id_seq", "held", ["queue_id", "seq"])
