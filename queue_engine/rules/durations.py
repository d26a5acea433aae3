"""Derive the duration of checks from a branch's past entries. Pure functions."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from math import ceil

from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.timeline_event import TimelineEvent

_ENOUGH = 8
"""With fewer stays than this there is no history to speak of."""

_SHARE = 0.95
_MARGIN_FACTOR = 1.5
_MARGIN = timedelta(minutes=5)
_SHORTEST, _LONGEST = timedelta(minutes=10), timedelta(hours=24)


def check_limit_by(durations: Sequence[timedelta]) -> timedelta | None:
    """How long checks may take that took so long before: the 95th percentile with a margin; None: too few to tell."""
    if len(durations) < _ENOUGH:
        return None
    usual = sorted(durations)[ceil(_SHARE * len(durations)) - 1]
    return min(max(usual * _MARGIN_FACTOR + _MARGIN, _SHORTEST), _LONGEST)


def figures_of(entry: Entry, events: Iterable[TimelineEvent], now: datetime) -> dict[str, float]:
    """What an entry that lands now leaves to history, in seconds: time in the queue, at its front, in its checks.

    `events` are those of its pull request, oldest first. Its checks are a part of its time at the front, whatever
    they did while the queue was blocked.
    """
    front = now - (entry.run.started_at or now)
    figures = {
        "queue": now - entry.enqueued_at,
        "front": front,
        "checks": min(time_in_checks(events, entry.id), front),
    }
    return {name: figure.total_seconds() for name, figure in figures.items()}


def time_in_checks(events: Iterable[TimelineEvent], entry_id: str) -> timedelta:
    """How long an entry was being checked, by the events of its pull request, oldest first; all its tries together.

    Where checks passed it is known when they ended, which may have been long before anybody looked.
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
