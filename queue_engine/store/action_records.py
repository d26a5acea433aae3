"""Records of actions that are no event of a queue, read together with the events that people cause: who did what.

A record is stored in the transaction of its action.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from heapq import merge
from itertools import islice
from typing import Any, Literal

from sqlalchemy import Integer, Row, Select, and_, bindparam, delete, insert, or_, select, true

from queue_engine.core.database.database import TableStore
from queue_engine.domain.culprit import REVERTED
from queue_engine.domain.model import WHOLE_QUEUE, Repository
from queue_engine.store.tables import audit_log, repositories, timeline

FIRST = datetime(2000, 1, 1, tzinfo=UTC)
"""Before anything that IMQ has stored."""


class ActionKind(StrEnum):
    """What somebody did."""

    TOKEN_CREATED = "token_created"  # noqa: S105
    TOKEN_REVOKED = "token_revoked"  # noqa: S105
    LOGGED_IN = "logged_in"
    LOGGED_OUT = "logged_out"
    CONFIGURATION_CHANGED = "configuration_changed"
    SIGNING_KEY_CREATED = "signing_key_created"
    APP_REGISTERED = "app_registered"
    QUEUE_RESUMED = "queue_resumed"
    """By the command line. The other ways to resume a queue are events of the timeline, with their person."""
    DEAD_LETTER_RETRIED = "dead_letter_retried"
    DEAD_LETTER_DISCARDED = "dead_letter_discarded"


Via = Literal["command_line", "api", "login", "page", "github", "imq"]
"""How it was done. `login` is the device flow, `github` a webhook, `imq` IMQ by itself."""


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """An action. `subject` names the token, key, App, branch or dead letter; `data` depends on the action.

    `by` is a login, the name of a token without a person, or an account of the operating system (`command_line`).
    """

    at: datetime
    action: str
    by: str | None
    via: Via | None = None
    """None for an event of the timeline."""
    subject: str | None = None
    repository: str | None = None
    """As `owner/name`; None if the action is of no repository, or IMQ no longer knows its name."""
    base_branch: str | None = None
    number: int | None = None
    reason: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    """Names the action for good."""

    @property
    def place(self) -> tuple[datetime, str]:
        """Return its position in the log, after which the next page begins."""
        return self.at, self.id


_CAUSED = (
    *("queued", "held", "not_ready", "refused", "cancelled", "failed", "landed", "landed_outside"),
    *("priority", "paused", "resumed", REVERTED),
)
"""Events that people cause, or that answer what they did."""
_DEQUEUES = ("cancelled", "failed")
"""Events whose `by` is who queued; `dequeued_by` is who dequeued."""

_ADD = insert(audit_log)
_PURGE = delete(audit_log).where(audit_log.c.at < bindparam("before"))
_ACTION, _EVENT = "action", "event"
"""Beginnings of ids. Of one instant, records come before events."""


def _page(what: Select[Any], table: Any) -> Select[Any]:
    names = repositories.c.owner, repositories.c.name
    named = what.add_columns(*names).outerjoin(repositories, repositories.c.id == table.c.repository_id)
    return (
        named.where(table.c.at >= bindparam("since"))
        .order_by(table.c.at, table.c.id)
        .limit(bindparam("at_most", type_=Integer))
    )


class ActionRecords(TableStore):
    async def add(
        self,
        action: ActionKind,
        subject: str,
        *,
        by: str | None,
        via: Via,
        at: datetime,
        repository: Repository | None = None,
        base_branch: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Store what somebody did."""
        place = {"repository_id": None if repository is None else repository.id, "base_branch": base_branch}
        what = {"action": action.value, "subject": subject, "data": dict(data or {}) or None}
        await self._connection.execute(_ADD, {"at": at, "by": by, "via": via, **what, **place})

    async def page(
        self, since: datetime, *, limit: int, after: tuple[datetime, str] | None = None
    ) -> tuple[ActionRecord, ...]:
        """Return `limit` actions behind the one of this instant and id, oldest first. Raises ValueError for no such."""
        kind, number = _parsed(after)
        # Built here: few processes read them, and each would hold them from its start on.
        records = _page(select(audit_log), audit_log)
        events = _page(select(timeline).where(timeline.c.event.in_(_CAUSED)), timeline)
        values: dict[str, Any] = {"since": since, "at_most": limit}
        if after is not None:
            values |= {"since": max(since, after[0]), "after_at": after[0], "after_id": number}
            records = records.where(_behind(audit_log, same_instant=kind == _ACTION))
            events = events.where(_behind(timeline, same_instant=True) if kind == _EVENT else true())
        found = [
            [_record(row) for row in await self._connection.execute(records, values)],
            [_event(row) for row in await self._connection.execute(events, values)],
        ]
        return tuple(islice(merge(*found, key=lambda each: each.at), limit))

    async def purge(self, before: datetime) -> None:
        """Delete the records until then; the timeline has a purge of its own."""
        await self._connection.execute(_PURGE, {"before": before})


def _parsed(after: tuple[datetime, str] | None) -> tuple[str, int]:
    kind, _, number = (_ACTION, "", "0") if after is None else after[1].partition("-")
    if kind not in {_ACTION, _EVENT} or not (number.isascii() and number.isdigit()) or int(number) >= 2**63:
        raise ValueError(f"{kind}-{number} is no action's id")
    return kind, int(number)


def _behind(table: Any, *, same_instant: bool) -> Any:
    """Select what follows the last action of a page; of its own instant only where the page may have left some out."""
    later = table.c.at > bindparam("after_at")
    alike = and_(table.c.at == bindparam("after_at"), table.c.id > bindparam("after_id"))
    return or_(later, alike) if same_instant else later


def _name(row: Row[Any]) -> str | None:
    return None if row.owner is None else f"{row.owner}/{row.name}"


def _record(row: Row[Any]) -> ActionRecord:
    own = {"subject": row.subject, "base_branch": row.base_branch, "data": row.data or {}}
    return ActionRecord(row.at, row.action, row.by, row.via, **own, repository=_name(row), id=f"{_ACTION}-{row.id}")


def _event(row: Row[Any]) -> ActionRecord:
    data = row.data or {}
    return ActionRecord(
        row.at,
        row.event,
        data.get("dequeued_by" if row.event in _DEQUEUES else "by"),
        repository=_name(row),
        base_branch=row.base_branch,
        number=None if row.number == WHOLE_QUEUE else row.number,
        reason=row.reason,
        data=data,
        id=f"{_EVENT}-{row.id}",
    )
