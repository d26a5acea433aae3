"""Examples of the store's nouns, with only what a test cares about named."""

from datetime import UTC, datetime, timedelta
from typing import Any

from queue_engine.domain.model import Entry, EntryStatus, Queue, Repository
from queue_engine.store import Transaction

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(seconds=30)
SOON = timedelta(seconds=10)
TICK = timedelta(microseconds=1)
REPOSITORY = Repository(id=7, owner="acme", name="rocket", installation_id=70)
OTHER = Repository(id=8, owner="acme", name="sled", installation_id=70)


async def queue(t: Transaction, base_branch: str = "main", repository: Repository = REPOSITORY) -> Queue:
    """A stored queue."""
    return await t.queues.find_or_create(repository, base_branch, NOW)


async def stand(
    t: Transaction, queue: Queue, number: int, *, head: str = "", at: datetime = NOW, **standing: Any
) -> Entry:
    """A stored entry at the end of its priority."""
    return await t.entries.add(
        queue_id=queue.id,
        number=number,
        title=f"Change {number}",
        author="ada",
        queued_by="max",
        queued_head=head or f"head-{number}",
        enqueued_at=at,
        **standing,
    )


def entry(number: int = 1) -> Entry:
    """An entry that is stored nowhere."""
    return Entry(
        id=f"{number:032x}",
        queue_id=1,
        repository=REPOSITORY,
        base_branch="main",
        number=number,
        title=f"Change {number}",
        author="ada",
        queued_by="max",
        priority=0,
        seq=number,
        position=0,
        status=EntryStatus.PENDING,
        queued_head=f"head-{number}",
        head=f"head-{number}",
        head_proved=True,
        updated_from=None,
        candidate_head=None,
        candidate_is_ours=False,
        known_behind=False,
        base_tip=None,
        tested_tree=None,
        pending_checks=(),
        completed_checks=(),
        needs_refetch=False,
        merge_requested_at=None,
        github_failures=0,
        github_failing_since=None,
        merge_refusals=0,
        polls=0,
        next_poll_at=None,
        enqueued_at=NOW,
        started_at=None,
        status_since=NOW,
        version=1,
    )
