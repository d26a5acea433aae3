"""The records of landings, and the keys that sign them. Records expire by a setting of their own; keys never do."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Row, Select, bindparam, delete, exists, insert, select, tuple_, update

from queue_engine.core.database.database import TableStore, Upsert, record_in, values_of
from queue_engine.domain.landing_record import LandingKey, LandingRecord, LandingResult
from queue_engine.store.tables import landing_keys, landings

Place = tuple[datetime, int]
"""The position of a landing in a list, the latest first: when it was, and its id."""

_ADD = insert(landings)
_NAMES = tuple(column.name for column in landings.columns if column.name != "id")
_ADD_SIGNED = (
    insert(landings)
    .from_select(
        _NAMES,
        select(*(bindparam(name, type_=landings.c[name].type).label(name) for name in _NAMES)).where(
            exists().where(landing_keys.c.id == bindparam("key_id"), landing_keys.c.until.is_(None))
        ),
    )
    .execution_options(preserve_rowcount=True)
)
_ALL = select(landings)
_REPOSITORY = landings.c.repository_id == bindparam("its_repository", type_=BigInteger)
_BY_SHA = _ALL.where(_REPOSITORY, landings.c.sha == bindparam("its_sha")).order_by(landings.c.id)
_BY_TREE = _ALL.where(_REPOSITORY, landings.c.tree == bindparam("its_tree")).order_by(landings.c.id)
_BY_NUMBER = _ALL.where(_REPOSITORY, landings.c.number == bindparam("its_number")).order_by(landings.c.id)
_OLDEST = (
    select(landings.c.id)
    .where(landings.c.at < bindparam("before"))
    .order_by(landings.c.at)
    .limit(bindparam("at_most", type_=BigInteger))
)
_PURGE = delete(landings).where(landings.c.id.in_(_OLDEST))
_CURRENT = (
    select(landing_keys)
    .where(landing_keys.c.until.is_(None))
    .order_by(landing_keys.c.since.desc(), landing_keys.c.id)
    .limit(1)
)
_KEYS = select(landing_keys).order_by(landing_keys.c.since, landing_keys.c.id)
_RETIRE = update(landing_keys).where(landing_keys.c.until.is_(None)).values(until=bindparam("its_end"), sealed=None)
_ADD_KEY = Upsert(landing_keys, lambda insert: insert.on_conflict_do_nothing(index_elements=["id"]))


class LandingRecords(TableStore):
    async def add(self, record: Mapping[str, Any], at: datetime, key_id: str | None, signatures: Sequence[str]) -> bool:
        """Store a landing with its passport's signatures; False, without a change, if another key signs by now."""
        landed = record["landed"]
        row = {
            "repository_id": record["repository"]["id"],
            "base_branch": record["base"]["branch"],
            "number": record["members"][-1]["number"],
            "sha": landed["commit"],
            "tree": landed["tree"],
            "at": at,
            "result": record["verdict"]["result"],
            "record": json.dumps(record, sort_keys=True, separators=(",", ":")),
            "key_id": key_id,
            "signatures": list(signatures) or None,
        }
        if key_id is None:
            await self._connection.execute(_ADD, row)
            return True
        return (await self._connection.execute(_ADD_SIGNED, row)).rowcount == 1

    async def of_commit(self, repository_id: int, sha: str) -> tuple[LandingRecord, ...]:
        """Return the landings that made this commit: one, but for a pull request that added nothing."""
        return await self._read(_BY_SHA, its_repository=repository_id, its_sha=sha)

    async def of_tree(self, repository_id: int, tree: str) -> tuple[LandingRecord, ...]:
        """Return the landings after which the base had this tree, oldest first."""
        return await self._read(_BY_TREE, its_repository=repository_id, its_tree=tree)

    async def of_pull_request(self, repository_id: int, number: int) -> tuple[LandingRecord, ...]:
        """Return the landings of a pull request, oldest first."""
        return await self._read(_BY_NUMBER, its_repository=repository_id, its_number=number)

    async def latest(
        self, repository_id: int, limit: int, *, base_branch: str | None = None, after: Place | None = None
    ) -> tuple[LandingRecord, ...]:
        """Return the latest landings of a repository, or of one branch; `after` is where the page before ended."""
        chosen = _ALL.where(landings.c.repository_id == repository_id)
        if base_branch is not None:
            chosen = chosen.where(landings.c.base_branch == base_branch)
        if after is not None:
            chosen = chosen.where(tuple_(landings.c.at, landings.c.id) < after)
        return await self._read(chosen.order_by(landings.c.at.desc(), landings.c.id.desc()).limit(limit))

    async def since(
        self, instant: datetime | None, limit: int, *, repository_id: int | None = None, after: int = 0
    ) -> tuple[LandingRecord, ...]:
        """Return landings from an instant on, in the order in which they were stored; `after` is the last one's id."""
        chosen = _ALL.where(landings.c.id > after)
        if instant is not None:
            chosen = chosen.where(landings.c.at >= instant)
        if repository_id is not None:
            chosen = chosen.where(landings.c.repository_id == repository_id)
        return await self._read(chosen.order_by(landings.c.id).limit(limit))

    async def purge(self, before: datetime, *, at_most: int) -> int:
        """Delete the oldest records from before this instant. Returns how many."""
        return (await self._connection.execute(_PURGE, {"before": before, "at_most": at_most})).rowcount

    async def _read(self, statement: Select[Any], **its_own: object) -> tuple[LandingRecord, ...]:
        return tuple(_record_of(row) for row in await self._connection.execute(statement, its_own))


def _record_of(row: Row[Any]) -> LandingRecord:
    result, signatures = LandingResult(row.result), tuple(row.signatures or ())
    return record_in(LandingRecord, row, result=result, record=_read(row.record), signatures=signatures)


def _read(text: str) -> Mapping[str, Any]:
    """Read a record; empty if its row was damaged, so that its passport proves nothing."""
    try:
        read = json.loads(text)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


class LandingKeys(TableStore):
    async def current(self) -> LandingKey | None:
        """Return the key that signs now."""
        row = (await self._connection.execute(_CURRENT)).one_or_none()
        return None if row is None else record_in(LandingKey, row)

    async def all(self) -> tuple[LandingKey, ...]:
        """Return every key, the first one first."""
        return tuple(record_in(LandingKey, row) for row in await self._connection.execute(_KEYS))

    async def add(self, key: LandingKey) -> None:
        """Have a new key sign from now on: the private part of any other one is deleted, its public part stays."""
        await self._connection.execute(_RETIRE, {"its_end": key.since})
        await self._connection.execute(_ADD_KEY.on(self._connection), values_of(key))
