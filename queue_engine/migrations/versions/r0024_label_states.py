"""One outbox row per pull request and label, with the state that is wanted: on, or off."""

from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"

_INSTANT = sa.DateTime(timezone=True)
_COPIED = ("repository_id", "number", "error", "updated_at", "trace")


def upgrade() -> None:
    """A removal of several labels becomes one for each. A dead one is due again."""
    connection = op.get_bind()
    removals = connection.execute(sa.text("SELECT * FROM outbox WHERE kind = 'label_off'")).mappings().all()
    connection.execute(sa.text("DELETE FROM outbox WHERE kind = 'label_off'"))
    connection.execute(sa.text("UPDATE outbox SET label = '' WHERE label IS NULL"))
    if connection.dialect.name == "sqlite":
        _make_anew()
    else:
        op.add_column("outbox", sa.Column("label_on", sa.Boolean()))
        op.alter_column("outbox", "label", nullable=False, server_default=sa.text("''"))
        op.drop_constraint("uq_outbox_kind_repository_id_number", "outbox", type_="unique")
        op.create_unique_constraint(
            "uq_outbox_kind_repository_id_number_label", "outbox", ["kind", "repository_id", "number", "label"]
        )
        op.drop_constraint("kind", "outbox", type_="check")
        op.create_check_constraint("kind", "outbox", "kind IN ('comment', 'check_run', 'label')")
    for row in removals:
        _carry_over(connection, row)


def _carry_over(connection: sa.Connection, row: Any) -> None:
    letter = sha256(f"letter:label_off:{row['repository_id']}:{row['number']}".encode()).hexdigest()[:32]
    connection.execute(sa.text("DELETE FROM failed_jobs WHERE id = :id"), {"id": letter})
    copied = {name: row[name] for name in _COPIED}
    for label in dict.fromkeys((row["label"] or "").split("\n")):
        connection.execute(
            sa.text(
                "INSERT INTO outbox (kind, repository_id, number, label, label_on, maybe_created, version, attempts,"
                " due_at, error, dead, updated_at, trace) VALUES ('label', :repository_id, :number, :label, FALSE,"
                " FALSE, 1, 0, :due_at, :error, FALSE, :updated_at, :trace)"
            ),
            {**copied, "label": label, "due_at": row["due_at"] or row["updated_at"]},
        )


def _make_anew() -> None:
    """Make the table again: SQLite changes no constraint in place."""
    op.execute("CREATE TABLE outbox_before AS SELECT * FROM outbox")
    op.drop_table("outbox")
    table = op.create_table(
        "outbox",
        sa.Column("id", sa.Integer(), autoincrement=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("notice", sa.JSON(none_as_null=True)),
        sa.Column("label", sa.String(255), nullable=False, server_default=sa.text("''")),
        sa.Column("remote_id", sa.BigInteger()),
        sa.Column("remote_head", sa.String(64)),
        sa.Column("maybe_created", sa.Boolean(), nullable=False),
        sa.Column("announced_at", _INSTANT),
        sa.Column("superseded_id", sa.BigInteger()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", _INSTANT),
        sa.Column("lease_owner", sa.String(255)),
        sa.Column("leased_until", _INSTANT),
        sa.Column("error", sa.Text()),
        sa.Column("dead", sa.Boolean(), nullable=False),
        sa.Column("updated_at", _INSTANT, nullable=False),
        sa.Column("trace", sa.String(64)),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.ForeignKeyConstraint(["repository_id"], ["repositories.id"], name="fk_outbox_repository_id"),
        sa.UniqueConstraint(
            "kind", "repository_id", "number", "label", name="uq_outbox_kind_repository_id_number_label"
        ),
        sa.CheckConstraint("kind IN ('comment', 'check_run', 'label')", name="kind"),
        sa.CheckConstraint("(lease_owner IS NULL) = (leased_until IS NULL)", name="lease"),
    )
    op.create_index("ix_outbox_due_at", "outbox", ["due_at"])
    kept = ", ".join(column.name for column in table.columns)
    op.execute(f"INSERT INTO outbox ({kept}) SELECT {kept} FROM outbox_before")  # noqa: S608
    op.execute("DROP TABLE outbox_before")
    op.add_column("outbox", sa.Column("label_on", sa.Boolean()))
