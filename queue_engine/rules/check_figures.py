"""Derive the time limit of checks, and the figures of landings, from a branch's past entries. Pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.timeline_event import TimelineEvent

_SHARE = 0.95
_TIMES = 3
_SHORTEST, _LONGEST = timedelta(minutes=10), timedelta(hours=24)


def check_limits_by(events: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many seconds each check may take, by the `check_seconds` of these events, which passed.

    That is three times the 95th percentile of its past durations, from ten minutes to a day.
    """
    each: dict[str, list[float]] = {}
    for data in events:
        for name, seconds in (data.get("check_seconds") or {}).items():
            each.setdefault(name, []).append(seconds)
    return {name: _limit(sorted(durations)) for name, durations in each.items()}


def _limit(durations: Sequence[float]) -> int:
    usual = timedelta(seconds=durations[ceil(_SHARE * len(durations)) - 1])
    return ceil(min(max(usual * _TIMES, _SHORTEST), _LONGEST).total_seconds())


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
