"""The tables of the queue. What the database can refuse by itself, it refuses."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from queue_engine.core.database import Counter, UtcDateTime, metadata
from queue_engine.core.horizon import Ahead, ahead

repositories = Table(
    "repositories",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("owner", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("installation_id", BigInteger, nullable=False),
    Column("generation", Integer, nullable=False, server_default=text("0")),
)
"""`generation` counts the changes of configuration and rules: what was read under an older one is read anew.

Where names and installations change in one place for everything that refers to a repository."""

queues = Table(
    "queues",
    metadata,
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("repository_id", ForeignKey(repositories.c.id), nullable=False),
    Column("base_branch", String(255), nullable=False),
    Column("paused_reason", String(64)),
    Column("paused_detail", Text),
    Column("paused_since", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("paused_until", UtcDateTime),
    Column("paused_by", String(255)),
    Column("beneath", JSON),
    Column("told", Text),
    Column("red_check", String(255)),
    Column("red_app", BigInteger),
    Column("red_tip", String(64)),
    Column("red_since", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("red_looks", Integer, nullable=False, server_default=text("0")),
    Column("red_look_at", UtcDateTime, info=ahead(Ahead.WAIT)),
    Column("red_untested", Boolean, nullable=False, server_default=text("FALSE")),
    Column("red_rerun", String(64)),
    Column("stalled_since", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("stalled_head", String(64)),
    Column("stalled_checks", Text),
    Column("ci_seen_at", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("errors", Integer, nullable=False, server_default=text("0")),
    Column("errors_since", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("due_at", UtcDateTime, index=True, info=ahead(Ahead.WAIT)),
    Column("wakes", Integer, nullable=False),
    Column("lease_owner", String(255)),
    Column("leased_until", UtcDateTime, info=ahead(Ahead.LEASE)),
    Column("created_at", UtcDateTime, nullable=False, info=ahead(Ahead.PAST)),
    UniqueConstraint("repository_id", "base_branch"),
    CheckConstraint("(paused_reason IS NULL) = (paused_since IS NULL)", name="paused"),
    CheckConstraint("(lease_owner IS NULL) = (leased_until IS NULL)", name="lease"),
)

entries = Table(
    "entries",
    metadata,
    Column("seq", Counter, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("queue_id", ForeignKey(queues.c.id), nullable=False),
    Column("repository_id", ForeignKey(repositories.c.id), nullable=False),
    Column("number", Integer, nullable=False),
    Column("title", Text, nullable=False),
    Column("author", String(255), nullable=False),
    Column("queued_by", String(255), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("status", String(16), nullable=False),
    Column("queued_head", String(64), nullable=False),
    Column("head", String(64), nullable=False),
    Column("head_proved", Boolean, nullable=False),
    Column("updated_from", String(64)),
    Column("candidate_head", String(64)),
    Column("candidate_is_ours", Boolean, nullable=False),
    Column("known_behind", Boolean, nullable=False),
    Column("base_tip", String(64)),
    Column("tested_tree", String(64)),
    Column("awaited_checks", JSON, nullable=False),
    Column("reported_checks", JSON, nullable=False),
    Column("suspect", Boolean, nullable=False),
    Column("merge_requested_at", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("trouble", Integer, nullable=False),
    Column("trouble_since", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("refusals", Integer, nullable=False),
    Column("recheck", Integer, nullable=False),
    Column("recheck_at", UtcDateTime, info=ahead(Ahead.WAIT)),
    Column("enqueued_at", UtcDateTime, nullable=False, info=ahead(Ahead.PAST)),
    Column("started_at", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("status_since", UtcDateTime, nullable=False, info=ahead(Ahead.PAST)),
    Column("version", Integer, nullable=False),
    Column("trace", String(64)),
    Column("delivery", String(64)),
    Column("arrived", BigInteger, nullable=False, server_default=text("0")),
    Column("rank", BigInteger, nullable=False, server_default=text("0")),
    Column("first", Boolean, nullable=False, server_default=text("FALSE")),
    Column("interrupts", Boolean, nullable=False, server_default=text("FALSE")),
    Column("fixes_base", Boolean, nullable=False, server_default=text("FALSE")),
    Column("freeze_exempt", Boolean, nullable=False, server_default=text("FALSE")),
    Column("reruns", Integer, nullable=False, server_default=text("0")),
    Column("rerun_checks", JSON, nullable=False, server_default=text("'[]'")),
    Column("rerun_at", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("check_seconds", Integer),
    Column("vouched", JSON, nullable=False, server_default=text("'[]'")),
    Column("refused_since", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("former_checks", JSON(none_as_null=True)),
    Column("started_checks", JSON, nullable=False, server_default=text("'[]'")),
    Column("checks_started_at", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("blocked_since", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("blocked_until", UtcDateTime, info=ahead(Ahead.WAIT)),
    Column("shared_head", String(255)),
    UniqueConstraint("repository_id", "number"),
    Index(None, "queue_id", "first", "rank", "seq"),
    CheckConstraint("status IN ('pending', 'updating', 'checking', 'ready')", name="waiting"),
    # A sequence number is never given twice: order is told by it, and a removed entry's number may stand in a log.
    sqlite_autoincrement=True,
)

timeline = Table(
    "timeline",
    metadata,
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("at", UtcDateTime, nullable=False),
    Column("event", String(64), nullable=False),
    Column("repository_id", BigInteger, nullable=False),
    Column("base_branch", String(255), nullable=False),
    Column("number", Integer, nullable=False),
    Column("entry_id", String(32)),
    Column("reason", String(64)),
    Column("delivery", String(64)),
    Column("data", JSON(none_as_null=True)),
    Index(None, "repository_id", "number", "id"),
    Index(None, "repository_id", "base_branch", "event", "id"),
    sqlite_autoincrement=True,
)
"""Events with durations carry them in `data`, in seconds: `ready` `checks`; `landed` `queue`, `front` and `checks`.
`ready` also tells when the last check ended, as `ended`."""

answers = Table(
    "answers",
    metadata,
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("comment_id", BigInteger, primary_key=True, autoincrement=False),
    Column("by", String(255), nullable=False),
    Column("replies", JSON, nullable=False),
    Column("at", UtcDateTime, nullable=False, info=ahead(Ahead.PAST)),
)
"""What became of the commands in each comment: none is carried out twice, and IMQ's own comment shows the newest."""

outbox = Table(
    "outbox",
    metadata,
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("kind", String(16), nullable=False),
    Column("repository_id", ForeignKey(repositories.c.id), nullable=False),
    Column("number", Integer, nullable=False),
    Column("notice", JSON(none_as_null=True)),
    Column("label", String(255)),
    Column("remote_id", BigInteger),
    Column("remote_head", String(64)),
    Column("unsure", Boolean, nullable=False),
    Column("announced_at", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("superseded_id", BigInteger),
    Column("version", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", UtcDateTime, index=True, info=ahead(Ahead.WAIT)),
    Column("lease_owner", String(255)),
    Column("leased_until", UtcDateTime, info=ahead(Ahead.LEASE)),
    Column("error", Text),
    Column("dead", Boolean, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False, info=ahead(Ahead.PAST)),
    Column("trace", String(64)),
    UniqueConstraint("kind", "repository_id", "number"),
    CheckConstraint("kind IN ('comment', 'check_run', 'label_off')", name="kind"),
    CheckConstraint("(lease_owner IS NULL) = (leased_until IS NULL)", name="lease"),
)

refusals = Table(
    "refusals",
    metadata,
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("head_sha", String(64), nullable=False),
    Column("reason", String(64), nullable=False),
    Column("at", UtcDateTime, nullable=False, info=ahead(Ahead.PAST)),
)

throttles = Table(
    "throttles",
    metadata,
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("login", String(255), primary_key=True),
    Column("times", Integer, nullable=False),
    Column("at", UtcDateTime, nullable=False, info=ahead(Ahead.PAST)),
)
"""People who asked for something without the right to it, by folded login: how often in a row, and when last."""

pace_reservations = Table(
    "pace_reservations",
    metadata,
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("installation_id", BigInteger, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("at", UtcDateTime, nullable=False, info=ahead(Ahead.PAST)),
    Column("amount", Integer, nullable=False),
    Column("owner", String(255), nullable=False),
    Index("ix_pace_reservations_installation_id_at", "installation_id", "at"),
)

pace_pauses = Table(
    "pace_pauses",
    metadata,
    Column("installation_id", BigInteger, primary_key=True, autoincrement=False),
    Column("until", UtcDateTime, nullable=False, info=ahead(Ahead.WAIT)),
)

sweeps = Table(
    "sweeps",
    metadata,
    Column("part", String(64), primary_key=True),
    Column("at", UtcDateTime, nullable=False, info=ahead(Ahead.PAST)),
)
"""Up to which instant each part of the sweep has found everything."""

held = Table(
    "held",
    metadata,
    Column("seq", Counter, primary_key=True, autoincrement=True),
    Column("queue_id", ForeignKey(queues.c.id), nullable=False),
    Column("repository_id", ForeignKey(repositories.c.id), nullable=False),
    Column("number", Integer, nullable=False),
    Column("head_sha", String(64), nullable=False),
    Column("queued_by", String(255), nullable=False),
    Column("at", UtcDateTime, nullable=False, info=ahead(Ahead.PAST)),
    Column("trace", String(64)),
    Column("delivery", String(64)),
    Column("vouched", JSON, nullable=False, server_default=text("'[]'")),
    Column("priority", Integer),
    UniqueConstraint("repository_id", "number"),
    Index(None, "queue_id", "seq"),
    sqlite_autoincrement=True,
)

api_tokens = Table(
    "api_tokens",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("token_hash", String(64), nullable=False, unique=True),
    Column("login", String(255)),
    Column("person_id", BigInteger),
    Column("operator", Boolean, nullable=False),
    Column("access", String(16), nullable=False, server_default=text("'maintain'")),
    Column("installation_id", BigInteger),
    Column("repositories", JSON(none_as_null=True)),
    Column("created_at", UtcDateTime, nullable=False, info=ahead(Ahead.PAST)),
    Column("last_used_at", UtcDateTime, info=ahead(Ahead.PAST)),
    Column("expires_at", UtcDateTime),
)
"""Who may use the API: for which person or operator, where, what at most, and until when; see `store.tokens.Grant`."""

known_facts = Table(
    "known_facts",
    metadata,
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("repository_id", BigInteger, nullable=False),
    Column("subject", String(300), nullable=False),
    Column("told", JSON, nullable=False),
    Column("at", UtcDateTime, nullable=False, index=True, info=ahead(Ahead.PAST)),
    Index(None, "repository_id", "subject", "id"),
)
"""What webhooks and answers to writes told lately: reads are compared with it."""

processes = Table(
    "processes",
    metadata,
    Column("owner", String(255), primary_key=True),
    Column("seen_at", UtcDateTime, nullable=False, info=ahead(Ahead.PAST)),
    Column("status", JSON, nullable=False),
    Column("metrics", Text, nullable=False),
)
"""What each running process last told of itself, so that any process can answer for all."""
