"""Retry or discard failed requests, for people."""

from queue_engine.effects.context import Change, Engine
from queue_engine.queries.requests import RequestStatus
from queue_engine.store.requests import RequestKind, RequestRecord


async def retry_request(engine: Engine, request: RequestStatus, by: str) -> bool:
    """Make a failed request pending again, as if it had never been tried; False if it is not failed any more.

    The retry is itself a request of this person, so that IMQ knows the request once it is done.
    """
    async with engine.change() as change:
        if not await _retry(change, request, by):
            return False
    engine.meter.count("user_retries", kind=request.kind)
    return True


async def discard_request(engine: Engine, request: RequestStatus) -> bool:
    """Delete the dead letter of a failed request for good; False if there is none any more."""
    async with engine.change() as change:
        return request.letter_id is not None and await change.tx.dead_letters.discard(request.letter_id)


async def _retry(change: Change, request: RequestStatus, by: str) -> bool:
    if request.letter_id is None or not await change.tx.dead_letters.reprocess(request.letter_id, change.now):
        return False
    if request.repository is not None and request.number is not None and request.id == request.letter_id:
        known = RequestRecord(
            id=request.letter_id,
            repository=request.repository,
            number=request.number,
            kind=RequestKind.RETRY,
            asked=request.kind,
            asked_by=by,
            asked_at=change.now,
        )
        await change.tx.requests.add([known])
    return True
