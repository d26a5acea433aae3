"""Places in a queue: counted and given one transaction after the other; who gets none waits for one."""

from queue_engine.core import trace
from queue_engine.core.backoff import OVERLOAD
from queue_engine.engine import Change
from queue_engine.errors import StaleVersion
from queue_engine.facts import PullRequest
from queue_engine.model import Queue
from queue_engine.store import Transaction
from queue_engine.store.held import HeldPullRequest

HELD_JOB = "held"
"""Kind of the job that has a held pull request knock again and again, in case nobody tells that a place is free."""


async def places_taken(change: Change, queue: Queue, number: int) -> int:
    """How many have or get a place in this queue before this pull request: who stands in it, and who waits longer.

    Nobody else is let in before the end of this transaction.
    """
    await change.tx.queues.give_places(queue.id)
    ahead = await change.tx.held.ahead(queue.id, queue.repository.id, number)
    return await change.tx.entries.count(queue.id) + ahead


async def still_waiting(tx: Transaction, repository_id: int, number: int) -> HeldPullRequest | None:
    """This pull request, if it waits for a place; nobody gives it one before the end of this transaction.

    Raises StaleVersion when it got its place, or left, in this moment.
    """
    found = await tx.held.find(repository_id, number)
    if found is None:
        return None
    await tx.queues.give_places(found.queue_id)
    waiting = await tx.held.find(repository_id, number)
    if waiting is None or waiting.queue_id != found.queue_id:
        raise StaleVersion(f"pull request {number} does not wait as it did")
    return waiting


async def keep_waiting(
    change: Change, queue: Queue, pull: PullRequest, *, by: str, delivery: str | None, vouched: frozenset[str]
) -> bool:
    """Hold a pull request until there is a place for it; whether it did not wait already with this very consent."""
    tx, repository, number = change.tx, queue.repository, pull.number
    before = await tx.held.find(repository.id, number)
    await tx.held.add(
        queue.id,
        repository.id,
        number,
        pull.head_sha,
        by,
        change.now,
        trace=trace.current(),
        delivery=delivery,
        vouched=vouched,
    )
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
