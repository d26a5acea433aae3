"""Derive priority, precedence and exemptions of a pull request from its labels, and whom that delays.

Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from queue_engine.domain.entry_order import EntryOrder
from queue_engine.domain.model import PROCESSING, Entry
from queue_engine.domain.policy import Policy, has_label


def of_these(labels: Iterable[str], trusted: Iterable[str]) -> frozenset[str]:
    """The labels that somebody who may queue vouches for: others may set labels too, and steer nothing by them."""
    trusted = tuple(trusted)
    return frozenset(label for label in labels if has_label([label], trusted))


def precedence_of(labels: Iterable[str], policy: Policy) -> EntryOrder:
    """The highest priority among these labels, and every permission that one of them gives."""
    labels = tuple(labels)
    given = [each for each in policy.priorities if has_label(labels, [each.label])]
    return EntryOrder(
        priority=max((each.priority for each in given), default=0),
        hotfix=any(each.hotfix for each in given),
        preempts=any(each.preempts for each in given),
        fixes_base=any(each.fixes_base for each in given),
        freeze_exempt=has_label(labels, policy.freeze_exempt_labels),
    )


@dataclass(frozen=True, slots=True)
class PriorityEffect:
    """Whom a precedence delays: the pull requests that came before and stand behind, and by about how much each."""

    numbers: tuple[int, ...]
    by: timedelta | None
    """The delay by one entry, as long as recent ones took; None while that is unknown."""
    interrupts: int | None
    """The one that loses the turn that it had; it is delayed by what its turn took so far as well."""
    lost: timedelta | None
    """How long the preempted entry was at the front."""


def overtakes(entries: Sequence[Entry], entry: Entry) -> tuple[int, ...]:
    """Numbers of those in this queue who came before an entry and stand behind it, in order."""
    return tuple(each.number for each in entries if each.seq < entry.seq and each.position > entry.position)


def delay(entries: Sequence[Entry], entry: Entry, durations: Sequence[timedelta], now: datetime) -> PriorityEffect:
    """Whom an entry of this queue delays by its precedence, as things stand; `turns` is how long the last ones took."""
    by = timedelta(seconds=median(duration.total_seconds() for duration in durations)) if durations else None
    front = entries[0]
    taken = entry.hotfix and entry.preempts and not front.hotfix and front.status in PROCESSING
    if not taken:
        return PriorityEffect(overtakes(entries, entry), by, None, None)
    lost = None if front.run.started_at is None else now - front.run.started_at
    return PriorityEffect((front.number, *overtakes(entries, entry)), by, front.number, lost)
