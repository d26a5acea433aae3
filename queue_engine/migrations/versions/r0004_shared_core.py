"""The shared core: dead letters, idempotency keys, traces, tokens of the API, and what processes tell of themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Give jobs their columns' final names, and everything that waits the trace that it belongs to."""
    op.alter_column("jobs", "request", new_column_name="request_json")
    op.alter_column("jobs", "response", new_column_name="response_json")
    for table in ("jobs", "entries", "held", "outbox"):
        op.add_column(table, sa.Column("trace", sa.String(64)))
    for table in ("entries", "held"):
        op.add_column(table, sa.Column("delivery", sa.String(64)))
    _dead_letters()
    _idempotency_keys()
    _tokens_and_processes()


def _dead_letters() -> None:
    op.create_table(
        "failed_jobs",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("process_id", sa.String(255), nullable=False),
        sa.Column("job_type", sa.String(64), nullable=False),
        sa.Column("error_message", sa.Text(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("failed_at", INSTANT, nullable=False),
        sa.Column("retryable", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("trace", sa.String(64)),
        sa.PrimaryKeyConstraint("id", name="pk_failed_jobs"),
    )
    op.create_index("ix_failed_jobs_failed_at", "failed_jobs", ["failed_at"])
    op.execute(
        "INSERT INTO failed_jobs (id, process_id, job_type, error_message, payload, failed_at, retryable, attempts,"
        " priority, created_at) SELECT id, process_id, kind, COALESCE(error_message, ''), request_json, updated_at,"
        " TRUE, attempt, priority, created_at FROM jobs WHERE status = 'FAILED'"
    )
    op.execute("DELETE FROM jobs WHERE status = 'FAILED'")


def _idempotency_keys() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("scope", sa.String(64), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("endpoint", sa.String(255), nullable=False),
        sa.Column("request_hash", sa.String(64)),
        sa.Column("response_status", sa.Integer()),
        sa.Column("response_body", sa.JSON()),
        sa.Column("owner", sa.String(32)),
        sa.Column("running_until", INSTANT),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_expires_at", "idempotency_keys", ["expires_at"])
    received = sa.table("deliveries", sa.column("guid"), sa.column("event"), sa.column("received_at"))
    expires = "received_at + INTERVAL '72 hours'"
    if op.get_bind().dialect.name == "sqlite":
        expires = "datetime(received_at, '+72 hours')"
    columns = ["scope", "key", "endpoint", "response_status", "created_at", "expires_at"]
    old = sa.select(
        sa.literal("webhook"),
        *(received.c[name] for name in ("guid", "event")),
        sa.literal(202),
        received.c.received_at,
        sa.text(expires),
    )
    keys = sa.table("idempotency_keys", *map(sa.column, columns))
    op.execute(sa.insert(keys).from_select(columns, old))
    op.drop_table("deliveries")


def _tokens_and_processes() -> None:
    op.create_table(
        "api_tokens",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("login", sa.String(255)),
        sa.Column("operator", sa.Boolean(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("last_used_at", INSTANT),
        sa.PrimaryKeyConstraint("id", name="pk_api_tokens"),
        sa.UniqueConstraint("name", name="uq_api_tokens_name"),
        sa.UniqueConstraint("token_hash", name="uq_api_tokens_token_hash"),
    )
    op.create_table(
        "processes",
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("seen_at", INSTANT, nullable=False),
        sa.Column("status", sa.JSON(), nullable=False),
        sa.Column("metrics", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_processes"),
    )
