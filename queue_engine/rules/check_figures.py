"""Derive the time limit of checks, and the figures of landings, from a branch's past entries. Pure functions."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from math import ceil

from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.timeline_event import TimelineEvent

_ENOUGH = 8
"""The number of past entries below which durations give no limit."""

_SHARE = 0.95
_MARGIN_FACTOR = 1.5
_MARGIN = timedelta(minutes=5)
_SHORTEST, _LONGEST = timedelta(minutes=10), timedelta(hours=24)


def check_limit_by(durations: Sequence[timedelta]) -> timedelta | None:
    """Return the time limit for checks, by past durations: the 95th percentile plus a margin; None: too few."""
    if len(durations) < _ENOUGH:
        return None
    usual = sorted(durations)[ceil(_SHARE * len(durations)) - 1]
    return min(max(usual * _MARGIN_FACTOR + _MARGIN, _SHORTEST), _LONGEST)


def figures_of(entry: Entry, events: Iterable[TimelineEvent], now: datetime) -> dict[str, float]:
    """Return the durations of an entry that lands now, in seconds: in the queue, at its front, in its checks.

    `events` are those of its pull request, oldest first. The time in checks never exceeds the time at the front, even
    if checks ran while the queue was blocked.
    """
    front = now - (entry.run.started_at or now)
    figures = {
        "queue": now - entry.enqueued_at,
        "front": front,
        "checks": min(time_in_checks(events, entry.id), front),
    }
    return {name: figure.total_seconds() for name, figure in figures.items()}


def time_in_checks(events: Iterable[TimelineEvent], entry_id: str) -> timedelta:
    """Return how long an entry was in checks, all runs together; `events` of its pull request are oldest first.

    If checks passed, the event has the instant at which they completed, which may be long before IMQ's next read.
    """
    total, since = timedelta(0), None
    for event in events:
        if event.entry_id != entry_id or event.event not in set(EntryStatus):
            continue
        if since is not None:
            ended = event.data.get("ended")
            total += max(event.at if ended is None else datetime.fromisoformat(ended), since) - since
        since = event.at if event.event == EntryStatus.CHECKING else None
    return total
