"""Measure how far GitHub's reads lag, and delay reads that would be outdated.

Where no read was outdated, IMQ reads at once. After an outdated read, the next reads of that kind in that repository
wait until the newest fact is as old as it was when GitHub showed it. That saves the reads at 0 and 1 seconds, and costs
no time, because IMQ would have repeated them. The lag is in memory: each process measures it.

A kind waits at most 8 s, for a quarter of an hour after a stale read. `ReadLagError` is handled like a rate limit: it
holds a job, and is no failure of an entry. IMQ does not read the state after its own merge at all: the pass verifies
the commit in GitHub's answer, and webhooks meanwhile cause no reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from queue_engine.core.timing.backoff import OUTDATED
from queue_engine.domain.known_facts import (
    KEPT,
    CheckResult,
    CommitStatus,
    ConversationChange,
    Known,
    KnownName,
    MergeResult,
    OwnLabel,
    PullRequestState,
    Push,
    ReviewChange,
)

LONGEST = OUTDATED.maximum
"""The longest wait of a read."""

REMEMBERED = KEPT
"""How long after an outdated read further ones wait. The next read then shows whether GitHub still lags."""

_AWAITED = 1000
"""How many reads may wait before those whose callers never returned are dropped."""

_NONE = timedelta(0)


@dataclass(frozen=True, slots=True)
class ReadKind:
    """Reads with the same lag, and the facts that an outdated one would lack."""

    name: str
    shows: tuple[type, ...]


PULL = ReadKind("pull request", (PullRequestState, OwnLabel, MergeResult))
SNAPSHOT = ReadKind("snapshot", (PullRequestState, OwnLabel, MergeResult, ReviewChange, ConversationChange))
REVIEWS = ReadKind("reviews", (ReviewChange,))
BRANCH_TIP = ReadKind("branch tip", (Push,))
COMPARISON = ReadKind("comparison", (Push,))
COMMIT = ReadKind("commit", (KnownName,))
CHECKS = ReadKind("checks", (CheckResult, CommitStatus))

_Read = tuple[int, ReadKind, str]
"""A repository's id, what is read, and its subject."""


class ReadLag:
    """How far each kind of read lags in each repository, and which reads wait for that."""

    def __init__(self) -> None:
        self._lags: dict[tuple[int, ReadKind], tuple[timedelta, datetime]] = {}
        self._outdated: set[_Read] = set()
        self._awaited: dict[_Read, datetime] = {}

    def of(self, repository_id: int, kind: ReadKind, now: datetime) -> timedelta:
        """Return the known lag of these reads; zero where none was outdated recently."""
        lag, measured_at = self._lags.get((repository_id, kind), (_NONE, now))
        if now - measured_at < REMEMBERED:
            return lag
        del self._lags[repository_id, kind]
        return _NONE

    def wait(
        self, repository_id: int, kind: ReadKind, subject: str, known: Sequence[Known], now: datetime
    ) -> timedelta:
        """Return how long this read has to wait; zero: now. After its wait, newer facts delay it no more."""
        read = (repository_id, kind, subject)
        if (until := self._awaited.get(read)) is None:
            reported_at = _reported_at(kind, known)
            until = now if reported_at is None else reported_at + self.of(repository_id, kind, now)
            if until > now:
                self._record_awaited(read, until, now)
        if until > now:
            return until - now
        self._awaited.pop(read, None)
        return _NONE

    def outdated(self, repository_id: int, kind: ReadKind, subject: str) -> None:
        """Record that this read was outdated."""
        self._outdated.add((repository_id, kind, subject))

    def current(self, repository_id: int, kind: ReadKind, subject: str, known: Sequence[Known], now: datetime) -> None:
        """Record that this read showed all known facts: if it was outdated before, this bounds the lag."""
        if (read := (repository_id, kind, subject)) not in self._outdated:
            return
        self._outdated.discard(read)
        if (reported_at := _reported_at(kind, known)) is not None:
            lag = max(min(now - reported_at, LONGEST), self.of(repository_id, kind, now))
            self._lags[repository_id, kind] = lag, now

    def _record_awaited(self, read: _Read, until: datetime, now: datetime) -> None:
        if len(self._awaited) >= _AWAITED:
            self._awaited = {each: due for each, due in self._awaited.items() if due > now}
            self._outdated.clear()
        self._awaited[read] = until


def _reported_at(kind: ReadKind, known: Sequence[Known]) -> datetime | None:
    """Return when IMQ received the newest fact that this read has to show."""
    return max((one.at for one in known if isinstance(one.statement, kind.shows)), default=None)
