"""What its labels give a pull request in its queue: priority, precedence, what it is let through; whom that delays.

Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from queue_engine.model import PROCESSING, Entry
from queue_engine.policy import Policy, carries


@dataclass(frozen=True)
class Standing:
    """What `Entries.add` and `Entries.reprioritise` take beside the pull request itself."""

    priority: int = 0
    first: bool = False
    interrupts: bool = False
    fixes_base: bool = False
    freeze_exempt: bool = False


def of_these(labels: Iterable[str], vouched: Iterable[str]) -> frozenset[str]:
    """The labels that somebody who may queue vouches for: others may set labels too, and steer nothing by them."""
    vouched = tuple(vouched)
    return frozenset(label for label in labels if carries([label], vouched))


def standing_of(labels: Iterable[str], policy: Policy) -> Standing:
    """The highest priority among these labels, and every permission that one of them gives."""
    labels = tuple(labels)
    given = [each for each in policy.priorities if carries(labels, [each.label])]
    return Standing(
        priority=max((each.priority for each in given), default=0),
        first=any(each.first for each in given),
        interrupts=any(each.interrupts for each in given),
        fixes_base=any(each.fixes_base for each in given),
        freeze_exempt=carries(labels, policy.freeze_exempt_labels),
    )


@dataclass(frozen=True, slots=True)
class Delay:
    """Whom a precedence delays: the pull requests that came before and stand behind, and by about how much each."""

    numbers: tuple[int, ...]
    by: timedelta | None
    """One more turn, as long as turns took here lately; None while nothing is known of that."""
    interrupts: int | None
    """The one that loses the turn that it had; it is delayed by what its turn took so far as well."""
    lost: timedelta | None
    """What the interrupted turn took so far."""


def overtakes(entries: Sequence[Entry], entry: Entry) -> tuple[int, ...]:
    """Numbers of those in this queue who came before an entry and stand behind it, in order."""
    return tuple(each.number for each in entries if each.seq < entry.seq and each.position > entry.position)


def delay(entries: Sequence[Entry], entry: Entry, turns: Sequence[timedelta], now: datetime) -> Delay:
    """Whom an entry of this queue delays by its precedence, as things stand; `turns` is how long the last ones took."""
    by = timedelta(seconds=median(turn.total_seconds() for turn in turns)) if turns else None
    front = entries[0]
    taken = entry.first and entry.interrupts and not front.first and front.status in PROCESSING
    if not taken:
        return Delay(overtakes(entries, entry), by, None, None)
    lost = None if front.started_at is None else now - front.started_at
    return Delay((front.number, *overtakes(entries, entry)), by, front.number, lost)
