"""Retry and discard dead letters, and record who asked and by which way.

Everything happens within the caller's transaction.
"""

from dataclasses import dataclass
from datetime import datetime

from queue_engine.queries.request_status import RequestStatus
from queue_engine.store import Transaction
from queue_engine.store.action_records import ActionKind, Via
from queue_engine.store.request_records import RequestKind, RequestRecord


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks, as an `ActionRecord` names them, and the name of their token."""

    by: str | None
    via: Via
    token: str | None = None


async def retry(tx: Transaction, letter_id: str | None, actor: Actor, now: datetime) -> int:
    """Make this dead letter a job again, as if it had never been tried; None: all retryable ones. Returns how many."""
    if count := await tx.dead_letters.reprocess(letter_id, now):
        await _record(tx, ActionKind.DEAD_LETTER_RETRIED, letter_id, actor, now, count)
    return count


async def discard(tx: Transaction, letter_id: str, actor: Actor, now: datetime) -> bool:
    """Delete this dead letter for good; False if there is none."""
    if found := await tx.dead_letters.discard(letter_id):
        await _record(tx, ActionKind.DEAD_LETTER_DISCARDED, letter_id, actor, now, 1)
    return found


async def _record(
    tx: Transaction, kind: ActionKind, letter_id: str | None, actor: Actor, now: datetime, count: int
) -> None:
    data: dict[str, str | int] = {} if actor.token is None else {"token": actor.token}
    if letter_id is None:
        data["count"] = count
    await tx.actions.add(kind, letter_id or "all", by=actor.by, via=actor.via, at=now, data=data)


async def retry_request(tx: Transaction, request: RequestStatus, now: datetime, *, by: str) -> bool:
    """Make a failed request pending again, as a request of this person; False if it is not failed any more."""
    if request.letter_id is None or not await retry(tx, request.letter_id, Actor(by, "page"), now):
        return False
    if request.repository is not None and request.number is not None and request.id == request.letter_id:
        known = RequestRecord(
            id=request.letter_id,
            repository=request.repository,
            number=request.number,
            kind=RequestKind.RETRY,
            asked=request.kind,
            asked_by=by,
            asked_at=now,
        )
        await tx.requests.add([known])
    return True
