"""Count and give the places of a queue, one transaction after the other."""

from queue_engine.core.observability import trace
from queue_engine.core.timing.backoff import OVERLOAD
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Queue
from queue_engine.effects.context import Change
from queue_engine.store import Transaction
from queue_engine.store.held import HeldPullRequest

HELD_JOB = "held"
"""Kind of the job that retries to enqueue a held pull request, in case no event reports a free place."""


async def occupied_slots(change: Change, queue: Queue, number: int) -> int:
    """How many have or get a place in this queue before this pull request: who stands in it, and who waits longer.

    No other pull request is admitted before the end of this transaction.
    """
    await change.tx.queues.give_places(queue.id)
    ahead = await change.tx.held.ahead(queue.id, queue.repository.id, number)
    return await change.tx.entries.count(queue.id) + ahead


async def find_held(tx: Transaction, repository_id: int, number: int) -> HeldPullRequest | None:
    """This pull request, if it waits for a place; nobody gives it one before the end of this transaction.

    Raises StaleRecord when it got its place, or left, in this moment.
    """
    found = await tx.held.find(repository_id, number)
    if found is None:
        return None
    await tx.queues.give_places(found.queue_id)
    waiting = await tx.held.find(repository_id, number)
    if waiting is None or waiting.queue_id != found.queue_id:
        raise StaleRecord(f"pull request {number} does not wait as it did")
    return waiting


async def hold(
    change: Change, queue: Queue, pull: PullRequest, *, by: str, delivery: str | None, trusted_labels: frozenset[str]
) -> bool:
    """Hold a pull request until there is a place for it; whether it did not wait already with this very consent."""
    tx, repository, number = change.tx, queue.repository, pull.number
    before = await tx.held.find(repository.id, number)
    labels = tuple(sorted(trusted_labels))
    waiting = HeldPullRequest(
        queue.id, repository.id, number, pull.head_sha, by, change.now, trace.current(), delivery, labels
    )
    await tx.held.add(waiting)
    if before is None:
        await tx.jobs.enqueue(
            kind=HELD_JOB,
            request={"repository_id": repository.id, "number": number},
            # Not the process of its hints, which must not wait behind this one.
            process_id=f"{HELD_JOB}:{repository.id}:{number}",
            now=change.now,
            not_before=change.now + OVERLOAD.base,
        )
    consent = (queue.id, pull.head_sha, by)
    return before is None or (before.queue_id, before.head_sha, before.queued_by) != consent
