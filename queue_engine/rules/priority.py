"""Derive priority and exemptions of a pull request from its labels, and find which entries it delays. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from queue_engine.config.model import Policy
from queue_engine.domain.model import PROCESSING, Entry, EntryOrder
from queue_engine.domain.policy import has_label


def trusted_of(labels: Iterable[str], trusted: Iterable[str]) -> frozenset[str]:
    """Return the labels that are trusted: people without the right to queue may set labels, too, without effect."""
    trusted = tuple(trusted)
    return frozenset(label for label in labels if has_label([label], trusted))


def precedence_of(labels: Iterable[str], policy: Policy) -> EntryOrder:
    """Return the highest priority among these labels, with every exemption that one of them gives."""
    labels = tuple(labels)
    given = [each for each in policy.priority.labels if has_label(labels, [each.label])]
    return EntryOrder(
        priority=max((each.priority for each in given), default=0),
        hotfix=any(each.hotfix for each in given),
        preempts=any(each.preempts for each in given),
        fixes_base=any(each.fixes_base for each in given),
        freeze_exempt=has_label(labels, policy.freeze.exempt_labels),
    )


@dataclass(frozen=True, slots=True)
class PriorityEffect:
    """The pull requests that an entry overtakes, and by about how much it delays each."""

    numbers: tuple[int, ...]
    by: timedelta | None
    """The delay by one entry, as long as recent entries took; None while that is unknown."""
    preempts: int | None
    """The entry that it preempts, which also loses its time at the front so far."""
    lost: timedelta | None
    """How long the preempted entry was at the front."""


def overtakes(entries: Sequence[Entry], entry: Entry) -> tuple[int, ...]:
    """Return the numbers of the entries that were queued before this one and are behind it, in order."""
    return tuple(each.number for each in entries if each.seq < entry.seq and each.position > entry.position)


def delay(entries: Sequence[Entry], entry: Entry, durations: Sequence[timedelta], now: datetime) -> PriorityEffect:
    """Find the entries that this one delays now; `durations` is how long the last landed ones were at the front."""
    by = timedelta(seconds=median(duration.total_seconds() for duration in durations)) if durations else None
    front = entries[0] if entries else entry
    taken = entry.hotfix and entry.preempts and not front.hotfix and front.status in PROCESSING
    if not taken:
        return PriorityEffect(overtakes(entries, entry), by, None, None)
    lost = None if front.run.started_at is None else now - front.run.started_at
    return PriorityEffect((front.number, *overtakes(entries, entry)), by, front.number, lost)
