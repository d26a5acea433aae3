"""Compute when to look again at one pending thing: pure transitions on a policy, for state kept in a row."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from queue_engine.core.timing.backoff import Backoff, no_jitter, wait


@dataclass(frozen=True, slots=True)
class MonitorEntry:
    """Where the monitor of one thing stands.

    `polls` counts those since it was started or reset: the exponent of the interval. `errors` counts failures in a row.
    """

    next_at: datetime
    polls: int = 0
    errors: int = 0

    @classmethod
    def started(cls, now: datetime) -> "MonitorEntry":
        """At the shortest interval, to be looked at now: the beginning, and what a reset leads back to."""
        return cls(next_at=now)

    def answered(self, policy: Backoff, now: datetime, random: Callable[[], float] = no_jitter) -> "MonitorEntry":
        """It was looked at and is pending still: errors are forgotten, and the next wait is longer than the last."""
        return MonitorEntry(now + wait(policy, self.polls, random=random), self.polls + 1)

    def failed(self, policy: Backoff, now: datetime, random: Callable[[], float] = no_jitter) -> "MonitorEntry | None":
        """The look failed: waits grow as after an answer. None when the policy allows no further error in a row."""
        if policy.exhausted(self.errors + 1):
            return None
        return MonitorEntry(now + wait(policy, self.polls, random=random), self.polls + 1, self.errors + 1)
