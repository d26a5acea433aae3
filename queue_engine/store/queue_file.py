"""Queues in flight as one file, stored in another database.

A file has rows of the queues' tables, with all columns but leases. Each row is validated before anything is stored.
Revisions after a release only add columns that may be absent, so a file of an older version can be imported, and one
of a newer version, if nothing is in the columns that this version lacks. Ids of queues, entries' order numbers and runs
are those of the exported database: they refer within the file only.

Entries and comments are doubted like those of a restored backup: IMQ reads the pull request, and searches the comment,
before it acts on either.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Set
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
    FromClause,
    Integer,
    String,
    Table,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import DatabaseInstant, insert_into, metadata
from queue_engine.core.database.outage import fault_of
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.errors import EntryConflict
from queue_engine.domain.model import PAUSES
from queue_engine.domain.run import RunState
from queue_engine.store.outbox.items import NAME, OutboxKind
from queue_engine.store.outbox.outbox import IS_QUEUED
from queue_engine.store.tables import (
    answers,
    consents,
    culprits,
    entries,
    known_facts,
    landing_keys,
    landings,
    outbox,
    pending_merges,
    queues,
    rejections,
    repositories,
    runs,
    timeline,
)
from queue_engine.store.timeline import IS_DELEGATION, NEEDED

FORMAT: Literal["imq-queues"] = "imq-queues"
VERSION: Literal[1] = 1

_LANDINGS_AT_ONCE = 500
_LEASE = frozenset({"lease_owner", "leased_until"})
_LEFT_OUT: Mapping[FromClause, Set[str]] = {
    queues: _LEASE,
    outbox: _LEASE | {"id"},
    timeline: {"id"},
    known_facts: {"id"},
    culprits: {"id"},
    consents: {"id"},
    repositories: {"generation"},
    landings: {"id"},
    landing_keys: {"sealed"},
}
_FORMER = {
    "red_app": "red_app_id",
    "red_looks": "red_polls",
    "red_look_at": "red_next_poll_at",
    "ci_seen_at": "ci_active_at",
    "told": "statement",
    "head": "head_sha",
}
"""The columns and fields that files of an earlier IMQ name otherwise, by their former names."""

_OF_MEMBER = (
    "merge_requested_at",
    "merge_uuid",
    "merge_refusals",
    "refused_since",
    "github_failures",
    "github_failing_since",
    "next_poll_at",
    "polls",
)
"""What files of an earlier IMQ have in the run of an entry, and the entry itself has now."""

_STATES = {
    "pending": None,
    "updating": RunState.BUILDING.value,
    "checking": RunState.TESTING.value,
    "ready": RunState.PASSED.value,
}
"""The states of runs, by the statuses that entries have in files of an earlier IMQ."""

_STRICT = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)


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
        """Rename former columns, and fields of statements; leave out the empty columns that these tables lack."""
        if not isinstance(row, dict):
            return row
        named = {_FORMER.get(name, name): value for name, value in row.items()}
        if isinstance(statement := named.get("statement"), dict):
            named["statement"] = {_FORMER.get(name, name): value for name, value in statement.items()}
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
    LandingRow: TypeAlias = Any
    ConsentRow: TypeAlias = Any
    PendingRow: TypeAlias = Any
    KeyRow: TypeAlias = Any
    CulpritRow: TypeAlias = Any
else:
    # Made from the tables, so that they cannot differ from them.
    RepositoryRow, QueueRow, RunRow, EntryRow = map(_row, (repositories, queues, runs, metadata.tables["entries"]))
    OutboxRow, RejectionRow, ReplyRow = map(_row, (outbox, rejections, answers))
    EventRow, FactRow, CulpritRow = map(_row, (timeline, known_facts, culprits))
    LandingRow, KeyRow, ConsentRow, PendingRow = map(_row, (landings, landing_keys, consents, pending_merges))


def _moved(value: Any) -> int | None:
    """Return what a run has in place of a figure or an instant that its entry has."""
    return 0 if type(value) is int else None


class QueueFile(BaseModel):
    """Queues in flight."""

    model_config = _STRICT

    format: Literal["imq-queues"]
    version: Literal[1]
    exported_at: AwareDatetime
    repositories: list[RepositoryRow]
    queues: list[QueueRow]
    """Queues with entries, a pause, a running search, a pending merge or an unused delegation; with their pauses,
    freezes and red base."""
    runs: list[RunRow]
    entries: list[EntryRow]
    """In order of their arrival: consent, order, priority, and who queued them."""
    consents: list[ConsentRow] = Field(default_factory=list)
    """Who consented to the heads of the entries, and by what: `/queue alone` holds on."""
    pending_merges: list[PendingRow] = Field(default_factory=list)
    """Merges that GitHub may finish although their entries have left."""
    outbox: list[OutboxRow]
    """Comments, check runs and labels of the entries, with GitHub's ids, and all that were not delivered yet."""
    rejections: list[RejectionRow] = Field(validation_alias=AliasChoices("rejections", "refusals"))
    """Files of an earlier IMQ name them `refusals`."""
    answers: list[ReplyRow]
    """Which comments' commands were carried out."""
    timeline: list[EventRow]
    """The history of the entries, and when others left."""
    known_facts: list[FactRow]
    culprits: list[CulpritRow] = Field(default_factory=list)
    """The searches for culprits: those that run continue, and none is begun twice."""
    landings: list[LandingRow] = Field(default_factory=list)
    """The records of landings, with their signatures."""
    landing_keys: list[KeyRow] = Field(default_factory=list)
    """The public keys that verify them: a file has no private key."""

    @model_validator(mode="before")
    @classmethod
    def _shared_runs(cls, file: Any) -> Any:
        """Test the trains of a file again that has no runs of several members, but a copy of one for each member."""
        try:
            former = {run["id"]: run for run in file["runs"] if "candidate_run" in run}
            copies = {each for each, run in former.items() if run["candidate_run"] is not None}
            if not former:
                return file
            waiting = {"run_id": None}
            counts = {"merge_refusals": 0, "github_failures": 0, "polls": 0}
            moved = []
            for entry in file["entries"]:
                run = former.get(entry.get("run_id"), {})
                own = waiting if run.get("candidate_run") is not None else {n: run[n] for n in _OF_MEMBER if n in run}
                moved.append(entry | counts | own)
            kept = [
                {
                    name: _moved(value) if name in _OF_MEMBER else value
                    for name, value in run.items()
                    if name != "candidate_run"
                }
                for run in file["runs"]
                if run["id"] not in copies
            ]
        except (AttributeError, KeyError, TypeError):
            return file  # The validation of its rows names the fault.
        return file | {"entries": moved, "runs": kept}

    @model_validator(mode="before")
    @classmethod
    def _states(cls, file: Any) -> Any:
        """Give each run of a file that has the status of entries instead its state."""
        try:
            of_run = {entry["run_id"]: _STATES[entry["status"]] for entry in file["entries"] if "status" in entry}
            rows = [{name: value for name, value in entry.items() if name != "status"} for entry in file["entries"]]
            runs = [run | {"state": run.get("state") or of_run.get(run["id"], RunState.ENDED)} for run in file["runs"]]
        except (AttributeError, KeyError, TypeError):
            return file
        return file | {"entries": rows, "runs": runs} if of_run else file


_IS_PENDING = (
    select(pending_merges.c.number)
    .where(pending_merges.c.repository_id == outbox.c.repository_id, pending_merges.c.number == outbox.c.number)
    .exists()
)


async def read_queues(connection: AsyncConnection, now: datetime, repository_id: int | None = None) -> QueueFile:
    """Read all queues with work or a pause, or those of one repository; `file_lines` adds the landings."""
    busy = [queues.c[reason.value].is_not(None) for reason in PAUSES]
    queued = select(entries.c.seq).where(entries.c.queue_id == queues.c.id).exists()
    searched = select(culprits.c.id).where(culprits.c.queue_id == queues.c.id, culprits.c.commit.is_not(None)).exists()
    branch = timeline.c.repository_id == queues.c.repository_id, timeline.c.base_branch == queues.c.base_branch
    pending = select(pending_merges.c.number).where(pending_merges.c.queue_id == queues.c.id).exists()
    chosen = or_(queued, searched, pending, select(timeline.c.id).where(*branch, IS_DELEGATION).exists(), *busy)
    if repository_id is not None:
        chosen = and_(chosen, queues.c.repository_id == repository_id)
    found = await _rows(connection, queues, chosen)
    its_queues = {row["id"] for row in found}
    its_repositories = {row["repository_id"] for row in found}
    members = await _rows(connection, entries, entries.c.queue_id.in_(its_queues), entries.c.seq)

    async def of_repositories(table: Table, only: ColumnElement[bool] | None = None) -> list[dict[str, Any]]:
        mine = table.c.repository_id.in_(its_repositories)
        return await _rows(connection, table, mine if only is None else and_(mine, only))

    content = {
        "format": FORMAT,
        "version": VERSION,
        "exported_at": now,
        "repositories": await _rows(connection, repositories, repositories.c.id.in_(its_repositories)),
        "queues": found,
        "runs": await _rows(connection, runs, runs.c.id.in_({row["run_id"] for row in members} - {None})),
        "entries": members,
        "consents": await _rows(connection, consents, consents.c.entry_id.in_({row["id"] for row in members})),
        "pending_merges": await _rows(connection, pending_merges, pending_merges.c.queue_id.in_(its_queues)),
        "outbox": await of_repositories(outbox, or_(IS_QUEUED, _IS_PENDING, outbox.c.due_at.is_not(None))),
        "rejections": await of_repositories(rejections),
        "answers": await of_repositories(answers),
        "timeline": await of_repositories(timeline, NEEDED),
        "known_facts": await of_repositories(known_facts),
        "culprits": await _rows(connection, culprits, culprits.c.queue_id.in_(its_queues)),
        "landing_keys": await _rows(connection, landing_keys, true(), landing_keys.c.since),
    }
    return QueueFile.model_validate(content)


async def file_lines(
    connection: AsyncConnection, file: QueueFile, repository_id: int | None = None
) -> AsyncIterator[str]:
    """Yield the lines of the file with its landings, of which it holds a few at a time: there may be a million."""
    head = file.model_dump_json(indent=1, exclude_unset=True, exclude={"landings"}).removesuffix("\n}")
    yield f'{head},\n "landings": ['
    last, comma = 0, ""
    while True:
        chosen = [landings.c.id > last]
        if repository_id is not None:
            chosen.append(landings.c.repository_id == repository_id)
        page = select(landings).where(*chosen).order_by(landings.c.id).limit(_LANDINGS_AT_ONCE)
        found = [dict(row._mapping) for row in await connection.execute(page)]
        for row in found:
            last = row.pop("id")
            yield f"  {comma}{LandingRow.model_validate(row).model_dump_json(exclude_unset=True)}"
            comma = ","
        if len(found) < _LANDINGS_AT_ONCE:
            break
    yield " ]\n}"


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
    connection: AsyncConnection, table: FromClause, only: ColumnElement[bool], *order: ColumnElement[Any]
) -> list[dict[str, Any]]:
    columns = [column for column in table.columns if column.name not in _LEFT_OUT.get(table, ())]
    statement = select(*columns).where(only).order_by(*(order or table.primary_key))
    return [dict(row._mapping) for row in await connection.execute(statement)]


_StoredRow = dict[str, Any]


async def restore_queues(connection: AsyncConnection, file: QueueFile) -> tuple[int, ...]:
    """Store a file's queues; return their new ids. Raises EntryConflict for queued ones, or a contradiction."""
    try:
        for row in _plain(file.repositories):
            # A known repository keeps its names: those of the file may be older.
            await connection.execute(insert_into(connection, repositories).values(row).on_conflict_do_nothing())
        ids = {row["id"]: await _queue(connection, row) for row in _plain(file.queues)}
        await _entries(connection, file, ids)
        for row in _plain(file.culprits):
            own = {"queue_id": ids[row["queue_id"]]}
            same = select(culprits.c.id).where(culprits.c.queue_id == own["queue_id"], culprits.c.at == row["at"])
            if (await connection.execute(same)).first() is None:
                await connection.execute(insert(culprits).values(row | own | {"search": row["search"] | own}))
        await _outbox(connection, file)
        await _others(connection, file)
        merges = [row | {"queue_id": ids[row["queue_id"]]} for row in _plain(file.pending_merges)]
        await _replace(connection, pending_merges, merges)
    except (DBAPIError, KeyError, TypeError) as error:
        if fault_of(error) is not None:
            raise
        raise EntryConflict("the file contradicts itself") from error
    return tuple(ids.values())


async def _queue(connection: AsyncConnection, row: _StoredRow) -> int:
    """Store a queue; one that is here already, without entries, keeps the pauses that the file does not have."""
    repository, branch = row["repository_id"], row["base_branch"]
    row = {name: value for name, value in row.items() if name != "id"}
    present = await queue_row(connection, repository, branch)
    if present is None:
        added = await connection.execute(insert(queues).values(row).returning(queues.c.id))
        return int(added.scalar_one())
    if present["depth"]:
        raise EntryConflict(f"the queue for {branch} in repository {repository} has {present['depth']} entries")
    kept = {reason.value for reason in PAUSES if row.get(reason.value) is None}
    changed = {name: value for name, value in row.items() if name not in kept}
    await connection.execute(update(queues).where(queues.c.id == present["id"]).values(changed))
    return int(present["id"])


async def _entries(connection: AsyncConnection, file: QueueFile, queue_ids: dict[int, int]) -> None:
    run_ids: dict[int, int] = {}
    branches = {row["id"]: row["base_branch"] for row in _plain(file.queues)}
    members = {row["id"]: (row["repository_id"], row["number"]) for row in _plain(file.entries)}
    ledger = [row for row in _plain(file.consents) if row["entry_id"] in members]
    if any(members[row["entry_id"]] != (row["repository_id"], row["number"]) for row in ledger):
        raise EntryConflict("the file contradicts itself")
    if ledger:
        await connection.execute(insert(consents), ledger)
    consented = {(row["entry_id"], row["head_sha"], row["base_branch"]) for row in ledger}
    for row in _plain(file.runs):
        former = row.pop("id")
        if row.get("queue_id") is not None:
            row["queue_id"] = queue_ids[row["queue_id"]]
        run_ids[former] = (await connection.execute(insert(runs).values(row).returning(runs.c.id))).scalar_one()
    for row in sorted(_plain(file.entries), key=lambda row: row["seq"]):
        del row["seq"]  # The database numbers the entries again, in the same order.
        run = row.get("run_id")
        own = {
            "queue_id": queue_ids[row["queue_id"]],
            "run_id": None if run is None else run_ids[run],
            "needs_refetch": True,
        }
        await connection.execute(insert(entries).values(row | own))
        heads = {row["queued_head"], row["head_sha"]} if row["head_proved"] else {row["queued_head"]}
        consent = {
            "entry_id": row["id"],
            "repository_id": row["repository_id"],
            "number": row["number"],
            "base_branch": branches[row["queue_id"]],
            "by": row["queued_by"],
            "at": row["enqueued_at"],
            "source": ConsentKind.IMPORTED.value,
        }
        # A file of an earlier IMQ has no ledger.
        lacking = [each for each in sorted(heads) if (row["id"], each, consent["base_branch"]) not in consented]
        if lacking:
            await connection.execute(insert(consents), [consent | {"head_sha": head} for head in lacking])


async def _outbox(connection: AsyncConnection, file: QueueFile) -> None:
    """Store what GitHub is to show. A comment is searched for before it is edited or created, so that none doubles."""
    for row in _plain(file.outbox):
        if row["kind"] != OutboxKind.LABEL:
            row["maybe_created"] = True
        await connection.execute(delete(outbox).where(*(outbox.c[name] == row[name] for name in NAME)))
        await connection.execute(insert(outbox).values(row))


_LANDING = (landings.c.repository_id, landings.c.sha, landings.c.number)


async def _others(connection: AsyncConnection, file: QueueFile) -> None:
    events = [row for row in _plain(file.timeline) if not await _is_here(connection, row)]
    for table, rows in ((timeline, events), (known_facts, _plain(file.known_facts))):
        if rows:
            await connection.execute(insert(table), rows)
    for row in _plain(file.landings):
        same = and_(*(each == row[each.name] for each in _LANDING))
        if (await connection.execute(select(landings.c.id).where(same))).first() is None:
            await connection.execute(insert(landings).values(row))
    for row in _plain(file.landing_keys):
        # The private key stayed behind, so that it signs nothing here.
        retired = row | {"until": row.get("until") or file.exported_at}
        await connection.execute(insert_into(connection, landing_keys).values(retired).on_conflict_do_nothing())
    await _replace(connection, rejections, _plain(file.rejections))
    await _replace(connection, answers, _plain(file.answers))


async def _is_here(connection: AsyncConnection, event: _StoredRow) -> bool:
    """Return whether this is a delegation that was imported before: it may have been used since (P4)."""
    if event["event"] != "delegated":
        return False
    same = and_(*(timeline.c[name] == event[name] for name in ("repository_id", "number", "event", "at")))
    return (await connection.execute(select(timeline.c.id).where(same))).first() is not None


async def _replace(connection: AsyncConnection, table: Table, rows: list[_StoredRow]) -> None:
    for row in rows:
        await connection.execute(delete(table).where(*(key == row[key.name] for key in table.primary_key.columns)))
        await connection.execute(insert(table).values(row))


def _plain(rows: list[Any]) -> list[_StoredRow]:
    """Return the rows as the file has them: columns that it does not have keep their defaults."""
    return [row.model_dump(exclude_unset=True) for row in rows]
