"""The outbox: desired state on GitHub, written in the transaction that changes it, and sent later; replies to commands.

One row per pull request and kind, and per label, has the *desired state*; quick changes overwrite each other before the
dispatcher sends them. The row of a label (on or off) is deleted once GitHub has confirmed the label. A row is due until
GitHub shows the state of one version. `maybe_created` is set before the dispatcher creates a comment or check run.
After a crash between the request and the commit, the next dispatcher searches for the created one before it creates
another. Reads lag, so a search that finds none counts only once the request is `READS_LAG` old.

A result that somebody must act on is a new comment, because GitHub sends no notification of an edit. IMQ creates the
comment first, stores both ids, and then deletes the old one; `announced_at` names its notice. A lease is long enough
for the few requests of an item.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from pydantic import ValidationError
from sqlalchemy import BindParameter, Row, Select, and_, bindparam, case, delete, func, or_, select, type_coerce, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import DatabaseInstant, Insert, TableStore, Upsert, replacing
from queue_engine.core.jobs.dead_letters import DeadLetters
from queue_engine.core.observability import trace
from queue_engine.domain.errors import Forbidden
from queue_engine.domain.facts import OwnCheckRun
from queue_engine.domain.model import Repository
from queue_engine.domain.notice import CommandReply, Notice
from queue_engine.store.outbox.items import (
    NAME,
    CheckRunState,
    OutboxItem,
    OutboxKind,
    OutboxRun,
    dead_id,
    dead_letter,
    item_of,
)
from queue_engine.store.repositories import REPOSITORY_FIELDS, remember
from queue_engine.store.tables import answers, entries, outbox, repositories

_ID: BindParameter[int] = bindparam("its_id")
_DUE: BindParameter[datetime] = bindparam("its_due", type_=DatabaseInstant)
_NOW: BindParameter[datetime] = bindparam("now", type_=DatabaseInstant)
_ITS_OWN = and_(*(outbox.c[name] == bindparam(f"its_{name}") for name in NAME))
_SOONER = case((and_(outbox.c.lease_owner.is_(None), outbox.c.due_at < _DUE), outbox.c.due_at), else_=_DUE)
"""The due time of a change for `its_due`: sooner if the item is due sooner."""


def _want(insert: Insert) -> Any:
    # Not `updated_at`, the instant at which the item was last settled.
    state = ("notice", "label_on", "attempts", "error", "dead", "trace")
    return insert.values(due_at=_DUE).on_conflict_do_update(
        index_elements=NAME,
        set_={
            **{name: insert.excluded[name] for name in state},
            "due_at": _SOONER,
            "version": outbox.c.version + 1,
        },
    )


WANT = Upsert(outbox, _want)
AGAIN = (
    update(outbox).where(_ITS_OWN, outbox.c.notice.is_not(None)).values(due_at=_SOONER, version=outbox.c.version + 1)
)
LABELS = select(outbox.c.label, outbox.c.label_on).where(
    outbox.c.kind == OutboxKind.LABEL,
    outbox.c.repository_id == bindparam("its_repository_id"),
    outbox.c.number == bindparam("its_number"),
)
WANTED = select(outbox.c.notice).where(_ITS_OWN)
SHOWN = select(outbox.c.notice, outbox.c.due_at, outbox.c.dead, outbox.c.error).where(_ITS_OWN)
SHOWN_SINCE = select(outbox.c.updated_at).where(_ITS_OWN, outbox.c.due_at.is_(None), outbox.c.dead.is_(False))
_SEARCHED_FOR = ("maybe_created", "create_requested_at", "announced_at")
"""Facts by which the writer searches for a comment or check run before it creates one."""
_SENT = or_(outbox.c.remote_id.is_not(None), outbox.c.maybe_created)
EXISTS = select(func.count()).select_from(outbox).where(_ITS_OWN, or_(_SENT, outbox.c.due_at.is_not(None)))
IS_WRITTEN = (
    select(func.count())
    .select_from(outbox)
    .where(_ITS_OWN, or_(_SENT, outbox.c.due_at.is_not(None), outbox.c.written.is_not(None), outbox.c.dead))
)
NEEDED = (
    update(outbox)
    .where(_ITS_OWN, outbox.c.remote_id.is_(None), outbox.c.announced_at.is_(None))
    .values(announced_at=bindparam("its_notice_at", type_=DatabaseInstant))
)
IS_SENT = select(func.count()).select_from(outbox).where(_ITS_OWN, _SENT)
SEARCH_FIRST = Upsert(outbox, lambda insert: insert.on_conflict_do_nothing(index_elements=NAME))
SEARCH_AGAIN = Upsert(
    outbox,
    lambda insert: insert.on_conflict_do_update(
        index_elements=NAME, set_={"maybe_created": True, "announced_at": None}
    ),
)
ADOPT = update(outbox).where(_ITS_OWN).values(remote_id=bindparam("its_remote"), maybe_created=False)
_OF_REPOSITORY = and_(outbox.c.repository_id == bindparam("its_repository_id"), outbox.c.lease_owner.is_(None))
HOLD_BACK = (
    update(outbox).where(_OF_REPOSITORY, outbox.c.due_at < _DUE).values(due_at=_DUE, error=bindparam("its_error"))
)
RELEASE = (
    update(outbox)
    .where(_OF_REPOSITORY, outbox.c.due_at > _DUE, outbox.c.error.is_not(None), outbox.c.dead.is_(False))
    .values(due_at=_DUE, attempts=0)
)
REVIVE = update(outbox).where(_ITS_OWN, outbox.c.dead)

_FIRST = (
    select(outbox.c.id)
    .where(outbox.c.due_at <= _NOW, or_(outbox.c.leased_until.is_(None), outbox.c.leased_until <= _NOW))
    .order_by(outbox.c.due_at, outbox.c.id)
    .limit(1)
    .with_for_update(skip_locked=True)
)
CLAIM = update(outbox).where(outbox.c.id == _FIRST.scalar_subquery()).returning(outbox.c.id)
CHANGE = update(outbox).where(outbox.c.id == _ID)
GET = select(outbox, *REPOSITORY_FIELDS[1:]).join(repositories).where(outbox.c.id == _ID)
_HELD = and_(outbox.c.id == _ID, outbox.c.lease_owner == bindparam("its_owner"))
SENT = delete(outbox).where(_HELD, outbox.c.version == bindparam("its_version"))
RELEASE_ALL = update(outbox).where(outbox.c.lease_owner.is_not(None)).values(lease_owner=None, leased_until=None)
_CLAIMABLE = case((outbox.c.leased_until > outbox.c.due_at, outbox.c.leased_until), else_=outbox.c.due_at)
NEXT_DUE = select(type_coerce(func.min(_CLAIMABLE), DatabaseInstant))
"""When the next item can be claimed."""

IS_QUEUED = (
    select(entries.c.seq)
    .where(entries.c.repository_id == outbox.c.repository_id, entries.c.number == outbox.c.number)
    .exists()
)
_RESTS = outbox.c.repository_id == bindparam("its_repository_id"), outbox.c.due_at.is_(None), outbox.c.dead.is_(False)
"""Items of a repository that GitHub has, and that are not to be sent again."""
_OF_PERIOD = (
    outbox.c.updated_at > bindparam("its_start", type_=DatabaseInstant),
    outbox.c.updated_at <= bindparam("its_end", type_=DatabaseInstant),
)
LEFT_UNFINISHED = (
    select(outbox.c.number, outbox.c.remote_head)
    .where(*_RESTS, outbox.c.kind == OutboxKind.CHECK_RUN, outbox.c.remote_id.is_not(None), ~IS_QUEUED)
    .order_by(outbox.c.number)
)
WRITTEN = select(outbox.c.number, outbox.c.remote_id).where(
    *_RESTS,
    *_OF_PERIOD,
    outbox.c.kind == OutboxKind.COMMENT,
    outbox.c.remote_id.is_not(None),
    outbox.c.notice.is_not(None),
)
WRITTEN_RUNS = (
    select(outbox.c.number, outbox.c.written, outbox.c.updated_at)
    .where(*_RESTS, *_OF_PERIOD, outbox.c.kind == OutboxKind.CHECK_RUN, outbox.c.written.is_not(None))
    .order_by(outbox.c.updated_at, outbox.c.number)
    .limit(bindparam("most"))
)
WRITE_AGAIN = (
    update(outbox)
    .where(
        _ITS_OWN, outbox.c.due_at.is_(None), outbox.c.updated_at == bindparam("its_written_at", type_=DatabaseInstant)
    )
    .values(due_at=_DUE, maybe_created=True, written=None, version=outbox.c.version + 1)
)
FORGET_RUN = update(outbox).where(_ITS_OWN).values(remote_id=None, remote_head=None)
PURGE = delete(outbox).where(outbox.c.due_at.is_(None), outbox.c.updated_at < bindparam("before"), ~IS_QUEUED)


@cache
def settle(names: tuple[str, ...], *, again: bool) -> Any:
    """End the lease, and set these columns of the claimed version: a newer version keeps its own.

    `again`: GitHub does not show the claimed version, so that a newer one is not put off any longer than that one.
    """
    newer = outbox.c.version != bindparam("its_version")
    given = {name: bindparam(f"its_{name}", type_=outbox.c[name].type) for name in names}
    kept = {name: case((newer, outbox.c[name]), else_=value) for name, value in given.items()}
    if again:
        sooner = and_(newer, outbox.c.due_at < given["due_at"])
        kept["due_at"] = case((sooner, outbox.c.due_at), else_=given["due_at"])
    return update(outbox).where(_HELD).values(lease_owner=None, leased_until=None, **kept).returning(outbox)


class Outbox:
    """The outbox, on one connection.

    After the lease ended, `done`, `retry` and `dead` change nothing, while facts about GitHub (`created`, `lost`) are
    always stored.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        due: Callable[[], None] = lambda: None,
        *,
        dead_letters: DeadLetters | None = None,
    ) -> None:
        """`due` is called for every stored item."""
        self._connection = connection
        self._due = due
        self._dead_letters = dead_letters or DeadLetters(connection)

    async def want(
        self,
        kind: OutboxKind,
        repository: Repository,
        number: int,
        *,
        due: datetime,
        notice: Notice,
    ) -> None:
        """Replace the desired state, to be sent at `due`, or sooner if an older state was to be sent sooner.

        The item's dead letter is discarded; known ids remain.
        """
        await self._want(kind, repository, number, due, notice=notice.model_dump(mode="json"))

    async def want_label(self, repository: Repository, number: int, label: str, *, on: bool, due: datetime) -> None:
        """Set or remove a label: the last call wins, also over a request that is under way."""
        wanted = await self.wanted_labels(repository.id, number)
        spelling = next((known for known in wanted if known.casefold() == label.casefold()), label)
        await self._want(OutboxKind.LABEL, repository, number, due, label=spelling, label_on=on)

    async def wanted_labels(self, repository_id: int, number: int) -> dict[str, bool]:
        """Return the wanted state of each label that GitHub has not confirmed."""
        its_own = {"its_repository_id": repository_id, "its_number": number}
        return {row.label: bool(row.label_on) for row in await self._connection.execute(LABELS, its_own)}

    async def _want(
        self,
        kind: OutboxKind,
        repository: Repository,
        number: int,
        due: datetime,
        *,
        notice: Mapping[str, Any] | None = None,
        label: str = "",
        label_on: bool | None = None,
    ) -> None:
        await remember(self._connection, repository)
        state = {
            "kind": kind,
            "repository_id": repository.id,
            "number": number,
            "notice": notice,
            "label": label,
            "label_on": label_on,
            "maybe_created": False,
            "version": 1,
            "attempts": 0,
            "error": None,
            "dead": False,
            "updated_at": due,
            "trace": trace.current(),
            "its_due": due,
        }
        await self._connection.execute(WANT.on(self._connection), state)
        await self._dead_letters.discard(dead_id(kind, repository.id, number, label))
        self._due()

    async def search_first(
        self, repository: Repository, number: int, now: datetime, *, kind: OutboxKind = OutboxKind.COMMENT
    ) -> None:
        """Search for a comment or check run before the first one is created, if none is known.

        One may exist from before the database was lost, or restored from a backup. A check run is searched for before
        the next one is created as well: each time in the queue has its own.
        """
        await remember(self._connection, repository)
        row = {
            "kind": kind,
            "repository_id": repository.id,
            "number": number,
            "maybe_created": True,
            "version": 1,
            "attempts": 0,
            "dead": False,
            "updated_at": now,
        }
        statement = SEARCH_AGAIN if kind is OutboxKind.CHECK_RUN else SEARCH_FIRST
        await self._connection.execute(statement.on(self._connection), row)

    async def adopt(self, repository_id: int, number: int, comment_id: int) -> None:
        """Write into this comment without a search, whatever it says."""
        its_own = _its_own(OutboxKind.COMMENT, repository_id, number)
        await self._connection.execute(ADOPT, {**its_own, "its_remote": comment_id})

    async def resend(
        self, repository_id: int, number: int, *, due: datetime, kind: OutboxKind = OutboxKind.COMMENT
    ) -> bool:
        """Send the comment or check run again at `due`, or sooner if it is; False if there is none."""
        its_own = _its_own(kind, repository_id, number)
        found = await self._connection.execute(AGAIN, {**its_own, "its_due": due})
        self._due()
        return found.rowcount == 1

    async def wanted(self, kind: OutboxKind, repository_id: int, number: int) -> Notice | None:
        """Return the desired notice, sent or not; None if there is none."""
        its_own = _its_own(kind, repository_id, number)
        found = (await self._connection.execute(WANTED, its_own)).scalar_one_or_none()
        return None if found is None else Notice.model_validate(found)

    async def check_run(self, repository_id: int, number: int) -> "CheckRunState | None":
        """Return the desired notice of the check run, and whether GitHub shows it; None if there is none."""
        its_own = _its_own(OutboxKind.CHECK_RUN, repository_id, number)
        row = (await self._connection.execute(SHOWN, its_own)).one_or_none()
        if row is None or row.notice is None:
            return None
        shown = row.due_at is None and not row.dead
        refused = row.dead or (row.error or "").startswith(Forbidden.__name__)
        return CheckRunState(Notice.model_validate(row.notice), shown=shown, error=row.error if refused else None)

    async def shown_since(self, kind: OutboxKind, repository_id: int, number: int) -> datetime | None:
        """Return since when GitHub shows the desired notice, by IMQ's records; None if it does not."""
        since = await self._connection.execute(SHOWN_SINCE, _its_own(kind, repository_id, number))
        found: datetime | None = since.scalar_one_or_none()
        return found

    async def written(self, repository_id: int, after: datetime, before: datetime) -> dict[int, int]:
        """Return the ids of the comments that IMQ wrote last between these instants, by pull request."""
        between = {"its_repository_id": repository_id, "its_start": after, "its_end": before}
        return {row.number: row.remote_id for row in await self._connection.execute(WRITTEN, between)}

    async def written_runs(
        self, repository_id: int, after: datetime, before: datetime, *, most: int
    ) -> tuple[OutboxRun, ...]:
        """Return the check runs that IMQ wrote last between these instants, the oldest write first."""
        between = {"its_repository_id": repository_id, "its_start": after, "its_end": before, "most": most}
        rows = await self._connection.execute(WRITTEN_RUNS, between)
        return tuple(OutboxRun(row.number, OwnCheckRun(**row.written), row.updated_at) for row in rows)

    async def write_again(self, repository_id: int, lost: OutboxRun, now: datetime, *, as_new: bool) -> bool:
        """Write a lost check run again (`as_new`: as another); False if it was written since, or is due."""
        its_own = _its_own(OutboxKind.CHECK_RUN, repository_id, lost.number)
        again = await self._connection.execute(WRITE_AGAIN, {**its_own, "its_due": now, "its_written_at": lost.at})
        if again.rowcount and as_new:
            await self._connection.execute(FORGET_RUN, its_own)
        self._due()
        return again.rowcount == 1

    async def left_unfinished(self, repository_id: int) -> Mapping[int, str]:
        """Return the pull requests in no queue with a check run that has not ended, and its head.

        No item is due to end it.
        """
        found = await self._connection.execute(LEFT_UNFINISHED, {"its_repository_id": repository_id})
        return {row.number: row.remote_head for row in found}

    async def exists(self, kind: OutboxKind, repository_id: int, number: int, *, sent: bool = False) -> bool:
        """Return whether the comment or check run exists on GitHub, or may; unless `sent`, or may soon."""
        statement = IS_SENT if sent else EXISTS
        return bool((await self._connection.execute(statement, _its_own(kind, repository_id, number))).scalar_one())

    async def is_written(self, repository_id: int, number: int) -> bool:
        """Return whether IMQ wrote the desired check run, will write it, or gave up; False if it only searched."""
        its_own = _its_own(OutboxKind.CHECK_RUN, repository_id, number)
        return bool((await self._connection.execute(IS_WRITTEN, its_own)).scalar_one())

    async def claim(self, *, owner: str, now: datetime, lease: timedelta) -> OutboxItem | None:
        """Claim the longest due item without a lease, until `now + lease`; None if there is none."""
        lent = {"now": now, "lease_owner": owner, "leased_until": now + lease}
        item_id = (await self._connection.execute(CLAIM, lent)).scalar_one_or_none()
        if item_id is None:
            return None
        row = (await self._connection.execute(GET, {"its_id": item_id})).one()
        try:
            return item_of(row)
        except ValidationError as error:
            # Written by another version of IMQ: it must not keep all others waiting for ever.
            values = {**_ended(str(error), row.attempts, now), "lease_owner": None, "leased_until": None}
            await self._connection.execute(CHANGE, {**values, "its_id": item_id})
            await self._dead_letters.put(dead_letter(row, str(error), now, attempts=row.attempts, retryable=False))
            return await self.claim(owner=owner, now=now, lease=lease)

    async def mark_maybe_created(self, item: OutboxItem, now: datetime | None = None) -> None:
        """Store that one exists for this notice, or is to be created `now`; commit before the request."""
        announced_at = None if item.notice is None else item.notice.at
        await self._save_delivery(item, maybe_created=True, create_requested_at=now, announced_at=announced_at)

    async def need_check_run(self, repository_id: int, number: int, notice_at: datetime) -> None:
        """Have the check run created for this notice where a search finds none."""
        its_own = _its_own(OutboxKind.CHECK_RUN, repository_id, number)
        await self._connection.execute(NEEDED, {**its_own, "its_notice_at": notice_at})

    async def refreshed(self, item: OutboxItem) -> OutboxItem:
        """Return the item with whether it has to be searched for, and created, as the database has it now."""
        row = (await self._connection.execute(GET, {"its_id": item.id})).one()
        facts = {name: row._mapping[name] for name in _SEARCHED_FOR}
        return replace(item, **facts)

    async def not_created(self, item: OutboxItem) -> None:
        """Restore the claimed facts: GitHub created nothing."""
        await self._save_delivery(item, **{name: getattr(item, name) for name in _SEARCHED_FOR})

    async def created(
        self,
        item: OutboxItem,
        remote_id: int,
        remote_head: str | None = None,
        *,
        superseded_id: int | None = None,
    ) -> None:
        """Store the id of the created or found comment or check run (and the commit of a check run).

        `superseded_id` is an older comment, which is to be deleted.
        """
        facts = {"remote_id": remote_id, "remote_head": remote_head, "superseded_id": superseded_id}
        await self._save_delivery(item, maybe_created=False, **facts)

    async def lost(self, item: OutboxItem) -> None:
        """Forget the id of a comment or check run that GitHub has no longer, so that it is created again."""
        await self._save_delivery(item, maybe_created=False, remote_id=None, remote_head=None)

    async def done(self, item: OutboxItem, now: datetime, *, written: OwnCheckRun | None = None) -> None:
        """Store that GitHub shows the claimed version: the item is due only if its state changed meanwhile.

        `written` is the check run as IMQ wrote it; None if it wrote none.
        """
        if item.kind is OutboxKind.LABEL:
            await self._connection.execute(SENT, _held(item))
        shown = None if written is None else asdict(written)
        settled = {"due_at": None, "attempts": 0, "error": None, "updated_at": now, "held_since": None}
        await self._settle(item, **settled, written=shown)

    async def retry(self, item: OutboxItem, *, at: datetime, error: str) -> None:
        """Make the item due again at `at`, after a failure that may be temporary; counts an attempt."""
        await self._settle(item, due_at=at, attempts=item.attempts + 1, error=error, held_since=None)

    async def hold(self, item: OutboxItem, *, at: datetime, since: datetime | None) -> None:
        """Make the item due again, without an attempt; `since`: a limit holds its words, which nothing else shows."""
        await self._settle(item, due_at=at, held_since=since)

    async def hold_back(self, repository_id: int, *, until: datetime, error: str) -> None:
        """Make no item of a repository due before `until`: GitHub refuses the repository as a whole."""
        held = {"its_repository_id": repository_id, "its_due": until, "its_error": error}
        await self._connection.execute(HOLD_BACK, held)

    async def release(self, repository_id: int, now: datetime) -> int:
        """Make the items of a repository due that wait after a failure, since GitHub may accept them now; how many."""
        released = await self._connection.execute(RELEASE, {"its_repository_id": repository_id, "its_due": now})
        self._due()
        return released.rowcount

    async def dead(self, item: OutboxItem, error: str, now: datetime, *, retryable: bool) -> None:
        """Move an item that failed for good to the dead letters, unless its desired state changed meanwhile."""
        attempts = item.attempts + 1
        row = await self._settle(item, **_ended(error, attempts, now))
        if row is not None and row.version == item.version:
            await self._dead_letters.put(dead_letter(row, error, now, attempts=attempts, retryable=retryable))

    async def requeue(self, its_name: Mapping[str, Any], now: datetime) -> bool:
        """Make a dead item due again, by the payload of its dead letter. False if the item is not dead any more."""
        kind, repository_id, number, label = (its_name[part] for part in NAME)
        again = {"due_at": now, "dead": False, "attempts": 0, "error": None, "updated_at": now}
        revived = await self._connection.execute(REVIVE, {**again, **_its_own(kind, repository_id, number, label)})
        # The item may have failed again since the statement above.
        await self._dead_letters.discard(dead_id(kind, repository_id, number, label))
        self._due()
        return revived.rowcount == 1

    async def next_due(self) -> datetime | None:
        """Return when the next item can be claimed: an instant that may be past; None if none waits."""
        return (await self._connection.execute(NEXT_DUE)).scalar_one()

    async def release_all(self) -> None:
        """End every lease: for the start of the only process on this database. Due times do not change."""
        await self._connection.execute(RELEASE_ALL)

    async def purge(self, before: datetime) -> int:
        """Delete items that were finished before then, of pull requests in no queue. Returns how many.

        IMQ forgets the ids of their comments too: choose a time after which people rarely queue a pull request again.
        """
        return (await self._connection.execute(PURGE, {"before": before})).rowcount

    async def _save_delivery(self, item: OutboxItem, **facts: object) -> None:
        await self._connection.execute(CHANGE, {**facts, "its_id": item.id})

    async def _settle(self, item: OutboxItem, **values: object) -> Row[Any] | None:
        """End the lease. `values` are for the claimed version; a newer one keeps its count, and a due time before them.

        Returns the present row, None if the lease was lost.
        """
        kept = {f"its_{name}": value for name, value in values.items()}
        ended = settle(tuple(values), again=values["due_at"] is not None)
        settled = await self._connection.execute(ended, {**kept, **_held(item)})
        row: Row[Any] | None = settled.one_or_none()
        return row


def _its_own(kind: str, repository_id: int, number: int, label: str = "") -> dict[str, Any]:
    return {"its_kind": kind, "its_repository_id": repository_id, "its_number": number, "its_label": label}


def _held(item: OutboxItem) -> dict[str, Any]:
    return {"its_id": item.id, "its_owner": item.owner, "its_version": item.version}


def _ended(error: str, attempts: int, now: datetime) -> dict[str, Any]:
    return {"due_at": None, "dead": True, "attempts": attempts, "error": error, "updated_at": now}


KEPT = timedelta(days=30)
"""How long a reply is stored: IMQ carries out no older command."""

_NEWEST = (
    select(answers)
    .where(answers.c.repository_id == bindparam("its_repository"), answers.c.number == bindparam("its_number"))
    .order_by(answers.c.at.desc(), answers.c.comment_id.desc())
    .limit(1)
)
_OF_COMMENT = _NEWEST.where(answers.c.comment_id == bindparam("its_comment"))
_LOCK_COMMENT = _OF_COMMENT.with_for_update()
_PURGE = delete(answers).where(answers.c.at < bindparam("before"))
_PUT = replacing(answers)


class CommandReplies(TableStore):
    async def put(self, repository_id: int, number: int, comment_id: int, answer: CommandReply) -> None:
        """Store the reply to a comment in place of an earlier one."""
        values = answer.model_dump(exclude={"replies"})
        values["replies"] = [reply.model_dump(mode="json") for reply in answer.replies]
        key = {"repository_id": repository_id, "number": number, "comment_id": comment_id}
        await self._connection.execute(_PUT.on(self._connection), {**key, **values})

    async def find(self, repository_id: int, number: int, *, comment_id: int | None = None) -> CommandReply | None:
        """Return the newest reply on this pull request; with `comment_id` the reply to that comment."""
        its_own = {"its_repository": repository_id, "its_number": number}
        if comment_id is None:
            return await self._read(_NEWEST, its_own)
        return await self._read(_OF_COMMENT, {**its_own, "its_comment": comment_id})

    async def lock(self, repository_id: int, number: int, comment_id: int) -> CommandReply | None:
        """Return the reply to a comment, which no other transaction changes until this one ends."""
        its_own = {"its_repository": repository_id, "its_number": number, "its_comment": comment_id}
        return await self._read(_LOCK_COMMENT, its_own)

    async def _read(self, statement: Select[Any], values: Mapping[str, int]) -> CommandReply | None:
        row = (await self._connection.execute(statement, values)).one_or_none()
        return None if row is None else CommandReply.model_validate(dict(row._mapping))

    async def purge(self, before: datetime) -> int:
        """Delete the replies from before then. Returns how many."""
        return (await self._connection.execute(_PURGE, {"before": before})).rowcount
