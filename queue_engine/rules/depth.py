"""Find which entries of a queue have room, and which wait for it beyond the queue's depth limit. Pure.

Whether an entry waits follows from its position alone, so that an entry ahead that leaves makes room for the next.
"""

from collections.abc import Sequence
from datetime import datetime

from queue_engine.domain.model import Entry
from queue_engine.domain.policy import Policy


def waits_for_room(position: int, policy: Policy) -> bool:
    """Whether an entry at this position, counted from 0, is beyond the depth limit."""
    return 0 < policy.max_depth <= position


def held_behind(position: int, policy: Policy) -> int:
    """How many entries get room before one that waits for it at this position."""
    return position - policy.max_depth


def with_room(entries: Sequence[Entry], policy: Policy) -> tuple[Entry, ...]:
    """The entries of a queue, in order, that have room."""
    return tuple(entries[: policy.max_depth or None])


def depth_within(total: int, policy: Policy) -> int:
    """How many of so many entries have room."""
    return min(total, policy.max_depth or total)


def held_until(entry: Entry, policy: Policy) -> datetime | None:
    """Until when an entry waits for room at the longest (P5); None if it does not wait."""
    return None if entry.held_since is None else entry.held_since + policy.hold_timeout
