"""Revisions after a release only add what its processes tolerate, and no long lock is taken."""

from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from queue_engine.migrations import run
from tests.support.release_databases import released

GROWS = {"timeline", "idempotency_keys", "jobs", "outbox"}
"""Tables with many rows: to build an index takes longer than a process may wait."""


class Recorder:
    """Alembic's `op` for one revision; keeps the operations that processes of the last release do not tolerate."""

    def __init__(self) -> None:
        self.made: set[str] = set()
        self.faults: list[str] = []

    def create_table(self, name: str, *_columns: Any, **_options: Any) -> None:
        self.made.add(name)

    def add_column(self, table: str, column: sa.Column[Any]) -> None:
        if not column.nullable and column.server_default is None:
            self.faults.append(f"{table}.{column.name} needs a value that the last release does not write")
        if column.unique or column.foreign_keys:
            self.faults.append(f"{table}.{column.name} has a constraint")

    def create_index(self, name: str | None, table: str, _columns: Any, **options: Any) -> None:
        if options.get("unique") and table not in self.made:
            self.faults.append(f"a unique index on {table} refuses rows of the last release")
        if table in GROWS:
            self.faults.append(f"an index on {table} is built too slowly in a migration")

    def execute(self, statement: Any) -> None:
        if not any(name in str(statement) for name in self.made):
            self.faults.append(f"`{statement}` changes what the last release has")

    def get_bind(self) -> SimpleNamespace:
        """A revision may read what is stored, to fill a table of its own; here it finds nothing."""
        return SimpleNamespace(execute=self._read)

    def _read(self, statement: Any) -> tuple[()]:
        if not isinstance(statement, sa.Select):
            self.faults.append(f"`{statement}` writes past the migration's own operations")
        return ()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_arguments, **_options: self.faults.append(f"{name} is no addition")


def faults(revision: Any) -> list[str]:
    """What a revision does beyond additions; nothing for one that removes what a release has stopped to use."""
    recorder, own = Recorder(), revision.op
    revision.op = recorder
    try:
        revision.upgrade()
    finally:
        revision.op = own
    unused_since = getattr(revision, "unused_since", None)
    if unused_since is not None and unused_since not in released():
        return [f"unused_since names {unused_since}, which was not released"]
    return [] if unused_since is not None else recorder.faults


def revisions_after(revision: str) -> Iterator[ModuleType]:
    for script in ScriptDirectory.from_config(run._config()).walk_revisions():
        if script.revision > revision:
            yield script.module


def test_revisions_after_a_release_only_add() -> None:
    """Both releases run on the tables during an upgrade. A revision that removes names the release that stopped use."""
    last = max(released().values())
    assert {module.__name__: faults(module) for module in revisions_after(last) if faults(module)} == {}


def of(*calls: Callable[[Any], None], **more: Any) -> Any:
    """A revision that does these things."""
    module = SimpleNamespace(op=None, **more)
    module.upgrade = lambda: [call(module.op) for call in calls]
    return module


@pytest.mark.parametrize(
    "call",
    [
        lambda op: op.create_table("notes", sa.Column("id", sa.Integer(), primary_key=True)),
        lambda op: op.add_column("entries", sa.Column("note", sa.Text())),
        lambda op: op.add_column("entries", sa.Column("note", sa.Text(), nullable=False, server_default="''")),
        lambda op: op.create_index("ix_queues_created_at", "queues", ["created_at"]),
    ],
)
def test_additions_are_allowed(call: Callable[[Any], None]) -> None:
    """Processes of the last release neither read nor write them."""
    assert faults(of(call)) == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda op: op.add_column("entries", sa.Column("note", sa.Text(), nullable=False)), "needs a value"),
        (lambda op: op.add_column("entries", sa.Column("note", sa.Text(), unique=True)), "has a constraint"),
        (lambda op: op.drop_column("entries", "title"), "drop_column"),
        (lambda op: op.alter_column("entries", "title", nullable=True), "alter_column"),
        (lambda op: op.batch_alter_table("entries"), "batch_alter_table"),
        (lambda op: op.rename_table("entries", "items"), "rename_table"),
        (lambda op: op.execute("UPDATE entries SET priority = 0"), "UPDATE entries"),
        (lambda op: op.create_index("ix_timeline_reason", "timeline", ["reason"]), "too slowly"),
        (lambda op: op.create_index("ix", "entries", ["title"], unique=True), "unique index"),
    ],
)
def test_other_changes_are_refused(call: Callable[[Any], None], words: str) -> None:
    """Each would break a process of the last release, or hold it up."""
    (fault,) = faults(of(call))
    assert words in fault


def test_removal_names_the_release_that_stopped_to_use_it() -> None:
    """Contraction comes one release after: then no running process uses what goes."""
    version = next(iter(released()))
    removal = lambda op: op.drop_column("entries", "title")  # noqa: E731 - beside the others it reads the same
    assert faults(of(removal, unused_since=version)) == []
    assert faults(of(removal, unused_since="9.9.9")) == ["unused_since names 9.9.9, which was not released"]
