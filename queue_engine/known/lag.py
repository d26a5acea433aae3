"""Measure how far GitHub's reads lag, and delay reads that would be outdated.

Where no read was outdated, each is made at once. After one was, the next reads of that kind in that repository wait
until what was told last is as old as it was when GitHub showed it. That saves the reads at 0 and 1 seconds, and costs
no time, because they would have been asked again. Kept in memory: a new process finds out by itself.

A kind waits at most 8 s, for a quarter of an hour after a stale read. `ReadLagError` is handled like a limit: a hold
of a job, no trouble of an entry. What GitHub's answer to a merge told is not read at all: the pass confirms that
commit, and hints meanwhile read nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from queue_engine.core.timing.backoff import OUTDATED
from queue_engine.domain.known_facts import (
    KEPT,
    CheckResult,
    CommitStatus,
    Known,
    KnownName,
    MergeResult,
    OwnLabel,
    PullRequestState,
    Push,
    ReviewChange,
)

LONGEST = OUTDATED.maximum
"""No read waits longer, however late the last one was asked again."""

REMEMBERED = KEPT
"""How long reads wait after one was outdated. The next one is made at once, and shows whether GitHub still lags."""

_AWAITED = 1000
"""How many reads may be waited for before those whose callers never came back are dropped."""

_NONE = timedelta(0)


@dataclass(frozen=True, slots=True)
class ReadKind:
    """Reads that lag alike, and the facts that an outdated one would lack."""

    name: str
    shows: tuple[type, ...]


PULL = ReadKind("pull request", (PullRequestState, OwnLabel, MergeResult))
SNAPSHOT = ReadKind("snapshot", (PullRequestState, OwnLabel, MergeResult, ReviewChange))
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
        """How far these reads lag, as far as it is known; nothing where none was outdated of late."""
        lag, seen_at = self._lags.get((repository_id, kind), (_NONE, now))
        if now - seen_at < REMEMBERED:
            return lag
        del self._lags[repository_id, kind]
        return _NONE

    def wait(
        self, repository_id: int, kind: ReadKind, subject: str, known: Sequence[Known], now: datetime
    ) -> timedelta:
        """How long this read is to wait; zero: it is made now. Once it has waited, newer facts hold it up no more."""
        read = (repository_id, kind, subject)
        if (until := self._awaited.get(read)) is None:
            told_at = _reported_at(kind, known)
            until = now if told_at is None else told_at + self.of(repository_id, kind, now)
            if until > now:
                self._record_awaited(read, until, now)
        if until > now:
            return until - now
        self._awaited.pop(read, None)
        return _NONE

    def outdated(self, repository_id: int, kind: ReadKind, subject: str) -> None:
        """This read was outdated."""
        self._outdated.add((repository_id, kind, subject))

    def current(self, repository_id: int, kind: ReadKind, subject: str, known: Sequence[Known], now: datetime) -> None:
        """This read showed all that is known: if it was outdated before, GitHub lags by at most so much."""
        if (read := (repository_id, kind, subject)) not in self._outdated:
            return
        self._outdated.discard(read)
        if (told_at := _reported_at(kind, known)) is not None:
            lag = max(min(now - told_at, LONGEST), self.of(repository_id, kind, now))
            self._lags[repository_id, kind] = lag, now

    def _record_awaited(self, read: _Read, until: datetime, now: datetime) -> None:
        if len(self._awaited) >= _AWAITED:
            self._awaited = {each: due for each, due in self._awaited.items() if due > now}
            self._outdated.clear()
        self._awaited[read] = until


def _reported_at(kind: ReadKind, known: Sequence[Known]) -> datetime | None:
    """Return when IMQ received the newest fact that this read is to show."""
    return max((one.at for one in known if isinstance(one.statement, kind.shows)), default=None)
