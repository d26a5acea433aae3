"""Idempotency keys: a request that is sent twice runs once, and both get the same answer.

A key is begun before the work and finished with its answer, best in the transaction of the work itself: then either
both are stored or neither. While it runs it is leased, so that a process that dies does not keep it for ever; and
fenced, so that one that lost it to another cannot finish. A key that has expired counts as not there.

One table serves deliveries (scope `webhook`) and the calls of each token. Taking over an expired key is one
statement, so that of two callers at one instant one runs. A job of its own drops keys older than 72 hours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Executable,
    Integer,
    String,
    Table,
    and_,
    bindparam,
    delete,
    or_,
    select,
    update,
)

from queue_engine.core.database.database import DatabaseInstant, Insert, TableStore, Upsert, metadata
from queue_engine.core.database.instants import InstantKind, instant
from queue_engine.core.observability.log import logged

KEPT = timedelta(hours=72)
"""How long a key is remembered; after that the same key is a new request."""

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("scope", String(64), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("endpoint", String(255), nullable=False),
    Column("request_hash", String(64)),
    Column("response_status", Integer),
    Column("response_body", JSON(none_as_null=True)),
    Column("owner", String(32)),
    Column("running_until", DatabaseInstant, info=instant(InstantKind.WAIT)),
    Column("created_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("expires_at", DatabaseInstant, nullable=False, index=True, info=instant(InstantKind.KEPT)),
)
"""One row for each key in its scope: a caller of the API, or the webhooks. Without a status it is still running."""

_keys = idempotency_keys.c


class KeyLost(Exception):
    """The lease on this key ended and another has it now, or its answer is stored: roll back."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key: the caller does the work, and then calls `finish` or `abandon`."""

    scope: str
    key: str
    owner: str


@dataclass(frozen=True, slots=True)
class KeyReply:
    """The stored answer of a request that was done before."""

    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class KeyConflict:
    """The key belongs to another request: another endpoint, or another body."""


@dataclass(frozen=True, slots=True)
class KeyHeld:
    """It is being done right now, for at most `retry_after` before its lease ends."""

    retry_after: timedelta


Begun = NewKey | KeyReply | KeyConflict | KeyHeld


@logged("keys")
class Keys(TableStore):
    """Idempotency keys, read and written in the transaction of one connection."""

    async def begin(
        self, scope: str, key: str, *, endpoint: str, request_hash: str, now: datetime, lease: timedelta
    ) -> Begun:
        """Claim the key for this request until `now + lease`, or return why not. Commit before the work begins.

        Of two at the same instant one gets it. A request whose lease has ended may be done again, by the next
        caller that sends it.
        """
        begun = {
            "scope": scope,
            "key": key,
            "endpoint": endpoint,
            "request_hash": request_hash,
            "response_status": None,
            "response_body": None,
            "owner": uuid4().hex,
            "running_until": now + lease,
            "created_at": now,
            "expires_at": now + KEPT,
        }
        taken = await self._connection.execute(_BEGIN.on(self._connection), begun)
        if (owner := taken.scalar_one_or_none()) is not None:
            return NewKey(scope, key, owner)
        # It stays until this transaction ends: the statement above has locked it.
        row = (await self._connection.execute(_GET, {"its_scope": scope, "its_key": key})).one()
        if (row.endpoint, row.request_hash) != (endpoint, request_hash):
            return KeyConflict()
        if row.response_status is not None:
            return KeyReply(row.response_status, row.response_body)
        return KeyHeld(row.running_until - now)

    async def renew(self, new: NewKey, until: datetime) -> bool:
        """Prolong a lease. False when it is no longer this owner's."""
        return (await self._connection.execute(_CHANGE, {"running_until": until, **_running(new)})).rowcount == 1

    async def finish(self, new: NewKey, *, status: int, body: Any) -> None:
        """Store the answer, which every repetition gets until the key expires. Raises KeyLost."""
        answer = {"response_status": status, "response_body": body, "owner": None, "running_until": None}
        if (await self._connection.execute(_CHANGE, {**answer, **_running(new)})).rowcount != 1:
            raise KeyLost(f"the idempotency key {new.key} of {new.scope} is no longer ours")

    async def abandon(self, new: NewKey) -> None:
        """The work failed before it had an effect: the key is free again, unless it is no longer ours."""
        await self._connection.execute(_ABANDON, _running(new))

    async def record(self, scope: str, received: Sequence[tuple[str, str]], now: datetime) -> frozenset[str]:
        """Remember requests that are answered with 202 by being stored, each a key and its endpoint.

        Returns the keys that were not known. The caller that stored a known one also stored its effects.
        """
        # In one order for all processes, so that two that store the same keys do not deadlock.
        times = {"created_at": now, "expires_at": now + KEPT}
        values = [
            {"scope": scope, "key": key, "endpoint": endpoint, "response_status": 202, **times}
            for key, endpoint in sorted(received)
        ]
        recorded = await self._connection.execute(_RECORD.on(self._connection), values)
        return frozenset(recorded.scalars())

    async def known(self, scope: str, key: str, now: datetime) -> bool:
        """Whether this key is remembered."""
        its_own = {"its_scope": scope, "its_key": key, "now": now}
        return (await self._connection.execute(_KNOWN, its_own)).one_or_none() is not None

    async def forget(self, scope: str, key: str) -> None:
        """Forget a key, since its request had no effect."""
        await self._connection.execute(_FORGET, {"its_scope": scope, "its_key": key})

    async def any_in(self, scope: str) -> bool:
        """Whether any request of this scope is remembered."""
        return (await self._connection.execute(_ANY, {"its_scope": scope})).first() is not None

    async def purge(self, now: datetime) -> int:
        """Delete expired keys. Returns how many."""
        return (await self._connection.execute(_PURGE, {"now": now})).rowcount


def _replace(insert: Insert, free: ColumnElement[bool], returned: Column[str]) -> Executable:
    """Store a key, also over one that is `free`, in one statement, so that no other process can intervene."""
    values = {column.name: insert.excluded[column.name] for column in _keys if not column.primary_key}
    return insert.on_conflict_do_update(index_elements=["scope", "key"], set_=values, where=free).returning(returned)


def _free_for(request: Any) -> ColumnElement[bool]:
    """The key has expired; or its lease has ended, and this is the same request again."""
    return or_(
        _expired(request),
        and_(
            _keys.running_until <= request.created_at,
            _keys.endpoint == request.endpoint,
            _keys.request_hash == request.request_hash,
        ),
    )


def _expired(request: Any) -> ColumnElement[bool]:
    expired: ColumnElement[bool] = _keys.expires_at <= request.created_at
    return expired


_BEGIN = Upsert(idempotency_keys, lambda insert: _replace(insert, _free_for(insert.excluded), _keys.owner))
_RECORD = Upsert(idempotency_keys, lambda insert: _replace(insert, _expired(insert.excluded), _keys.key))
_ITS_OWN = and_(_keys.scope == bindparam("its_scope"), _keys.key == bindparam("its_key"))
_RUNNING = and_(_ITS_OWN, _keys.owner == bindparam("its_owner"))
_GET = select(idempotency_keys).where(_ITS_OWN)
_CHANGE = update(idempotency_keys).where(_RUNNING)
_ABANDON = delete(idempotency_keys).where(_RUNNING)
_KNOWN = select(_keys.key).where(_ITS_OWN, _keys.expires_at > bindparam("now"))
_ANY = select(_keys.key).where(_keys.scope == bindparam("its_scope")).limit(1)
_FORGET = delete(idempotency_keys).where(_ITS_OWN)
_PURGE = delete(idempotency_keys).where(_keys.expires_at <= bindparam("now"))


def _running(new: NewKey) -> dict[str, str]:
    """The key is still under the claim that `new` stands for; one with an answer has no owner and no lease."""
    return {"its_scope": new.scope, "its_key": new.key, "its_owner": new.owner}
