"""Every table of the first release, written out: the tables of the code change after it."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_INSTANT = sa.DateTime(timezone=True)
_JSON = sa.JSON(none_as_null=True)

_BUSY = ("jobs", "idempotency_keys", "outbox", "processes")
"""Tables through which much passes, and in which little stays.

By its defaults PostgreSQL vacuums a table when a fifth of it is dead rows, slowly and in small steps. All rows of a
table of jobs are dead soon, so its size would follow the largest crowd that ever was.
"""
_OFTEN = (
    "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,"
    " autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000,"
    " autovacuum_vacuum_cost_delay = 0"
)


def upgrade() -> None:
    """Create the tables. PostgreSQL vacuums the busy ones after a thousand dead rows, without pauses."""
    _queues()
    _departures()
    _jobs()
    _operation()
    if op.get_bind().dialect.name == "postgresql":
        for table in _BUSY:
            op.execute(f"ALTER TABLE {table} SET ({_OFTEN})")


def _queues() -> None:
    """Queues, their entries and runs, the outbox and the timeline."""
    op.create_table(
        "answers",
        sa.Column("repository_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("comment_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("replies", sa.JSON(), nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
    )
    op.create_table(
        "rejections",
        sa.Column("repository_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("head_sha", sa.String(64), nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
    )
    op.create_table(
        "repositories",
        sa.Column("id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("mode", sa.String(16)),
    )
    op.create_table(
        "timeline",
        sa.Column("id", _COUNTER, primary_key=True, autoincrement=True),
        sa.Column("at", _INSTANT, nullable=False, index=True),
        sa.Column("event", sa.String(64), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("base_branch", sa.String(255), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("entry_id", sa.String(32)),
        sa.Column("reason", sa.String(64)),
        sa.Column("delivery", sa.String(64)),
        sa.Column("data", _JSON),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_timeline_repository_id_base_branch_event_id", "timeline", ["repository_id", "base_branch", "event", "id"]
    )
    op.create_index("ix_timeline_repository_id_number_id", "timeline", ["repository_id", "number", "id"])
    op.create_table(
        "outbox",
        sa.Column("id", _COUNTER, primary_key=True, autoincrement=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), sa.ForeignKey("repositories.id"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("notice", _JSON),
        sa.Column("label", sa.String(255), nullable=False, server_default=sa.text("''")),
        sa.Column("label_on", sa.Boolean()),
        sa.Column("remote_id", sa.BigInteger()),
        sa.Column("remote_head", sa.String(64)),
        sa.Column("maybe_created", sa.Boolean(), nullable=False),
        sa.Column("announced_at", _INSTANT),
        sa.Column("superseded_id", sa.BigInteger()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", _INSTANT, index=True),
        sa.Column("lease_owner", sa.String(255)),
        sa.Column("leased_until", _INSTANT),
        sa.Column("error", sa.Text()),
        sa.Column("dead", sa.Boolean(), nullable=False),
        sa.Column("updated_at", _INSTANT, nullable=False),
        sa.Column("trace", sa.String(64)),
        sa.Column("held_since", _INSTANT),
        sa.Column("written", _JSON),
        sa.CheckConstraint("kind IN ('comment', 'check_run', 'label')", name="kind"),
        sa.CheckConstraint("(lease_owner IS NULL) = (leased_until IS NULL)", name="lease"),
        sa.UniqueConstraint("kind", "repository_id", "number", "label"),
    )
    op.create_table(
        "queues",
        sa.Column("id", _COUNTER, primary_key=True, autoincrement=True),
        sa.Column("repository_id", sa.BigInteger(), sa.ForeignKey("repositories.id"), nullable=False),
        sa.Column("base_branch", sa.String(255), nullable=False),
        sa.Column("invariant_broken", _JSON),
        sa.Column("tree_mismatch", _JSON),
        sa.Column("paused_by_hand", _JSON),
        sa.Column("frozen", _JSON),
        sa.Column("github_refuses", _JSON),
        sa.Column("announced", sa.Text()),
        sa.Column("red_check", sa.String(255)),
        sa.Column("red_app_id", sa.BigInteger()),
        sa.Column("red_tip", sa.String(64)),
        sa.Column("red_since", _INSTANT),
        sa.Column("red_polls", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("red_next_poll_at", _INSTANT),
        sa.Column("red_untested", sa.Boolean(), nullable=False, server_default=sa.text("FALSE")),
        sa.Column("red_rerun", sa.String(64)),
        sa.Column("red_failing", sa.Text()),
        sa.Column("stalled_since", _INSTANT),
        sa.Column("stalled_head", sa.String(64)),
        sa.Column("stalled_checks", sa.Text()),
        sa.Column("ci_active_at", _INSTANT),
        sa.Column("in_trains", sa.Boolean(), nullable=False, server_default=sa.text("FALSE")),
        sa.Column("label_updates", sa.Boolean(), nullable=False, server_default=sa.text("FALSE")),
        sa.Column("green_tip", sa.String(64)),
        sa.Column("errors", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("errors_since", _INSTANT),
        sa.Column("due_at", _INSTANT, index=True),
        sa.Column("wake_count", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(255)),
        sa.Column("leased_until", _INSTANT),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.CheckConstraint("(lease_owner IS NULL) = (leased_until IS NULL)", name="lease"),
        sa.UniqueConstraint("repository_id", "base_branch"),
    )
    op.create_table(
        "requests",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("repository_id", sa.BigInteger(), sa.ForeignKey("repositories.id"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("asked", sa.String(255), nullable=False),
        sa.Column("asked_by", sa.String(255)),
        sa.Column("process_id", sa.String(255), index=True),
        sa.Column("asked_at", _INSTANT, nullable=False),
    )
    op.create_index("ix_requests_asked_at_id", "requests", ["asked_at", "id"])
    op.create_index("ix_requests_repository_id_asked_at_id", "requests", ["repository_id", "asked_at", "id"])
    op.create_table(
        "consents",
        sa.Column("id", _COUNTER, primary_key=True, autoincrement=True),
        sa.Column("entry_id", sa.String(32), nullable=False, index=True),
        sa.Column("repository_id", sa.BigInteger(), sa.ForeignKey("repositories.id"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("base_branch", sa.String(255), nullable=False),
        sa.Column("head_sha", sa.String(64), nullable=False),
        sa.Column("by", sa.String(255)),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
    )
    op.create_table(
        "landings",
        sa.Column("id", _COUNTER, primary_key=True, autoincrement=True),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("base_branch", sa.String(255), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("sha", sa.String(64), nullable=False),
        sa.Column("tree", sa.String(64), nullable=False),
        sa.Column("at", _INSTANT, nullable=False, index=True),
        sa.Column("result", sa.String(16), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("key_id", sa.String(64)),
        sa.Column("signatures", _JSON),
        sa.CheckConstraint("result IN ('equal', 'exempt', 'mismatch', 'unproved')", name="result"),
    )
    for columns in (("repository_id", "sha"), ("repository_id", "tree"), ("repository_id", "number")):
        op.create_index(f"ix_landings_{'_'.join(columns)}", "landings", columns)
    op.create_table(
        "culprits",
        sa.Column("id", _COUNTER, primary_key=True, autoincrement=True),
        sa.Column("queue_id", _COUNTER, sa.ForeignKey("queues.id"), nullable=False, index=True),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("commit", sa.String(64), index=True),
        sa.Column("search", _JSON, nullable=False),
    )
    op.create_table(
        "landing_keys",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("public", sa.String(64), nullable=False),
        sa.Column("sealed", sa.Text()),
        sa.Column("since", _INSTANT, nullable=False),
        sa.Column("until", _INSTANT),
    )
    op.create_table(
        "proof_marks",
        sa.Column(
            "repository_id", sa.BigInteger(), sa.ForeignKey("repositories.id"), primary_key=True, autoincrement=False
        ),
        sa.Column("tree", sa.String(64), primary_key=True),
        sa.Column("mark", sa.String(64), primary_key=True),
        sa.Column("ref", sa.String(255), nullable=False),
        sa.Column("object", sa.String(64), nullable=False),
        sa.Column("answered", sa.Boolean(), nullable=False),
        sa.Column("expires_at", _INSTANT, nullable=False, index=True),
    )
    op.create_table(
        "landing_notes",
        sa.Column(
            "repository_id", sa.BigInteger(), sa.ForeignKey("repositories.id"), primary_key=True, autoincrement=False
        ),
        sa.Column("landing_id", sa.BigInteger(), nullable=False),
        sa.Column("tip", sa.String(64)),
        sa.Column("tree", sa.String(64)),
    )
    op.create_table(
        "shadow_pulls",
        sa.Column(
            "repository_id", sa.BigInteger(), sa.ForeignKey("repositories.id"), primary_key=True, autoincrement=False
        ),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("base_branch", sa.String(255), nullable=False),
        sa.Column("head_sha", sa.String(64), nullable=False),
        sa.Column("merge_sha", sa.String(64)),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("due_at", _INSTANT),
        sa.Column("changed_at", _INSTANT, nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
    )
    op.create_index("ix_shadow_pulls_repository_id_head_sha", "shadow_pulls", ["repository_id", "head_sha"])
    op.create_index("ix_shadow_pulls_repository_id_merge_sha", "shadow_pulls", ["repository_id", "merge_sha"])
    op.create_table(
        "runs",
        sa.Column("id", _COUNTER, primary_key=True, autoincrement=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("started_at", _INSTANT),
        sa.Column("base_tip", sa.String(64)),
        sa.Column("candidate", sa.String(64), index=True),
        sa.Column("tested_tree", sa.String(64)),
        sa.Column("new_head", sa.String(64)),
        sa.Column("new_head_is_ours", sa.Boolean(), nullable=False),
        sa.Column("pending_checks", sa.JSON(), nullable=False),
        sa.Column("completed_checks", sa.JSON(), nullable=False),
        sa.Column("started_checks", sa.JSON(), nullable=False),
        sa.Column("timings", sa.JSON(), nullable=False, server_default=sa.text("'[]'")),
        sa.Column("checks_since", _INSTANT),
        sa.Column("checks_started_at", _INSTANT),
        sa.Column("former_checks", _JSON),
        sa.Column("check_limits", _JSON),
        sa.Column("job_prices", _JSON),
        sa.Column("reruns", sa.Integer(), nullable=False),
        sa.Column("rerun_checks", sa.JSON(), nullable=False),
        sa.Column("rerun_at", _INSTANT),
        sa.Column("polls", sa.Integer(), nullable=False),
        sa.Column("next_poll_at", _INSTANT),
        sa.Column("merge_refusals", sa.Integer(), nullable=False),
        sa.Column("refused_since", _INSTANT),
        sa.Column("github_failures", sa.Integer(), nullable=False),
        sa.Column("github_failing_since", _INSTANT),
        sa.Column("merges_onto", sa.String(64)),
        sa.Column("queue_id", _COUNTER, sa.ForeignKey("queues.id"), index=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("trigger", sa.String(16)),
        sa.Column("members", _JSON),
        sa.Column("tested", _JSON),
        sa.Column("published_at", _INSTANT),
        sa.Column("pull_request", sa.Integer()),
        sa.Column("proof", _JSON),
        sa.CheckConstraint("state IN ('building', 'testing', 'passed', 'landing', 'ended')", name="state"),
        sa.CheckConstraint("(queue_id IS NULL) = (trigger IS NULL)", name="branch"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "entries",
        sa.Column("seq", _COUNTER, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
        sa.Column("queue_id", _COUNTER, sa.ForeignKey("queues.id"), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), sa.ForeignKey("repositories.id"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("queued_by", sa.String(255), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("queued_head", sa.String(64), nullable=False),
        sa.Column("head_sha", sa.String(64), nullable=False),
        sa.Column("head_proved", sa.Boolean(), nullable=False),
        sa.Column("updated_from", sa.String(64)),
        sa.Column("newer_tip", sa.String(64)),
        sa.Column("needs_refetch", sa.Boolean(), nullable=False),
        sa.Column("enqueued_at", _INSTANT, nullable=False),
        sa.Column("status_since", _INSTANT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("trace", sa.String(64)),
        sa.Column("delivery", sa.String(64)),
        sa.Column("arrived", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("rank", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("hotfix", sa.Boolean(), nullable=False, server_default=sa.text("FALSE")),
        sa.Column("preempts", sa.Boolean(), nullable=False, server_default=sa.text("FALSE")),
        sa.Column("fixes_base", sa.Boolean(), nullable=False, server_default=sa.text("FALSE")),
        sa.Column("freeze_exempt", sa.Boolean(), nullable=False, server_default=sa.text("FALSE")),
        sa.Column("trusted_labels", sa.JSON(), nullable=False, server_default=sa.text("'[]'")),
        sa.Column("blocked_since", _INSTANT),
        sa.Column("blocked_until", _INSTANT),
        sa.Column("blocked_for", sa.Text()),
        sa.Column("shared_head", sa.String(255)),
        sa.Column("held_since", _INSTANT),
        sa.Column("run_id", _COUNTER, sa.ForeignKey("runs.id"), index=True),
        sa.Column("share_delay", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("own_check_required", sa.Boolean(), nullable=False, server_default=sa.text("FALSE")),
        sa.Column("head_branch", sa.Text()),
        sa.Column("unmet", _JSON),
        sa.Column("depends_on", _JSON),
        sa.Column("read_at", _INSTANT),
        sa.Column("queued_by_id", sa.BigInteger()),
        sa.Column("polls", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("next_poll_at", _INSTANT),
        sa.Column("merge_requested_at", _INSTANT),
        sa.Column("merge_uuid", sa.String(64)),
        sa.Column("merge_refusals", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("refused_since", _INSTANT),
        sa.Column("github_failures", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("github_failing_since", _INSTANT),
        sa.UniqueConstraint("repository_id", "number"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_entries_queue_id_hotfix_rank_seq", "entries", ["queue_id", "hotfix", "rank", "seq"])
    op.create_table(
        "trains",
        sa.Column("queue_id", _COUNTER, sa.ForeignKey("queues.id"), primary_key=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("memory", sa.JSON(), nullable=False),
    )


def _departures() -> None:
    """Departures, and what their statistics are read from."""
    op.create_table(
        "departure_days",
        sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("repository_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("base_branch", sa.String(255), primary_key=True),
        sa.Column("outcome", sa.String(16), primary_key=True),
        sa.Column("reason", sa.String(64), primary_key=True, server_default=""),
        sa.Column("departures", sa.Integer(), nullable=False),
        sa.Column("pulls", sa.Integer(), nullable=False),
        sa.Column("waited", sa.Double(), nullable=False),
        sa.Column("capacity", sa.Double(), nullable=False),
        sa.Column("checks", sa.Double(), nullable=False),
        sa.Column("paused", sa.Double(), nullable=False),
        sa.Column("base_red", sa.Double(), nullable=False),
        sa.Column("other", sa.Double(), nullable=False),
        sa.Column("ci_seconds", sa.Double(), nullable=False),
        sa.Column("ci_known", sa.Integer(), nullable=False),
        sa.Column("reruns", sa.Integer(), nullable=False),
        sa.Column("ci_minutes", sa.Double(), nullable=False),
        sa.Column("rerun_minutes", sa.Double(), nullable=False),
        sa.Column("reset_minutes", sa.Double(), nullable=False),
        sa.Column("spared_minutes", sa.Double(), nullable=False),
        sa.Column("ci_cost", sa.Double(), nullable=False),
        sa.Column("rerun_cost", sa.Double(), nullable=False),
        sa.Column("reset_cost", sa.Double(), nullable=False),
        sa.Column("spared_cost", sa.Double(), nullable=False),
        sa.Column("priced", sa.Double(), nullable=False),
    )
    op.create_index(
        "ix_departure_days_repository_id_base_branch_day", "departure_days", ["repository_id", "base_branch", "day"]
    )
    op.create_table(
        "departures",
        sa.Column("id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("entry_id", sa.String(32), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("base_branch", sa.String(255), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text()),
        sa.Column("author", sa.String(255)),
        sa.Column("enqueued_at", _INSTANT, nullable=False),
        sa.Column("left_at", _INSTANT, nullable=False, index=True),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(64)),
        sa.Column("waited", sa.Double(), nullable=False),
        sa.Column("capacity", sa.Double(), nullable=False),
        sa.Column("checks", sa.Double(), nullable=False),
        sa.Column("paused", sa.Double(), nullable=False),
        sa.Column("base_red", sa.Double(), nullable=False),
        sa.Column("other", sa.Double(), nullable=False),
        sa.Column("ci_seconds", sa.Double()),
        sa.Column("reruns", sa.Integer(), nullable=False),
        sa.Column("ci_minutes", sa.Double(), nullable=False),
        sa.Column("rerun_minutes", sa.Double(), nullable=False),
        sa.Column("reset_minutes", sa.Double(), nullable=False),
        sa.Column("spared_minutes", sa.Double(), nullable=False),
        sa.Column("ci_cost", sa.Double(), nullable=False),
        sa.Column("rerun_cost", sa.Double(), nullable=False),
        sa.Column("reset_cost", sa.Double(), nullable=False),
        sa.Column("spared_cost", sa.Double(), nullable=False),
        sa.Column("priced", sa.Double(), nullable=False),
        sa.Column("flaky", _JSON),
        sa.Column("is_last", sa.Boolean(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
    )
    op.create_index("ix_departures_days", "departures", ["outcome", "day", "repository_id", "base_branch"])
    op.create_index(
        "ix_departures_flaky",
        "departures",
        ["day", "repository_id", "base_branch"],
        sqlite_where=sa.text("flaky IS NOT NULL"),
        postgresql_where=sa.text("flaky IS NOT NULL"),
    )
    op.create_index(
        "ix_departures_reasons",
        "departures",
        ["outcome", "reason", "day", "repository_id", "base_branch", "is_last"],
        sqlite_where=sa.text("is_last"),
        postgresql_where=sa.text("is_last"),
    )
    op.create_index(
        "ix_departures_repository_id_base_branch_day", "departures", ["repository_id", "base_branch", "day"]
    )
    op.create_index(
        "ix_departures_repository_id_base_branch_left_at", "departures", ["repository_id", "base_branch", "left_at"]
    )
    op.create_index("ix_departures_repository_id_number", "departures", ["repository_id", "number"])
    op.create_index("ix_departures_waits", "departures", ["outcome", "waited", "day", "repository_id", "base_branch"])
    op.create_table(
        "flaky_days",
        sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("repository_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("base_branch", sa.String(255), primary_key=True),
        sa.Column("kind", sa.String(8), primary_key=True),
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("pulls", sa.Integer(), nullable=False),
        sa.Column("reruns", sa.Integer(), nullable=False),
        sa.Column("ci_seconds", sa.Double(), nullable=False),
        sa.Column("ci_known", sa.Integer(), nullable=False),
        sa.Column("waited", sa.Double(), nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("ci_minutes", sa.Double(), nullable=False),
        sa.Column("ci_cost", sa.Double(), nullable=False),
        sa.Column("priced", sa.Double(), nullable=False),
    )
    op.create_index(
        "ix_flaky_days_repository_id_base_branch_day", "flaky_days", ["repository_id", "base_branch", "day"]
    )
    op.create_table(
        "request_days",
        sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("repository_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "pending_merges",
        sa.Column("repository_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("queue_id", _COUNTER, sa.ForeignKey("queues.id"), nullable=False),
        sa.Column("entry_id", sa.String(32), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("queued_by", sa.String(255), nullable=False),
        sa.Column("queued_head", sa.String(64), nullable=False),
        sa.Column("head_sha", sa.String(64), nullable=False),
        sa.Column("own_check_required", sa.Boolean(), nullable=False),
        sa.Column("base_tip", sa.String(64)),
        sa.Column("tested_tree", sa.String(64)),
        sa.Column("merge_uuid", sa.String(64)),
        sa.Column("proof", _JSON),
        sa.Column("started_at", _INSTANT),
        sa.Column("enqueued_at", _INSTANT, nullable=False),
        sa.Column("left_at", _INSTANT, nullable=False, index=True),
    )


def _jobs() -> None:
    """Jobs, dead letters, and keys of what was done once."""
    op.create_table(
        "failed_jobs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("process_id", sa.String(255), nullable=False),
        sa.Column("job_type", sa.String(64), nullable=False),
        sa.Column("error_message", sa.Text(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("failed_at", _INSTANT, nullable=False, index=True),
        sa.Column("retryable", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("trace", sa.String(64)),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("scope", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("endpoint", sa.String(255), nullable=False),
        sa.Column("request_hash", sa.String(64)),
        sa.Column("response_status", sa.Integer()),
        sa.Column("response_body", _JSON),
        sa.Column("owner", sa.String(32)),
        sa.Column("running_until", _INSTANT),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("expires_at", _INSTANT, nullable=False, index=True),
    )
    op.create_table(
        "jobs",
        sa.Column("seq", _COUNTER, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
        sa.Column("process_id", sa.String(255), nullable=False, index=True),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("request_json", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("response_json", _JSON),
        sa.Column("error_message", sa.Text()),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("deaths", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("not_before", _INSTANT, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("updated_at", _INSTANT, nullable=False),
        sa.Column("owner", sa.String(255)),
        sa.Column("leased_until", _INSTANT),
        sa.Column("claims", sa.Integer(), nullable=False),
        sa.Column("holds", _JSON),
        sa.Column("trace", sa.String(64)),
        sa.CheckConstraint("status IN ('PENDING', 'IN_PROGRESS', 'COMPLETED', 'FAILED')", name="status"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_jobs_status_priority_seq", "jobs", ["status", sa.text("priority DESC"), "seq"])
    op.create_index(
        "ix_jobs_failed",
        "jobs",
        ["process_id"],
        sqlite_where=sa.text("error_message IS NOT NULL"),
        postgresql_where=sa.text("error_message IS NOT NULL"),
    )


def _operation() -> None:
    """What the operation of IMQ needs beside the queues."""
    op.create_table(
        "api_tokens",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(100), nullable=False, unique=True),
        sa.Column("token_hash", sa.String(64), nullable=False, unique=True),
        sa.Column("login", sa.String(255)),
        sa.Column("person_id", sa.BigInteger()),
        sa.Column("operator", sa.Boolean(), nullable=False),
        sa.Column("access", sa.String(16), nullable=False, server_default=sa.text("'maintain'")),
        sa.Column("installation_id", sa.BigInteger()),
        sa.Column("repositories", _JSON),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("last_used_at", _INSTANT),
        sa.Column("expires_at", _INSTANT),
    )
    op.create_table(
        "app_registration",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("nonce", sa.String(64), nullable=False),
        sa.Column("state", sa.String(64)),
        sa.Column("sealed", sa.Text()),
    )
    op.create_table(
        "audit_log",
        sa.Column("id", _COUNTER, primary_key=True, autoincrement=True),
        sa.Column("at", _INSTANT, nullable=False, index=True),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("by", sa.String(255)),
        sa.Column("via", sa.String(16), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("repository_id", sa.BigInteger()),
        sa.Column("base_branch", sa.String(255)),
        sa.Column("data", _JSON),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "configuration_files",
        sa.Column("file", sa.String(400), primary_key=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text()),
        sa.Column("unreadable", sa.Text()),
        sa.Column("reviewed", sa.Boolean(), nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
    )
    op.create_table(
        "installation_tokens",
        sa.Column("installation_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("repository_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("purpose", sa.String(16), primary_key=True),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
    )
    op.create_table(
        "known_facts",
        sa.Column("id", _COUNTER, primary_key=True, autoincrement=True),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("subject", sa.String(300), nullable=False),
        sa.Column("statement", sa.JSON(), nullable=False),
        sa.Column("at", _INSTANT, nullable=False, index=True),
    )
    op.create_index("ix_known_facts_repository_id_subject_id", "known_facts", ["repository_id", "subject", "id"])
    op.create_table(
        "login_owners",
        sa.Column("login", sa.String(255), primary_key=True),
        sa.Column("person_id", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "pace_pauses",
        sa.Column("installation_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("until", _INSTANT, nullable=False),
    )
    op.create_table(
        "pace_reservations",
        sa.Column("id", _COUNTER, primary_key=True, autoincrement=True),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("amount", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
    )
    op.create_index("ix_pace_reservations_installation_id_at", "pace_reservations", ["installation_id", "at"])
    op.create_table(
        "processes",
        sa.Column("owner", sa.String(255), primary_key=True),
        sa.Column("seen_at", _INSTANT, nullable=False),
        sa.Column("status", sa.JSON(), nullable=False),
        sa.Column("metrics", sa.Text(), nullable=False),
    )
    op.create_table(
        "schema_compatibility",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("oldest", sa.String(32), nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("secret_hash", sa.String(64), nullable=False, unique=True),
        sa.Column("former_hash", sa.String(64), index=True),
        sa.Column("former_until", _INSTANT),
        sa.Column("person_id", sa.BigInteger(), nullable=False, index=True),
        sa.Column("login", sa.String(255), nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("used_at", _INSTANT, nullable=False),
        sa.Column("renewed_at", _INSTANT, nullable=False),
    )
    op.create_table(
        "sweeps",
        sa.Column("part", sa.String(64), primary_key=True),
        sa.Column("at", _INSTANT, nullable=False),
    )
    op.create_table(
        "throttles",
        sa.Column("repository_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("login", sa.String(255), primary_key=True),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
    )
