"""The reasons that block a queue, and what IMQ announced of them. Plain data."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Self

from queue_engine.core.read_model import INTERNAL, adapter
from queue_engine.domain.model import PROCESSING, Entry
from queue_engine.domain.reasons import Reason

_OF_ALL = frozenset({Reason.CHECKS_NOT_STARTING, Reason.GITHUB_REFUSES})
"""Reasons that the entry is waiting for, too, that finds out when they end."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """A reason, its detail for people, and when it ends by itself, if that is known."""

    reason: Reason
    detail: str
    until: datetime | None = None
    next_poll_at: Annotated[datetime | None, INTERNAL] = None
    """When IMQ checks the blocker again; None: when the queue is woken."""
    recorded: Annotated[bool, INTERNAL] = False
    """Whether the timeline has its event since it was set, as for a pause. A pass records derived blockers."""
    since: Annotated[datetime | None, INTERNAL] = field(default=None, compare=False)
    """When it began, if that is stored."""
    by: Annotated[str | None, INTERNAL] = None
    """Who paused the queue, if a person did."""

    def exempts(self, entry: Entry) -> bool:
        """Return whether this entry may continue nevertheless."""
        if self.reason is Reason.FROZEN:
            return entry.freeze_exempt
        if self.reason is Reason.CHECKS_NOT_STARTING:
            # The front keeps waiting for its checks, and notices when one starts.
            return entry.status in PROCESSING
        if self.reason is Reason.GITHUB_REFUSES:
            # Its retries find out when GitHub accepts requests again, unless reads of the repository do.
            return self.until is None and entry.run.github_failing_since is not None
        return self.reason is Reason.BASE_RED and entry.fixes_base

    def concerns(self, entry: Entry) -> bool:
        """Return whether the comment of this entry names the blocker."""
        return self.reason in _OF_ALL or not self.exempts(entry)


@dataclass(frozen=True, slots=True)
class BlockerNotice:
    """One blocker as it was announced."""

    reason: Reason
    detail: str
    until: datetime | None
    recorded: bool
    since: datetime | None = None
    """When the queue stopped, for this blocker or for an earlier one that it overlapped."""
    by: str | None = None
    began: datetime | None = field(default=None, compare=False)
    """When the blocker itself began."""

    @classmethod
    def of(cls, blocker: Blocker, since: datetime | None = None) -> Self:
        """Make the announcement of a blocker."""
        recorded, began = blocker.recorded, blocker.since
        return cls(blocker.reason, blocker.detail, blocker.until, recorded, since, blocker.by, began)

    def announces(self, blocker: Blocker) -> bool:
        """Return whether the announcement already says everything about this blocker."""
        return replace(self, since=None) == BlockerNotice.of(blocker)

    def blocker(self) -> Blocker:
        """Return the announced blocker."""
        return Blocker(
            self.reason, self.detail, self.until, recorded=self.recorded, since=self.began or self.since, by=self.by
        )


@dataclass(frozen=True, slots=True)
class BlockerNotices:
    """All announced blockers, the most important first."""

    blockers: tuple[BlockerNotice, ...]
    last: int
    """The `seq` of the last entry that got the announcement."""

    @classmethod
    def of(cls, blockers: Sequence[Blocker], entries: Sequence[Entry], since: datetime | None = None) -> Self:
        """Announce these blockers to all these entries."""
        last = max((entry.seq for entry in entries), default=0)
        return cls(tuple(BlockerNotice.of(blocker, since) for blocker in blockers), last)

    @classmethod
    def from_json(cls, stored: str | None) -> Self | None:
        """Read the announcement that a queue stores."""
        return None if stored is None else adapter(cls).validate_json(stored)

    def to_json(self) -> str:
        """Serialize the announcement for its queue."""
        return adapter(type(self)).dump_json(self).decode()

    def began(self, blockers: Sequence[Blocker]) -> tuple[Blocker, ...]:
        """Return the blockers that are new, or have changed since their announcement."""
        return tuple(blocker for blocker in blockers if not any(each.announces(blocker) for each in self.blockers))

    def ended(self, blockers: Sequence[Blocker]) -> tuple[BlockerNotice, ...]:
        """Return the announced blockers that have ended or changed."""
        return tuple(each for each in self.blockers if not any(each.announces(blocker) for blocker in blockers))

    def concerning(self, entry: Entry) -> tuple[Blocker, ...]:
        """Return the blockers that the comment of this entry names; none if it joined after the announcement."""
        announced = (each.blocker() for each in self.blockers if entry.seq <= self.last)
        return tuple(blocker for blocker in announced if blocker.concerns(entry))

    def followed_by(self, blockers: Sequence[Blocker], entries: Sequence[Entry], now: datetime) -> "BlockerNotices":
        """Announce these blockers after this announcement; overlapping ones count from the first one's beginning."""
        ended = self.ended(blockers)
        return replace(
            BlockerNotices.of(blockers, entries),
            blockers=tuple(BlockerNotice.of(blocker, self._since(blocker, ended, now)) for blocker in blockers),
        )

    def resumed_entry(self, entry: Entry, now: datetime) -> Entry:
        """Return the front as it continues now: the time for which it was blocked does not count.

        For an entry that every blocker exempted, nothing changes.
        """
        held = [each for each in self.blockers if not each.blocker().exempts(entry)]
        if not held:
            return entry
        if (started := entry.run.started_at) is not None:
            stopped = min((each.since for each in held if each.since is not None), default=started)
            started += now - max(stopped, started)
        return replace(entry, run=replace(entry.run.without_failures(), started_at=started))

    def _since(self, blocker: Blocker, ended: Sequence[BlockerNotice], now: datetime) -> datetime:
        same = [each for each in self.blockers if each.announces(blocker)]
        return min((each.since for each in (*same, *ended) if each.since is not None), default=now)
