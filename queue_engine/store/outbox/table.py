"""Statements of the outbox, each built once."""

from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    and_,
    bindparam,
    case,
    delete,
    func,
    or_,
    select,
    type_coerce,
    update,
)

from queue_engine.core.database.database import DatabaseInstant, Insert, Upsert
from queue_engine.store.outbox.items import NAME, OutboxKind
from queue_engine.store.repositories import REPOSITORY_FIELDS
from queue_engine.store.tables import entries, outbox, repositories

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
_BEGUN = or_(outbox.c.remote_id.is_not(None), outbox.c.maybe_created, outbox.c.due_at.is_not(None))
EXISTS = select(func.count()).select_from(outbox).where(_ITS_OWN, _BEGUN)
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
LEFT_UNFINISHED = (
    select(outbox.c.number)
    .where(
        outbox.c.repository_id == bindparam("its_repository_id"),
        outbox.c.kind == OutboxKind.CHECK_RUN,
        outbox.c.remote_id.is_not(None),
        outbox.c.due_at.is_(None),
        outbox.c.dead.is_(False),
        ~IS_QUEUED,
    )
    .order_by(outbox.c.number)
)
WRITTEN = select(outbox.c.number, outbox.c.remote_id).where(
    outbox.c.repository_id == bindparam("its_repository_id"),
    outbox.c.kind == OutboxKind.COMMENT,
    outbox.c.remote_id.is_not(None),
    outbox.c.notice.is_not(None),
    outbox.c.due_at.is_(None),
    outbox.c.dead.is_(False),
    outbox.c.updated_at > bindparam("its_start", type_=DatabaseInstant),
    outbox.c.updated_at <= bindparam("its_end", type_=DatabaseInstant),
)
PURGE = delete(outbox).where(outbox.c.due_at.is_(None), outbox.c.updated_at < bindparam("before"), ~IS_QUEUED)


@cache
def settle(names: tuple[str, ...]) -> Any:
    """End the lease, and set these columns of the claimed version: a newer version keeps its own."""
    newer = outbox.c.version != bindparam("its_version")
    kept = {
        name: case((newer, outbox.c[name]), else_=bindparam(f"its_{name}", type_=outbox.c[name].type)) for name in names
    }
    return update(outbox).where(_HELD).values(lease_owner=None, leased_until=None, **kept).returning(outbox)
