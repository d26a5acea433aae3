"""What belongs to one attempt to land an entry is stored as its run."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)
SHA = sa.String(64)

LIST = sa.JSON()
COUNT = sa.Integer()

_ATTEMPT: dict[str, Any] = {
    "started_at": INSTANT,
    "base_tip": SHA,
    "tested_tree": SHA,
    "pending_checks": LIST,
    "completed_checks": LIST,
    "check_seconds": sa.Integer(),
    "polls": COUNT,
    "next_poll_at": INSTANT,
    "merge_requested_at": INSTANT,
    "merge_refusals": COUNT,
    "refused_since": INSTANT,
    "github_failures": COUNT,
    "github_failing_since": INSTANT,
}
_OF_CANDIDATE: dict[str, Any] = {
    "started_checks": LIST,
    "checks_started_at": INSTANT,
    "former_checks": sa.JSON(none_as_null=True),
    "reruns": COUNT,
    "rerun_checks": LIST,
    "rerun_at": INSTANT,
}
"""What an update makes void."""

_MOVED = {**_ATTEMPT, **_OF_CANDIDATE}
_OLD = ("candidate_head", "candidate_is_ours", "known_behind", *_MOVED)


def upgrade() -> None:
    """Each entry in flight becomes the one member of a run; one that waits keeps its head, and what is to be proved."""
    runs = op.create_table(
        "runs",
        sa.Column("id", COUNTER, autoincrement=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("candidate", SHA),
        sa.Column("new_head", SHA),
        sa.Column("new_head_is_ours", sa.Boolean(), nullable=False),
        *(sa.Column(name, kind, nullable=kind is not LIST and kind is not COUNT) for name, kind in _MOVED.items()),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sqlite_autoincrement=True,
    )
    number = COUNTER.compile(op.get_bind().dialect)
    op.execute(f"ALTER TABLE entries ADD COLUMN run_id {number} CONSTRAINT fk_entries_run_id REFERENCES runs (id)")
    op.create_index("ix_entries_run_id", "entries", ["run_id"])
    _carry_over(op.get_bind(), runs)
    # SQLite adds a constraint to a table only together with a column.
    op.execute(
        "ALTER TABLE entries ADD COLUMN newer_tip VARCHAR(64)"
        " CONSTRAINT member CHECK (status = 'pending' OR run_id IS NOT NULL)"
    )
    op.execute("UPDATE entries SET newer_tip = base_tip WHERE known_behind")
    for name in _OLD:
        op.drop_column("entries", name)


def _carry_over(connection: sa.Connection, runs: sa.Table) -> None:
    names = ("seq", "status", "head", "candidate_head", "candidate_is_ours")
    entries = sa.table(
        "entries",
        *(sa.column(name) for name in names),
        *(sa.column(name, kind) for name, kind in _MOVED.items()),
        sa.column("run_id"),
    )
    begun = (
        (entries.c.status != "pending") | (entries.c.github_failures > 0) | entries.c.merge_requested_at.is_not(None)
    )
    rows = connection.execute(sa.select(entries).where(begun)).mappings().all()
    for row in rows:
        [run] = connection.execute(runs.insert().returning(runs.c.id).values(_run(row))).scalars()
        connection.execute(sa.update(entries).where(entries.c.seq == row["seq"]).values(run_id=run))


def _run(row: Any) -> dict[str, Any]:
    is_bound = row["status"] in ("checking", "ready")
    kept = {name: row[name] for name in (_MOVED if is_bound else _ATTEMPT)}
    fresh = {} if is_bound else {"started_checks": [], "rerun_checks": [], "reruns": 0}
    return {
        "version": 1,
        "candidate": row["head"] if is_bound else None,
        "new_head": row["candidate_head"],
        "new_head_is_ours": row["candidate_is_ours"],
        **kept,
        **fresh,
    }
