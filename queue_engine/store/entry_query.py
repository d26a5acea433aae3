"""Select entries with their positions, and read them from rows."""

from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Integer, Row, Select, and_, cast, func, select

from queue_engine.domain.model import Entry, EntryStatus, QueueFront
from queue_engine.domain.unmet_requirement import UnmetRequirement
from queue_engine.store.order import HELD, IN_ORDER
from queue_engine.store.repositories import REPOSITORY_FIELDS, repository_of
from queue_engine.store.runs import RUN_FIELDS, run_of
from queue_engine.store.tables import entries, queues, repositories, runs

STORED = frozenset(Entry.__dataclass_fields__) & frozenset(entries.c.keys())
"""The fields of an entry that its own row has."""

_NAMES = tuple(name for name in entries.c.keys() if name in STORED)  # noqa: SIM118 - a collection, no mapping
_VALUES = itemgetter(*(index for index, name in enumerate(entries.c.keys()) if name in STORED))
"""Reads the values of `_NAMES` from a row of `in_order`, which begins with all columns of `entries`."""


_POSITION = (func.row_number().over(partition_by=entries.c.queue_id, order_by=IN_ORDER) - 1).label("position")
_WAITS_BEHIND = and_(
    entries.c.status == EntryStatus.PENDING,
    entries.c.run_id.is_(None),
    ~entries.c.hotfix,
    entries.c.blocked_until.is_(None),
    ~HELD,
)
"""Whether an entry behind the front changes nothing while the front waits."""


def placed(scope: ColumnElement[bool]) -> Any:
    """Select entries with their positions. `scope` covers whole queues, so that row numbers are positions."""
    return select(entries, _POSITION).where(scope).subquery("placed")


def fronts(scope: ColumnElement[bool]) -> Select[Any]:
    """Select the first entry of each queue, with the columns that `front_of` reads. `scope` covers whole queues."""
    waits = cast(_WAITS_BEHIND, Integer)
    total, waiting = (each.over(partition_by=entries.c.queue_id) for each in (func.count(), func.sum(waits)))
    columns = (total.label("total"), waiting.label("waiting"), waits.label("waits"))
    rows = select(entries, _POSITION, *columns).where(scope).subquery("fronts")
    return in_order(rows, rows.c.position == 0)


def in_order(rows: Any, *chosen: ColumnElement[bool]) -> Select[Any]:
    """Select the `chosen` of these entries, with the columns that `entry_of` reads."""
    return (
        select(rows, queues.c.base_branch, *REPOSITORY_FIELDS[1:], *RUN_FIELDS)
        .join(queues, queues.c.id == rows.c.queue_id)
        .join(repositories, repositories.c.id == rows.c.repository_id)
        .outerjoin(runs, runs.c.id == rows.c.run_id)
        .where(*chosen)
        .order_by(rows.c.queue_id, rows.c.position)
    )


def entry_of(row: Row[Any]) -> Entry:
    """Read the entry from a row of `in_order`."""
    # By index: a wake-up of all queues reads tens of thousands of entries, and by name each takes ten times as long.
    values: dict[str, Any] = dict(zip(_NAMES, _VALUES(row), strict=True))
    values["status"] = EntryStatus(row.status)
    values["trusted_labels"] = tuple(row.trusted_labels)
    values["unmet"] = UnmetRequirement.all_of(row.unmet)
    surroundings = {"repository": repository_of(row), "base_branch": row.base_branch, "position": row.position}
    return Entry(**values, **surroundings, run=run_of(row))


def front_of(row: Row[Any]) -> QueueFront:
    """Read the front from a row of `fronts`."""
    others_wait = row.waiting - row.waits == row.total - 1
    return QueueFront(entry_of(row), row.total, others_wait)
