"""The reasons that block a queue, and what IMQ announced of them. Plain data."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from json import dumps, loads
from typing import Any, Self

from queue_engine.domain.model import PROCESSING, Entry
from queue_engine.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class Blocker:
    """The reason, what people read of it beside its sentence, and when it ends by itself, if that is known."""

    reason: Reason
    detail: str
    until: datetime | None = None
    look_at: datetime | None = None
    """When the blocker is looked at again; None: when the queue is woken."""
    recorded: bool = False
    """Its event was written into the timeline when it was set: a pause. What is derived is recorded by a pass."""

    def exempts(self, entry: Entry) -> bool:
        """Whether this entry may go on all the same."""
        if self.reason is Reason.FROZEN:
            return entry.freeze_exempt
        if self.reason is Reason.CHECKS_NOT_STARTING:
            # The front goes on waiting for its checks, and finds out when one starts.
            return entry.status in PROCESSING
        return self.reason is Reason.BASE_RED and entry.fixes_base

    def concerns(self, entry: Entry) -> bool:
        """Whether people who wait for this entry read of the blocker."""
        return self.reason is Reason.CHECKS_NOT_STARTING or not self.exempts(entry)


@dataclass(frozen=True, slots=True)
class BlockerNotice:
    """One blocker as it was announced."""

    reason: Reason
    detail: str
    until: datetime | None
    recorded: bool
    since: datetime | None = None
    """When the queue stopped for it, or for one before that it outlasted."""

    @classmethod
    def of(cls, blocker: Blocker, since: datetime | None = None) -> Self:
        """This blocker, announced since then."""
        return cls(blocker.reason, blocker.detail, blocker.until, blocker.recorded, since)

    def announces(self, blocker: Blocker) -> bool:
        """Whether nothing about this blocker is new to those who read the announcement."""
        return replace(self, since=None) == BlockerNotice.of(blocker)

    def blocker(self) -> Blocker:
        """The blocker that was announced."""
        return Blocker(self.reason, self.detail, self.until, recorded=self.recorded)


@dataclass(frozen=True, slots=True)
class BlockerNotices:
    """All blockers that were announced, the most important first, and up to which entry, by the order of joining."""

    blockers: tuple[BlockerNotice, ...]
    last: int

    @classmethod
    def of(cls, blockers: Sequence[Blocker], entries: Sequence[Entry], since: datetime | None = None) -> Self:
        """These blockers, announced to all these entries."""
        last = max((entry.seq for entry in entries), default=0)
        return cls(tuple(BlockerNotice.of(blocker, since) for blocker in blockers), last)

    @classmethod
    def from_json(cls, stored: str | None) -> Self | None:
        """The announcement as a queue stores it."""
        if stored is None:
            return None
        values = loads(stored)
        return cls(tuple(map(_read, values["blockers"])), values["last"])

    def to_json(self) -> str:
        """The announcement as a queue stores it."""
        return dumps(asdict(self), default=datetime.isoformat)

    def began(self, blockers: Sequence[Blocker]) -> tuple[Blocker, ...]:
        """Those of the blockers that were not announced, or of which something is new."""
        return tuple(blocker for blocker in blockers if not any(each.announces(blocker) for each in self.blockers))

    def ended(self, blockers: Sequence[Blocker]) -> tuple[BlockerNotice, ...]:
        """What was announced and is not so any more."""
        return tuple(each for each in self.blockers if not any(each.announces(blocker) for blocker in blockers))

    def concerning(self, entry: Entry) -> tuple[Blocker, ...]:
        """What people who wait for this entry read, if it had joined by then."""
        told = (each.blocker() for each in self.blockers if entry.seq <= self.last)
        return tuple(blocker for blocker in told if blocker.concerns(entry))

    def followed_by(self, blockers: Sequence[Blocker], entries: Sequence[Entry], now: datetime) -> "BlockerNotices":
        """These blockers, announced to these entries after what was announced before.

        One that outlasts another counts from the beginning of both, because the queue did not go on in between.
        """
        ended = self.ended(blockers)
        return replace(
            BlockerNotices.of(blockers, entries),
            blockers=tuple(BlockerNotice.of(blocker, self._since(blocker, ended, now)) for blocker in blockers),
        )

    def resumed_entry(self, entry: Entry, now: datetime) -> Entry:
        """Return the front when it continues now: the time for which it was blocked is not held against it.

        An entry that every blocker exempted went on all the time.
        """
        held = [each for each in self.blockers if not each.blocker().exempts(entry)]
        if not held:
            return entry
        if (started := entry.run.started_at) is not None:
            stopped = min((each.since for each in held if each.since is not None), default=started)
            started += now - max(stopped, started)
        return replace(entry, run=replace(entry.run, started_at=started, github_failures=0, github_failing_since=None))

    def _since(self, blocker: Blocker, ended: Sequence[BlockerNotice], now: datetime) -> datetime:
        same = [each for each in self.blockers if each.announces(blocker)]
        return min((each.since for each in (*same, *ended) if each.since is not None), default=now)


def _read(values: dict[str, Any]) -> BlockerNotice:
    until, since = (values[name] and datetime.fromisoformat(values[name]) for name in ("until", "since"))
    return BlockerNotice(Reason(values["reason"]), values["detail"], until, values["recorded"], since)
