"""Load the position of an entry in its queue, when it is likely to land, and which entries it delays."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.rules.eta import landing
from queue_engine.rules.priority import PriorityEffect, delay
from queue_engine.store import Transaction

AHEAD_NAMED = 10
"""How many of the pull requests ahead people read by number."""


@dataclass(frozen=True, slots=True)
class Position:
    """The position of an entry, counted from 0, among `depth` entries."""

    position: int
    depth: int
    ahead: tuple[int, ...]
    """The pull requests ahead, the front first, at most `AHEAD_NAMED`."""
    eta: tuple[datetime, datetime] | None
    """When the entry is likely to land, unless the queue is blocked; None while the history is too short."""


def position_of(
    entry: Entry, first: Sequence[Entry], durations: Sequence[timedelta], now: datetime, *, depth: int
) -> Position:
    """Compute the position of an entry.

    `first` are the first `AHEAD_NAMED` entries of its queue; empty is enough for the front itself. `durations` is how
    long the last entries that landed were at the front.
    """
    front = first[0] if first else entry
    spent = timedelta(0) if front.run.started_at is None else now - front.run.started_at
    expected = landing(durations, ahead=entry.position, spent=spent)
    return Position(
        entry.position,
        depth,
        tuple(each.number for each in first[:AHEAD_NAMED] if each.position < entry.position),
        None if expected is None else (now + expected[0], now + expected[1]),
    )


async def load_position(tx: Transaction, entry: Entry, now: datetime, *, depth: int) -> Position:
    """Load the position of an entry, without reading the whole queue."""
    most = min(entry.position, AHEAD_NAMED)
    first = await tx.entries.of_queue(entry.queue_id, most=most) if most else ()
    return position_of(entry, first, await load_durations(tx, entry.repository.id, entry.base_branch), now, depth=depth)


async def load_durations(tx: Transaction, repository_id: int, base_branch: str) -> tuple[timedelta, ...]:
    """Load how long the last entries that landed on this branch were at the front."""
    return await tx.timeline.durations(repository_id, base_branch, EntryStatus.LANDED.value, "front")


async def load_delay(tx: Transaction, entry: Entry, now: datetime) -> tuple[int, PriorityEffect]:
    """Load the number of entries in its queue, and the entries that this one delays."""
    entries = await tx.entries.of_queue(entry.queue_id)
    durations = await load_durations(tx, entry.repository.id, entry.base_branch)
    return len(entries), delay(entries, entry, durations, now)
