"""Derive the priority of a pull request from its labels, and give each author a fair share of a queue. Pure.

The entries of one author are a share; those of all bots and agents are one share together. The first few entries of a
share keep their place by arrival. Each further one counts as later: an interval after the entry before it. So others
come between. A share alone in its queue does not wait: only the order changes (a virtual clock; Zhang, "VirtualClock",
SIGCOMM 1990).

The key is computed once, when the entry joins, and never moves. It is at most six days after the arrival, so that each
entry lands.

A run of an agent that began because the queue was empty would delay the next person by a whole run. So it ends for an
entry with an earlier key, in its first two thirds, and again once it has taken twice as long as usual: it may hang. The
run of one entry ends three times at most, because each costs CI, and a push. A young one ends for no person after half
of the time until its key: what does not land before delays all people who wait then (P5).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from queue_engine.config.model import Policy
from queue_engine.config.patterns import branch_matches
from queue_engine.domain.model import PROCESSING, Entry, EntryOrder, EntryStatus
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
    by = usual_duration(durations)
    front = entries[0] if entries else entry
    taken = entry.hotfix and entry.preempts and not front.hotfix and front.status in PROCESSING
    if not taken:
        return PriorityEffect(overtakes(entries, entry), by, None, None)
    lost = None if front.run.started_at is None else now - front.run.started_at
    return PriorityEffect((front.number, *overtakes(entries, entry)), by, front.number, lost)


def usual_duration(durations: Sequence[timedelta]) -> timedelta | None:
    """Return how long an entry is usually at the front; None while that is unknown."""
    return _median(durations) if durations else None


AGENTS = ""
"""The share of all bots and agents; no login is empty."""

LANDINGS = 10
"""The interval in landings: an author with many entries is ahead of others for each tenth landing at most."""

AGENT_LANDINGS = 40
"""The interval of the share of all agents: people notice them little, even where they need nine landings of ten."""

UNKNOWN = timedelta(minutes=10)
"""How long a landing takes while none is known."""

LONGEST = timedelta(days=6)
"""By how much a key is later than the arrival at most: less than the seven days of `Policy.timeouts.hold`."""

YIELDING = 2 / 3
"""The part of a usual run of an agent in which it ends for a person: of a later one the wait costs less than the CI."""

HANGING = 2
"""The usual runs after which it ends for a person as well."""

MOST_YIELDS = 3
"""How often the run of one entry ends for another at most."""

_BOT = "[bot]"


def share_of(author: str, policy: Policy) -> str:
    """Return the share to which the entries of an author belong."""
    login = author.casefold()
    is_agent = login.endswith(_BOT) or any(branch_matches(each, login) for each in policy.fair_share.agents)
    return AGENTS if is_agent else login


def interval(durations: Sequence[timedelta], share: str) -> timedelta:
    """Return the time between two keys of a share; `durations` is how long the last landed entries were in front."""
    typical = _median(durations) if durations else UNKNOWN
    return (AGENT_LANDINGS if share == AGENTS else LANDINGS) * typical


def _median(durations: Sequence[timedelta]) -> timedelta:
    # Imported when needed: it takes 200 kB, and a process at rest computes none.
    from statistics import median

    return timedelta(seconds=median(each.total_seconds() for each in durations))


def earliest_key(
    author: str,
    queued: Iterable[tuple[str, int, int]],
    durations: Sequence[timedelta],
    policy: Policy,
    *,
    arrived: int,
) -> int:
    """Return the least key of a new entry, in milliseconds since 1970; its arrival where its share is small.

    `queued` has author, arrival and delay of each entry in the queue without a priority of its own. Only those count
    that arrived before: IMQ may answer a request late. Within a share the first entry stays first.
    """
    if not policy.fair_share.enabled:
        return arrived
    share = share_of(author, policy)
    own = [at + delay for other, at, delay in queued if at <= arrived and share_of(other, policy) == share]
    if not own:
        return arrived
    last = max(own)
    step = interval(durations, share) if len(own) >= policy.fair_share.waiting else timedelta(0)
    wanted = min(last + _milliseconds(step), arrived + _milliseconds(LONGEST))
    return max(arrived, last, wanted)


def yields_to(front: Entry, waiting: Iterable[Entry], policy: Policy) -> Entry | None:
    """Return the first waiting entry for which the run of an agent at the front may end; None if there is none.

    A person opened it, and its key is earlier: the run began because it did not wait yet.
    """
    delayed = front.share_delay and front.priority <= 0 and not front.hotfix and front.status is EntryStatus.CHECKING
    if not policy.fair_share.enabled or not delayed or share_of(front.author, policy) != AGENTS:
        return None
    earlier = (each for each in waiting if each.rank < front.rank)
    return next((each for each in earlier if share_of(each.author, policy) != AGENTS), None)


def yields_until(entry: Entry, policy: Policy) -> float | None:
    """Return the second since 1970 at which the key of an agent's entry is reached; None for an entry of people.

    A label that gives an entry priority, or makes it a hotfix, was set by somebody with the right to queue.
    """
    first = not policy.fair_share.enabled or entry.priority > 0 or entry.hotfix
    return None if first or share_of(entry.author, policy) != AGENTS else entry.rank / 1000


def has_waited(since: float, key: float, now: float) -> bool:
    """Whether half of the time has passed between the arrival of an agent's entry and its key, all in seconds."""
    return now >= (since + key) / 2


def yields_after(usual_runs: float, *, late: bool) -> bool:
    """Whether a run of an agent that takes so many usual runs already ends for a person; `late`: it `has_waited`."""
    return usual_runs >= HANGING or (usual_runs < YIELDING and not late)


@dataclass(frozen=True, slots=True)
class FairShare:
    """Why entries that joined later are ahead: the author has so many here; 0 for one of many bots and agents."""

    author: str
    pulls: int


def share_behind(entries: Sequence[Entry], entry: Entry) -> FairShare | None:
    """Return the share of an entry if later entries without priority are ahead because of it."""
    later = (
        each.seq > entry.seq and each.position < entry.position and each.priority <= 0 and not each.hotfix
        for each in entries
    )
    if not entry.share_delay or entry.priority > 0 or not any(later):
        return None
    count = sum(each.author.casefold() == entry.author.casefold() for each in entries)
    return FairShare(entry.author, count if count > 1 and not entry.author.casefold().endswith(_BOT) else 0)


def _milliseconds(length: timedelta) -> int:
    return round(length / timedelta(milliseconds=1))
