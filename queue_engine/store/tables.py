"""The tables of IMQ. The database refuses by itself what it can."""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    column,
    or_,
    table,
    text,
)
from sqlalchemy.schema import SchemaItem

from queue_engine.core.database.database import Counter, DatabaseInstant, metadata
from queue_engine.core.database.instants import InstantKind, instant
from queue_engine.domain.departure import FLAKY_JOB_SUMS, JOB_SUMS
from queue_engine.domain.model import PAUSES
from queue_engine.domain.reasons import WaitKind


def _table(name: str, *parts: SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *parts, **options)


repositories = _table(
    "repositories",
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("owner", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("installation_id", BigInteger, nullable=False),
    Column("generation", Integer, nullable=False, server_default=text("0")),
    Column("mode", String(16)),
)
"""Names and installations, stored once for all tables that refer to a repository.

`mode` is NULL until IMQ has read the configuration of the default branch.

`generation` counts the changes of configuration and rules: reads under an older one are repeated.
"""

queues = _table(
    "queues",
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("repository_id", ForeignKey(repositories.c.id), nullable=False),
    Column("base_branch", String(255), nullable=False),
    *(Column(reason.value, JSON(none_as_null=True)) for reason in PAUSES),
    Column("announced", Text),
    Column("red_check", String(255)),
    Column("red_app_id", BigInteger),
    Column("red_tip", String(64)),
    Column("red_since", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("red_polls", Integer, nullable=False, server_default=text("0")),
    Column("red_next_poll_at", DatabaseInstant, info=instant(InstantKind.WAIT)),
    Column("red_untested", Boolean, nullable=False, server_default=text("FALSE")),
    Column("red_rerun", String(64)),
    Column("red_failing", Text),
    Column("stalled_since", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("stalled_head", String(64)),
    Column("stalled_checks", Text),
    Column("ci_active_at", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("in_trains", Boolean, nullable=False, server_default=text("FALSE")),
    Column("label_updates", Boolean, nullable=False, server_default=text("FALSE")),
    Column("green_tip", String(64)),
    Column("errors", Integer, nullable=False, server_default=text("0")),
    Column("errors_since", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("due_at", DatabaseInstant, index=True, info=instant(InstantKind.WAIT)),
    Column("wake_count", Integer, nullable=False),
    Column("lease_owner", String(255)),
    Column("leased_until", DatabaseInstant, info=instant(InstantKind.LEASE)),
    Column("created_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    UniqueConstraint("repository_id", "base_branch"),
    CheckConstraint("(lease_owner IS NULL) = (leased_until IS NULL)", name="lease"),
)

PAUSED: ColumnElement[bool] = or_(*(queues.c[reason].is_not(None) for reason in PAUSES))

runs = _table(
    "runs",
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("version", Integer, nullable=False),
    Column("started_at", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("base_tip", String(64)),
    Column("candidate", String(64), index=True),
    Column("tested_tree", String(64)),
    Column("new_head", String(64)),
    Column("new_head_is_ours", Boolean, nullable=False),
    Column("pending_checks", JSON, nullable=False),
    Column("completed_checks", JSON, nullable=False),
    Column("started_checks", JSON, nullable=False),
    Column("timings", JSON, nullable=False, server_default=text("'[]'")),
    Column("checks_since", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("checks_started_at", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("former_checks", JSON(none_as_null=True)),
    Column("check_limits", JSON(none_as_null=True)),
    Column("job_prices", JSON(none_as_null=True)),
    Column("reruns", Integer, nullable=False),
    Column("rerun_checks", JSON, nullable=False),
    Column("rerun_at", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("polls", Integer, nullable=False),
    Column("next_poll_at", DatabaseInstant, info=instant(InstantKind.WAIT)),
    Column("merge_refusals", Integer, nullable=False),
    Column("refused_since", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("github_failures", Integer, nullable=False),
    Column("github_failing_since", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("merges_onto", String(64)),
    Column("queue_id", ForeignKey(queues.c.id), index=True),
    Column("state", String(16), nullable=False),
    Column("trigger", String(16)),
    Column("members", JSON(none_as_null=True)),
    Column("tested", JSON(none_as_null=True)),
    Column("published_at", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("pull_request", Integer),
    Column("proof", JSON(none_as_null=True)),
    CheckConstraint("state IN ('building', 'testing', 'passed', 'landing', 'ended')", name="state"),
    CheckConstraint("(queue_id IS NULL) = (trigger IS NULL)", name="branch"),
    # Never reuse an id: it names branches on GitHub.
    sqlite_autoincrement=True,
)
"""One attempt each to land entries, which name it. A run of one entry without a branch is deleted when that leaves.

A run with `queue_id` tests its members on a branch of IMQ's own, and is deleted when its branches are gone. What IMQ
asks for one member alone is in the row of the entry; of a run without a branch, it is there only."""

trains = _table(
    "trains",
    Column("queue_id", ForeignKey(queues.c.id), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("memory", JSON, nullable=False),
)
"""What plans for a queue remember, as `queue_engine.planner.trains.memory` writes it."""

_entries = _table(
    "entries",
    Column("seq", Counter, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("queue_id", ForeignKey(queues.c.id), nullable=False),
    Column("repository_id", ForeignKey(repositories.c.id), nullable=False),
    Column("number", Integer, nullable=False),
    Column("title", Text, nullable=False),
    Column("author", String(255), nullable=False),
    Column("queued_by", String(255), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("queued_head", String(64), nullable=False),
    Column("head_sha", String(64), nullable=False),
    Column("head_proved", Boolean, nullable=False),
    Column("updated_from", String(64)),
    Column("newer_tip", String(64)),
    Column("needs_refetch", Boolean, nullable=False),
    Column("enqueued_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("status_since", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("version", Integer, nullable=False),
    Column("trace", String(64)),
    Column("delivery", String(64)),
    Column("arrived", BigInteger, nullable=False, server_default=text("0")),
    Column("rank", BigInteger, nullable=False, server_default=text("0")),
    Column("hotfix", Boolean, nullable=False, server_default=text("FALSE")),
    Column("preempts", Boolean, nullable=False, server_default=text("FALSE")),
    Column("fixes_base", Boolean, nullable=False, server_default=text("FALSE")),
    Column("freeze_exempt", Boolean, nullable=False, server_default=text("FALSE")),
    Column("trusted_labels", JSON, nullable=False, server_default=text("'[]'")),
    Column("blocked_since", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("blocked_until", DatabaseInstant, info=instant(InstantKind.WAIT)),
    Column("blocked_for", Text),
    Column("shared_head", String(255)),
    Column("held_since", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("run_id", ForeignKey(runs.c.id), index=True),
    Column("share_delay", BigInteger, nullable=False, server_default=text("0")),
    Column("own_check_required", Boolean, nullable=False, server_default=text("FALSE")),
    Column("head_branch", Text),
    Column("unmet", JSON(none_as_null=True)),
    Column("depends_on", JSON(none_as_null=True)),
    Column("read_at", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("queued_by_id", BigInteger),
    Column("polls", Integer, nullable=False, server_default=text("0")),
    Column("next_poll_at", DatabaseInstant, info=instant(InstantKind.WAIT)),
    Column("merge_requested_at", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("merge_uuid", String(64)),
    Column("merge_refusals", Integer, nullable=False, server_default=text("0")),
    Column("refused_since", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("github_failures", Integer, nullable=False, server_default=text("0")),
    Column("github_failing_since", DatabaseInstant, info=instant(InstantKind.PAST)),
    UniqueConstraint("repository_id", "number"),
    Index(None, "queue_id", "hotfix", "rank", "seq"),
    # Never reuse a sequence number: it decides the order, and a log may have that of a removed entry.
    sqlite_autoincrement=True,
)

entries = table(_entries.name, *(column(each.name, each.type) for each in _entries.c))
"""The entries for statements. Each subquery copies all columns, and those of a `Table` take three times the memory."""

consents = _table(
    "consents",
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("entry_id", String(32), nullable=False, index=True),
    Column("repository_id", ForeignKey(repositories.c.id), nullable=False),
    Column("number", Integer, nullable=False),
    Column("base_branch", String(255), nullable=False),
    Column("head_sha", String(64), nullable=False),
    Column("by", String(255)),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("source", String(16), nullable=False),
)
"""Who consented to which head of a pull request, for which base branch, by what and when."""

landings = _table(
    "landings",
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("repository_id", BigInteger, nullable=False),
    Column("base_branch", String(255), nullable=False),
    Column("number", Integer, nullable=False),
    Column("sha", String(64), nullable=False),
    Column("tree", String(64), nullable=False),
    Column("at", DatabaseInstant, nullable=False, index=True, info=instant(InstantKind.PAST)),
    Column("result", String(16), nullable=False),
    Column("record", Text, nullable=False),
    Column("key_id", String(64)),
    Column("signatures", JSON(none_as_null=True)),
    Index(None, "repository_id", "sha"),
    Index(None, "repository_id", "tree"),
    Index(None, "repository_id", "number"),
    CheckConstraint("result IN ('equal', 'exempt', 'mismatch', 'unproved')", name="result"),
)
"""One row for each landing, stored in its transaction. The other columns repeat parts of `record`, which is signed."""

culprits = _table(
    "culprits",
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("queue_id", ForeignKey("queues.id"), nullable=False, index=True),
    Column("repository_id", BigInteger, nullable=False),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("commit", String(64), index=True),
    Column("search", JSON, nullable=False),
)
"""Searches for the landing that made a base red. `commit` is the one whose checks a search waits for."""

landing_keys = _table(
    "landing_keys",
    Column("id", String(64), primary_key=True),
    Column("public", String(64), nullable=False),
    Column("sealed", Text),
    Column("since", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("until", DatabaseInstant, info=instant(InstantKind.PAST)),
)
"""The keys that sign landings, or did: all stay, so that what they signed can be verified."""

proof_marks = _table(
    "proof_marks",
    Column("repository_id", ForeignKey(repositories.c.id), primary_key=True),
    Column("tree", String(64), primary_key=True),
    Column("mark", String(64), primary_key=True),
    Column("ref", String(255), nullable=False),
    Column("object", String(64), nullable=False),
    Column("answered", Boolean, nullable=False),
    Column("expires_at", DatabaseInstant, nullable=False, index=True, info=instant(InstantKind.KEPT)),
)
"""The refs that say of a tree that it was tested; `answered` once GitHub has said that the ref is there."""

landing_notes = _table(
    "landing_notes",
    Column("repository_id", ForeignKey(repositories.c.id), primary_key=True),
    Column("landing_id", BigInteger, nullable=False),
    Column("tip", String(64)),
    Column("tree", String(64)),
)
"""Up to which landing a repository has notes, and the commit of these notes with its tree."""

shadow_pulls = _table(
    "shadow_pulls",
    Column("repository_id", ForeignKey(repositories.c.id), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("base_branch", String(255), nullable=False),
    Column("head_sha", String(64), nullable=False),
    Column("merge_sha", String(64)),
    Column("version", Integer, nullable=False),
    Column("due_at", DatabaseInstant, info=instant(InstantKind.WAIT)),
    Column("changed_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("record", JSON, nullable=False),
    Index(None, "repository_id", "head_sha"),
    Index(None, "repository_id", "merge_sha"),
)
"""Pull requests of repositories in shadow mode: what IMQ would have done, and how people merged them."""

timeline = _table(
    "timeline",
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("at", DatabaseInstant, nullable=False, index=True),
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
`ready` also has the end of the last check, as `ended`.

An event that ends a test of a commit has the commit as `tested`, and the seconds of each check as `check_seconds`. Of
several events for one commit the newest has all; but those of `rerun`, of checks that ran again, are in no other."""

answers = _table(
    "answers",
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("comment_id", BigInteger, primary_key=True, autoincrement=False),
    Column("by", String(255), nullable=False),
    Column("replies", JSON, nullable=False),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
)
"""The replies to the commands in each comment: no command is carried out twice, and IMQ's comment shows the newest.

A review has its id with a minus as `comment_id`: GitHub counts reviews by themselves."""

outbox = _table(
    "outbox",
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("kind", String(16), nullable=False),
    Column("repository_id", ForeignKey(repositories.c.id), nullable=False),
    Column("number", Integer, nullable=False),
    Column("notice", JSON(none_as_null=True)),
    Column("label", String(255), nullable=False, server_default=text("''")),
    Column("label_on", Boolean),
    Column("remote_id", BigInteger),
    Column("remote_head", String(64)),
    Column("maybe_created", Boolean, nullable=False),
    Column("create_requested_at", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("announced_at", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("superseded_id", BigInteger),
    Column("version", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", DatabaseInstant, index=True, info=instant(InstantKind.WAIT)),
    Column("lease_owner", String(255)),
    Column("leased_until", DatabaseInstant, info=instant(InstantKind.LEASE)),
    Column("error", Text),
    Column("dead", Boolean, nullable=False),
    Column("updated_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("trace", String(64)),
    Column("held_since", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("written", JSON(none_as_null=True)),
    UniqueConstraint("kind", "repository_id", "number", "label"),
    CheckConstraint("kind IN ('comment', 'check_run', 'label')", name="kind"),
    CheckConstraint("(lease_owner IS NULL) = (leased_until IS NULL)", name="lease"),
)

rejections = _table(
    "rejections",
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("head_sha", String(64), nullable=False),
    Column("reason", String(64), nullable=False),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
)

requests = _table(
    "requests",
    Column("id", String(32), primary_key=True),
    Column("repository_id", ForeignKey(repositories.c.id), nullable=False),
    Column("number", Integer, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("asked", String(255), nullable=False),
    Column("asked_by", String(255)),
    Column("process_id", String(255), index=True),
    Column("asked_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Index(None, "asked_at", "id"),
    Index(None, "repository_id", "asked_at", "id"),
)
"""What people and programs asked of IMQ; `id` is that of the job, and outlives the job."""

departures = _table(
    "departures",
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
    *(Column(name, Double, nullable=False) for name in JOB_SUMS),
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

departure_days = _table(
    "departure_days",
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("base_branch", String(255), primary_key=True),
    Column("outcome", String(16), primary_key=True),
    Column("reason", String(64), primary_key=True, server_default=""),
    *(Column(name, Integer, nullable=False) for name in ("departures", "pulls")),
    *(Column(name, Double, nullable=False) for name in ("waited", *WaitKind)),
    Column("ci_seconds", Double, nullable=False),
    *(Column(name, Integer, nullable=False) for name in ("ci_known", "reruns")),
    *(Column(name, Double, nullable=False) for name in JOB_SUMS),
    Index(None, "repository_id", "base_branch", "day"),
)
"""The sums of the departures of each queue, day, outcome and reason (empty: none), kept with each departure: a page
adds up a year of these, and no year of departures. `pulls` counts the last departures of pull requests, and `ci_known`
the departures with `ci_seconds`."""

flaky_days = _table(
    "flaky_days",
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("base_branch", String(255), primary_key=True),
    Column("kind", String(8), primary_key=True),
    Column("name", Text, primary_key=True),
    *(Column(name, Integer, nullable=False) for name in ("pulls", "reruns")),
    Column("ci_seconds", Double, nullable=False),
    Column("ci_known", Integer, nullable=False),
    Column("waited", Double, nullable=False),
    *(Column(name, Integer, nullable=False) for name in ("runs", "failures")),
    *(Column(name, Double, nullable=False) for name in FLAKY_JOB_SUMS),
    Index(None, "repository_id", "base_branch", "day"),
)
"""The sums of the checks, flaky jobs and flaky tests of each queue and day, by `kind` (`check`, `job`, `test`) and
name, kept with each departure: a page parses no JSON of a year. `pulls` counts departures, and `ci_known` the checks
with `ci_seconds`. `runs` and `failures` count attempts on trees that passed in the end, with each run."""

request_days = _table(
    "request_days",
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("requests", BigInteger, nullable=False),
)
"""How many requests IMQ sent to GitHub for a repository on a day. They are not counted for each queue: reads of rules,
labels and people serve several."""

pending_merges = _table(
    "pending_merges",
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("queue_id", ForeignKey("queues.id"), nullable=False),
    Column("entry_id", String(32), nullable=False),
    Column("title", Text, nullable=False),
    Column("author", String(255), nullable=False),
    Column("queued_by", String(255), nullable=False),
    Column("queued_head", String(64), nullable=False),
    Column("head_sha", String(64), nullable=False),
    Column("own_check_required", Boolean, nullable=False),
    Column("base_tip", String(64)),
    Column("tested_tree", String(64)),
    Column("merge_uuid", String(64)),
    Column("proof", JSON(none_as_null=True)),
    Column("started_at", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("enqueued_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("left_at", DatabaseInstant, nullable=False, index=True, info=instant(InstantKind.PAST)),
)
"""Merges that IMQ requested, and that GitHub may finish although their entries have left; with what was tested."""

throttles = _table(
    "throttles",
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("login", String(255), primary_key=True),
    Column("times", Integer, nullable=False),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
)
"""People who asked for something without permission, by folded login: how often in a row, and when last."""

pace_reservations = _table(
    "pace_reservations",
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("installation_id", BigInteger, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("amount", Integer, nullable=False),
    Column("owner", String(255), nullable=False),
    Index("ix_pace_reservations_installation_id_at", "installation_id", "at"),
)

pace_pauses = _table(
    "pace_pauses",
    Column("installation_id", BigInteger, primary_key=True, autoincrement=False),
    Column("until", DatabaseInstant, nullable=False, info=instant(InstantKind.WAIT)),
)

sweeps = _table(
    "sweeps",
    Column("part", String(64), primary_key=True),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
)
"""The instant up to which each part of the reconciler has found everything."""

api_tokens = _table(
    "api_tokens",
    Column("id", String(32), primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("token_hash", String(64), nullable=False, unique=True),
    Column("login", String(255)),
    Column("person_id", BigInteger),
    Column("operator", Boolean, nullable=False),
    Column("access", String(16), nullable=False, server_default=text("'maintain'")),
    Column("installation_id", BigInteger),
    Column("repositories", JSON(none_as_null=True)),
    Column("created_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("last_used_at", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("expires_at", DatabaseInstant),
)
"""Tokens of the API: person, scope, most permission and expiry; see `queue_engine.store.tokens.TokenPolicy`."""

audit_log = _table(
    "audit_log",
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("at", DatabaseInstant, nullable=False, index=True, info=instant(InstantKind.PAST)),
    Column("action", String(64), nullable=False),
    Column("by", String(255)),
    Column("via", String(16), nullable=False),
    Column("subject", String(255), nullable=False),
    Column("repository_id", BigInteger),
    Column("base_branch", String(255)),
    Column("data", JSON(none_as_null=True)),
    sqlite_autoincrement=True,
)
"""What people did that is no event of a queue, as `queue_engine.store.action_records.ActionRecord` has it."""

installation_tokens = _table(
    "installation_tokens",
    Column("installation_id", BigInteger, primary_key=True, autoincrement=False),
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("purpose", String(16), primary_key=True),
    Column("sealed", Text, nullable=False),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
)
"""GitHub's newest token for each scope, encrypted by the gateway; repository 0 stands for all of an installation's."""

configuration_files = _table(
    "configuration_files",
    Column("file", String(400), primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("text", Text),
    Column("parsed", Text),
    Column("unreadable", Text),
    Column("reviewed", Boolean, nullable=False),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
)
"""Configuration files as some process read them last, under that generation of their repository's settings.

`parsed` has the values of a valid file as JSON: Python reads that in a hundredth of the time that YAML takes."""

known_facts = _table(
    "known_facts",
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("repository_id", BigInteger, nullable=False),
    Column("subject", String(300), nullable=False),
    Column("statement", JSON, nullable=False),
    Column("at", DatabaseInstant, nullable=False, index=True, info=instant(InstantKind.PAST)),
    Index(None, "repository_id", "subject", "id"),
)
"""Recent facts from webhooks and answers to writes, with which reads are compared."""

processes = _table(
    "processes",
    Column("owner", String(255), primary_key=True),
    Column("seen_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("status", JSON, nullable=False),
    Column("metrics", Text, nullable=False),
)
"""The last report of each running process, so that any process can answer for all."""

sessions = _table(
    "sessions",
    Column("id", String(32), primary_key=True),
    Column("secret_hash", String(64), nullable=False, unique=True),
    Column("former_hash", String(64), index=True),
    Column("former_until", DatabaseInstant, info=instant(InstantKind.WAIT)),
    Column("person_id", BigInteger, nullable=False, index=True),
    Column("login", String(255), nullable=False),
    Column("created_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("used_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("renewed_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
)
"""People who are logged in at the pages; see `queue_engine.store.sessions.Session`."""

login_owners = _table(
    "login_owners",
    Column("login", String(255), primary_key=True),
    Column("person_id", BigInteger, nullable=False),
)
"""Who was first to log in with a login that IMQ_OPERATORS names: the login may belong to another account later."""

app_registration = _table(
    "app_registration",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("nonce", String(64), nullable=False),
    Column("state", String(64)),
    Column("sealed", Text),
)
"""The registration of the GitHub App, in one row: what its code is made of, the digest of the state that GitHub sends
back, and the encrypted credentials."""
