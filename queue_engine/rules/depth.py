"""Find which entries of a queue have room, and which wait for it beyond the queue's depth limit. Pure.

Only the position decides whether an entry waits: when an entry ahead leaves, the next one gets its room.
"""

from collections.abc import Sequence
from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.domain.model import Entry


def waits_for_room(position: int, policy: Policy) -> bool:
    """Whether an entry at this position, counted from 0, is beyond the depth limit."""
    return 0 < policy.depth <= position


def held_behind(position: int, policy: Policy) -> int:
    """Return how many waiting entries get room before the one at this position."""
    return position - policy.depth


def with_room(entries: Sequence[Entry], policy: Policy) -> tuple[Entry, ...]:
    """Return the entries of an ordered queue that have room."""
    return tuple(entries[: policy.depth or None])


def depth_within(total: int, policy: Policy) -> int:
    """Return how many of `total` entries have room."""
    return min(total, policy.depth or total)


def held_until(entry: Entry, policy: Policy) -> datetime | None:
    """When an entry that waits for room is dequeued (P5); None if it does not wait."""
    return None if entry.held_since is None else entry.held_since + policy.timeouts.hold


def moved_entries(entries: Sequence[Entry], policy: Policy) -> tuple[Entry, ...]:
    """Return the entries that crossed the depth limit since their announcement; none under a faulty configuration."""
    if policy.fault is not None:
        return ()
    return tuple(each for each in entries if waits_for_room(each.position, policy) != (each.held_since is not None))


def overdue_entries(entries: Sequence[Entry], policy: Policy, now: datetime) -> tuple[Entry, ...]:
    """Return the entries that waited for room until the time limit (P5)."""
    return tuple(each for each in entries if (until := held_until(each, policy)) is not None and until <= now)
