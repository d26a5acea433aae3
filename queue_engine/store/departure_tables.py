"""The tables of departures, of their sums, and of merges that outlive their entries."""

from sqlalchemy import JSON, BigInteger, Boolean, Column, Double, ForeignKey, Index, Integer, String, Table, Text, text

from queue_engine.core.database.database import DatabaseInstant, metadata
from queue_engine.core.database.instants import InstantKind, instant
from queue_engine.domain.departure import WaitKind

departures = Table(
    "departures",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("entry_id", String(32), nullable=False),
    Column("repository_id", BigInteger, nullable=False),
    Column("base_branch", String(255), nullable=False),
    Column("number", Integer, nullable=False),
    Column("title", Text),
    Column("author", String(255)),
    Column("enqueued_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("left_at", DatabaseInstant, nullable=False, index=True, info=instant(InstantKind.PAST)),
    Column("outcome", String(16), nullable=False),
    Column("reason", String(64)),
    *(Column(name, Double, nullable=False) for name in ("waited", *WaitKind)),
    Column("ci_seconds", Double),
    Column("reruns", Integer, nullable=False),
    Column("flaky", JSON(none_as_null=True)),
    Column("is_last", Boolean, nullable=False),
    Column("day", Integer, nullable=False),
    Index(None, "repository_id", "number"),
    Index(None, "repository_id", "base_branch", "day"),
    # The last departures of a queue.
    Index(None, "repository_id", "base_branch", "left_at"),
    # Statistics of all queues read these in order, without a sort and mostly without the rows.
    Index("ix_departures_days", "outcome", "day", "repository_id", "base_branch"),
    Index("ix_departures_waits", "outcome", "waited", "day", "repository_id", "base_branch"),
    # Both are partial on PostgreSQL as well, by their revision. Naming its dialect here would load it on SQLite: 3 MB.
    Index(
        "ix_departures_reasons",
        *("outcome", "reason", "day", "repository_id", "base_branch", "is_last"),
        sqlite_where=text("is_last"),
    ),
    Index(
        "ix_departures_flaky",
        *("day", "repository_id", "base_branch"),
        sqlite_where=text("flaky IS NOT NULL"),
    ),
)
"""One row for each entry that left its queue, by the number of its event in the timeline. `is_last` is set for the last
departure of each pull request from each queue; `day` counts the days since 1970 in UTC."""

departure_days = Table(
    "departure_days",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("base_branch", String(255), primary_key=True),
    Column("outcome", String(16), primary_key=True),
    Column("reason", String(64), primary_key=True, server_default=""),
    *(Column(name, Integer, nullable=False) for name in ("departures", "pulls")),
    *(Column(name, Double, nullable=False) for name in ("waited", *WaitKind)),
    Column("ci_seconds", Double, nullable=False),
    *(Column(name, Integer, nullable=False) for name in ("ci_known", "reruns")),
    Index(None, "repository_id", "base_branch", "day"),
)
"""The sums of the departures of each queue, day, outcome and reason (empty: none), kept with each departure: a page
adds up a year of these, and no year of departures. `pulls` counts the last departures of pull requests, and `ci_known`
the departures with `ci_seconds`."""

flaky_days = Table(
    "flaky_days",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("base_branch", String(255), primary_key=True),
    Column("kind", String(8), primary_key=True),
    Column("name", Text, primary_key=True),
    *(Column(name, Integer, nullable=False) for name in ("pulls", "reruns")),
    Column("ci_seconds", Double, nullable=False),
    Column("ci_known", Integer, nullable=False),
    Column("waited", Double, nullable=False),
    Index(None, "repository_id", "base_branch", "day"),
)
"""The sums of the flaky checks and jobs of each queue and day, by `kind` (`check`, `job`) and name, kept with each
departure: a page parses no JSON of a year. `pulls` counts departures, and `ci_known` the checks with `ci_seconds`."""

request_days = Table(
    "request_days",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("requests", BigInteger, nullable=False),
)
"""How many requests IMQ sent to GitHub for a repository on a day. They are not counted for each queue: reads of rules,
labels and people serve several."""

pending_merges = Table(
    "pending_merges",
    metadata,
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("queue_id", ForeignKey("queues.id"), nullable=False),
    Column("entry_id", String(32), nullable=False),
    Column("title", Text, nullable=False),
    Column("author", String(255), nullable=False),
    Column("queued_by", String(255), nullable=False),
    Column("queued_head", String(64), nullable=False),
    Column("head", String(64), nullable=False),
    Column("own_check_required", Boolean, nullable=False),
    Column("base_tip", String(64)),
    Column("tested_tree", String(64)),
    Column("merge_uuid", String(64)),
    Column("started_at", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("enqueued_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("left_at", DatabaseInstant, nullable=False, index=True, info=instant(InstantKind.PAST)),
)
"""Merges that IMQ requested, and that GitHub may finish although their entries have left; with what was tested."""
