"""Each pause of a queue has a column of its own, and every blocker that was announced is kept."""

import json
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

_PAUSES = ("invariant_broken", "tree_mismatch", "paused_by_hand", "frozen")
_OLD = ("paused_reason", "paused_detail", "paused_since", "paused_until", "paused_by", "underlying_freeze")


def upgrade() -> None:
    """A freeze beneath a pause becomes one beside it; the blocker that was announced becomes the only announced one."""
    for reason in _PAUSES:
        op.add_column("queues", sa.Column(reason, sa.JSON(none_as_null=True)))
    connection = op.get_bind()
    for row in connection.execute(sa.text("SELECT * FROM queues")).mappings().all():
        _carry_over(connection, row)
    if connection.dialect.name == "sqlite":
        _make_anew(connection)
        return
    op.drop_constraint("paused", "queues", type_="check")
    for name in _OLD:
        op.drop_column("queues", name)


def _carry_over(connection: sa.Connection, row: Any) -> None:
    slots = {
        # No revision wrote another reason: that holds the queue until a person has looked.
        pause["reason"] if pause["reason"] in _PAUSES else "invariant_broken": pause
        for pause in (_loaded(row["underlying_freeze"]), _pause(row))
        if pause is not None
    }
    columns = (sa.column(slot, sa.JSON()) for slot in slots)
    queues = sa.table("queues", sa.column("id", sa.Integer()), sa.column("announced", sa.Text()), *columns)
    values = {slot: {**pause, "reason": slot} for slot, pause in slots.items()}
    connection.execute(
        sa.update(queues).where(queues.c.id == row["id"]).values(announced=_announced(row["announced"]), **values)
    )


def _pause(row: Any) -> dict[str, Any] | None:
    if row["paused_reason"] is None:
        return None
    ends = {name: _instant(row[f"paused_{name}"]) for name in ("since", "until")}
    return {"reason": row["paused_reason"], "detail": row["paused_detail"] or "", "by": row["paused_by"], **ends}


def _instant(stored: Any) -> str | None:
    """SQLite stores an instant as text without its zone, which is UTC."""
    if stored is None:
        return None
    return (datetime.fromisoformat(stored).replace(tzinfo=UTC) if isinstance(stored, str) else stored).isoformat()


def _announced(stored: str | None) -> str | None:
    known = _loaded(stored)
    if not isinstance(known, dict):
        return None
    blocker = {name: known.get(name) for name in ("reason", "detail", "until", "since")}
    return json.dumps({"blockers": [{**blocker, "recorded": known["noted"]}], "last": known["last"]})


def _loaded(stored: Any) -> Any:
    return json.loads(stored) if isinstance(stored, str) else stored


def _make_anew(connection: sa.Connection) -> None:
    """Make the table again without the old columns: SQLite drops no column that a constraint names.

    Entries refer to its rows, so that these have to be back before the transaction ends.
    """
    instant = sa.DateTime(timezone=True)
    op.execute("PRAGMA defer_foreign_keys=ON")
    op.execute("CREATE TABLE queues_before AS SELECT * FROM queues")
    op.drop_table("queues")
    table = op.create_table(
        "queues",
        sa.Column("id", sa.Integer(), autoincrement=True),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("base_branch", sa.String(255), nullable=False),
        *(sa.Column(reason, sa.JSON(none_as_null=True)) for reason in _PAUSES),
        sa.Column("announced", sa.Text()),
        sa.Column("red_check", sa.String(255)),
        sa.Column("red_app", sa.BigInteger()),
        sa.Column("red_tip", sa.String(64)),
        sa.Column("red_since", instant),
        sa.Column("red_looks", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("red_look_at", instant),
        sa.Column("red_untested", sa.Boolean(), nullable=False, server_default=sa.text("FALSE")),
        sa.Column("red_rerun", sa.String(64)),
        sa.Column("stalled_since", instant),
        sa.Column("stalled_head", sa.String(64)),
        sa.Column("stalled_checks", sa.Text()),
        sa.Column("ci_seen_at", instant),
        sa.Column("errors", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("errors_since", instant),
        sa.Column("due_at", instant),
        sa.Column("wake_count", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(255)),
        sa.Column("leased_until", instant),
        sa.Column("created_at", instant, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_queues"),
        sa.ForeignKeyConstraint(["repository_id"], ["repositories.id"], name="fk_queues_repository_id"),
        sa.UniqueConstraint("repository_id", "base_branch", name="uq_queues_repository_id_base_branch"),
        sa.CheckConstraint("(lease_owner IS NULL) = (leased_until IS NULL)", name="lease"),
    )
    op.create_index("ix_queues_due_at", "queues", ["due_at"])
    kept = ", ".join(column.name for column in table.columns)
    op.execute(f"INSERT INTO queues ({kept}) SELECT {kept} FROM queues_before")  # noqa: S608
    op.execute("DROP TABLE queues_before")
