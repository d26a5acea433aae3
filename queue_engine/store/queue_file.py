"""Queues in flight as one file: what IMQ needs to continue them on another database.

A file has rows of the queues' tables, with all columns but leases. Each row is validated before anything is stored.
Revisions after a release only add columns that may be absent, so a file of an older version can be imported, and one
of a newer version, if nothing is in the columns that this version lacks. Ids of queues, entries' order numbers and runs
are those of the exported database: they refer within the file only.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import (
    AliasChoices,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    create_model,
    model_validator,
)
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ColumnElement,
    DateTime,
    Integer,
    String,
    Table,
    and_,
    func,
    or_,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import DatabaseInstant
from queue_engine.domain.model import PAUSES
from queue_engine.store.operation_tables import known_facts
from queue_engine.store.outbox.table import IS_QUEUED
from queue_engine.store.tables import answers, entries, outbox, queues, rejections, repositories, runs, timeline
from queue_engine.store.timeline import NEEDED

FORMAT: Literal["imq-queues"] = "imq-queues"
VERSION: Literal[1] = 1

_LEASE = frozenset({"lease_owner", "leased_until"})
_LEFT_OUT = {
    queues: _LEASE,
    outbox: _LEASE | {"id"},
    timeline: {"id"},
    known_facts: {"id"},
    repositories: {"generation"},
}
_FORMER = {
    "red_app": "red_app_id",
    "red_looks": "red_polls",
    "red_look_at": "red_next_poll_at",
    "ci_seen_at": "ci_active_at",
    "told": "statement",
}
"""The columns that files of an earlier IMQ name otherwise, by their former names."""

_STRICT = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def _type(column: Column[Any]) -> Any:
    kind: Any
    match column.type:
        case DatabaseInstant() | DateTime():
            kind = AwareDatetime
        case Boolean():
            kind = bool
        case Integer():
            most = 2 ** (31 if type(column.type) is Integer and not column.foreign_keys else 63) - 1
            kind = Annotated[int, Field(ge=-most, le=most)]
        case JSON():
            kind = JsonValue
        case String():
            kind = Annotated[str, StringConstraints(max_length=column.type.length, pattern=r"^[^\x00]*$")]
        case unknown:
            raise TypeError(f"a file of queues has no form for {unknown!r}")
    return kind


class _Row(BaseModel):
    model_config = _STRICT

    @model_validator(mode="before")
    @classmethod
    def _known_columns(cls, row: object) -> object:
        """Rename former columns, and leave out the empty ones that these tables lack."""
        if not isinstance(row, dict):
            return row
        named = {_FORMER.get(name, name): value for name, value in row.items()}
        return {name: value for name, value in named.items() if value is not None or name in cls.model_fields}


def _row(table: Table) -> Any:
    """Make the model of a table's rows; columns that may be absent are those that a later revision may add."""
    fields: dict[str, Any] = {}
    for column in table.columns:
        if column.name in _LEFT_OUT.get(table, ()):
            continue
        if column.nullable:
            fields[column.name] = (_type(column) | None, None)
        else:
            fields[column.name] = (_type(column), ... if column.server_default is None else None)
    return create_model(f"{table.name.capitalize()}Row", __base__=_Row, **fields)


if TYPE_CHECKING:
    RepositoryRow: TypeAlias = Any
    QueueRow: TypeAlias = Any
    RunRow: TypeAlias = Any
    EntryRow: TypeAlias = Any
    OutboxRow: TypeAlias = Any
    RejectionRow: TypeAlias = Any
    ReplyRow: TypeAlias = Any
    EventRow: TypeAlias = Any
    FactRow: TypeAlias = Any
else:
    # Made from the tables, so that they cannot differ from them.
    RepositoryRow, QueueRow, RunRow, EntryRow = map(_row, (repositories, queues, runs, entries))
    OutboxRow, RejectionRow, ReplyRow = map(_row, (outbox, rejections, answers))
    EventRow, FactRow = map(_row, (timeline, known_facts))


class QueueFile(BaseModel):
    """Queues in flight."""

    model_config = _STRICT

    format: Literal["imq-queues"]
    version: Literal[1]
    exported_at: AwareDatetime
    repositories: list[RepositoryRow]
    queues: list[QueueRow]
    """Queues with entries or a pause; with their pauses, freezes and red base."""
    runs: list[RunRow]
    entries: list[EntryRow]
    """In order of their arrival: consent, order, priority, and who queued them."""
    outbox: list[OutboxRow]
    """Comments, check runs and labels of the entries, with GitHub's ids, and all that were not delivered yet."""
    rejections: list[RejectionRow] = Field(validation_alias=AliasChoices("rejections", "refusals"))
    """Files of an earlier IMQ name them `refusals`."""
    answers: list[ReplyRow]
    """Which comments' commands were carried out."""
    timeline: list[EventRow]
    """The history of the entries, and when others left."""
    known_facts: list[FactRow]


async def read_queues(connection: AsyncConnection, now: datetime, repository_id: int | None = None) -> QueueFile:
    """Read all queues with entries or a pause, or those of one repository."""
    busy = [queues.c[reason.value].is_not(None) for reason in PAUSES]
    queued = select(entries.c.seq).where(entries.c.queue_id == queues.c.id).exists()
    chosen = or_(queued, *busy)
    if repository_id is not None:
        chosen = and_(chosen, queues.c.repository_id == repository_id)
    found = await _rows(connection, queues, chosen, queues.c.id)
    its_queues = {row["id"] for row in found}
    its_repositories = {row["repository_id"] for row in found}
    members = await _rows(connection, entries, entries.c.queue_id.in_(its_queues), entries.c.seq)

    async def of_repositories(table: Table, only: ColumnElement[bool] | None = None) -> list[dict[str, Any]]:
        mine = table.c.repository_id.in_(its_repositories)
        return await _rows(connection, table, mine if only is None else and_(mine, only), *table.primary_key.columns)

    content = {
        "format": FORMAT,
        "version": VERSION,
        "exported_at": now,
        "repositories": await _rows(connection, repositories, repositories.c.id.in_(its_repositories)),
        "queues": found,
        "runs": await _rows(connection, runs, runs.c.id.in_({row["run_id"] for row in members} - {None})),
        "entries": members,
        "outbox": await of_repositories(outbox, or_(IS_QUEUED, outbox.c.due_at.is_not(None))),
        "rejections": await of_repositories(rejections),
        "answers": await of_repositories(answers),
        "timeline": await of_repositories(timeline, NEEDED),
        "known_facts": await of_repositories(known_facts),
    }
    return QueueFile.model_validate(content)


async def is_known(connection: AsyncConnection, entry_ids: Iterable[str]) -> bool:
    """Return whether one of these entries is, or was, in a queue of this database."""
    ids = list(entry_ids)
    for column in (entries.c.id, timeline.c.entry_id):
        if (await connection.execute(select(func.count()).where(column.in_(ids)))).scalar_one():
            return True
    return False


async def queue_row(connection: AsyncConnection, repository_id: int, base_branch: str) -> dict[str, Any] | None:
    """Return the stored row of a queue, with the number of its entries as `depth`."""
    depth = select(func.count()).where(entries.c.queue_id == queues.c.id).scalar_subquery().label("depth")
    its_own = and_(queues.c.repository_id == repository_id, queues.c.base_branch == base_branch)
    row = (await connection.execute(select(queues, depth).where(its_own))).one_or_none()
    return None if row is None else dict(row._mapping)


async def _rows(
    connection: AsyncConnection, table: Table, only: ColumnElement[bool], *order: ColumnElement[Any]
) -> list[dict[str, Any]]:
    columns = [column for column in table.columns if column.name not in _LEFT_OUT.get(table, ())]
    statement = select(*columns).where(only).order_by(*order)
    return [dict(row._mapping) for row in await connection.execute(statement)]
