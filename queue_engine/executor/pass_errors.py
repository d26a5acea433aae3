"""P5: count and retry an unexpected error in a pass, within a bound, so that it blocks no queue.

The count is stored with the queue and survives restarts. When the passes on an entry have failed for `LIMIT`, the entry
is dequeued with `internal_error`, and the next one is processed. A fault of the database does not count.
"""

from datetime import datetime, timedelta

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.database.outage import fault_of
from queue_engine.core.observability import trace
from queue_engine.core.timing.backoff import Backoff, wait
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.errors import GitHubError, StaleRecord
from queue_engine.domain.model import Entry, Queue
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Engine

_log = structlog.get_logger("imq.pass_errors")

BACKOFF = Backoff(base=timedelta(seconds=5), factor=3, maximum=timedelta(minutes=5))
"""Waits between the passes of a queue whose passes fail."""

LIMIT = timedelta(minutes=10)
"""For how long passes may fail on an entry before it is dequeued."""


class LeaseLost(Exception):
    """Another worker has the queue's lease now; the pass ends without another step."""


_IN_DOUBT = 6
"""How many times longer passes may fail while the answer to a merge request is lost: only a pass finds the outcome."""

_AFTER_A_FAULT = timedelta(seconds=1)
"""When a queue is advanced again after a fault of the database. While the fault lasts nothing can be stored, and the
queue is due when its lease ends."""


class PassError(Exception):
    """A pass met an unexpected error, which is its cause. `entry` is the front, if the pass had selected one."""

    def __init__(self, entry: Entry | None) -> None:
        super().__init__("a pass met an unexpected error")
        self.entry = entry


async def on_error(engine: Engine, queue: Queue, error: Exception) -> datetime:
    """Count an unexpected error of a pass; beyond the limit dequeue its entry, or pause its queue.

    Returns when to advance the queue again. Raises errors of the database.
    """
    now = engine.clock.now()
    if fault_of(error) is not None:
        return now + _AFTER_A_FAULT
    entry = error.entry if isinstance(error, PassError) else None
    engine.meter.count("pass_errors", on="queue" if entry is None else "entry")
    async with engine.store.transaction() as tx:
        errors, since = await tx.queues.count_error(queue.id, now)
    cause = error.__cause__ or error
    if now - since < LIMIT * (_IN_DOUBT if entry is not None and entry.run.merge_requested_at is not None else 1):
        return now + wait(BACKOFF, errors - 1, random=engine.random)
    if entry is None:
        await _pause(engine, queue, cause)
    else:
        await _dequeue(engine, entry, cause)
    return now


async def _dequeue(engine: Engine, entry: Entry, cause: BaseException) -> None:
    policy = await _policy(engine, entry)
    why = DequeueReason(Reason.INTERNAL_ERROR, _detail(entry.trace, cause), delivery=entry.delivery)
    _log.error("internal_error", repository=entry.repository.full_name, number=entry.number, detail=why.detail)
    try:
        await _dequeue_present(engine, entry, why, policy)
    except StaleRecord:
        # The entry changed meanwhile: the next pass reads it again.
        return
    except Exception as error:
        if fault_of(error) is not None:
            raise
        # The notice is made from the same entry, and may cause the error.
        _log.exception("dequeue_failed", repository=entry.repository.full_name, number=entry.number)
        await _dequeue_present(engine, entry, why, None)


async def _dequeue_present(engine: Engine, entry: Entry, why: DequeueReason, policy: Policy | None) -> None:
    async with engine.change() as change:
        await change.tx.queues.clear_errors(entry.queue_id)
        if (present := await change.tx.entries.get(entry.id)) is not None:
            await record.dequeue(change, present, why, policy)


async def _pause(engine: Engine, queue: Queue, cause: BaseException) -> None:
    """Pause a queue whose passes fail before they select an entry: a maintainer has to find the cause."""
    detail = _detail(None, cause)
    _log.critical("queue_fails", queue=queue.id, repository=queue.repository.full_name, detail=detail)
    async with engine.change() as change:
        await change.tx.queues.clear_errors(queue.id)
        await record.pause(change, queue, Reason.INVARIANT_BROKEN, detail)


async def _policy(engine: Engine, entry: Entry) -> Policy:
    try:
        return await engine.policies.of(entry.repository, entry.base_branch)
    except GitHubError:
        return Policy()


def _detail(traceparent: str | None, cause: BaseException) -> str:
    """Return the error's type, and the trace id that its log lines have. No message, which may contain secrets."""
    with trace.continued(traceparent, "internal error"):
        return f"{type(cause).__name__}, trace {trace.ids()['trace_id']}"
