"""Compute when to poll one pending thing again: pure transitions on a policy, for state kept in a row."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from queue_engine.core.timing.backoff import Backoff, no_jitter, wait


@dataclass(frozen=True, slots=True)
class MonitorEntry:
    """The state of the monitor of one thing.

    `polls` counts those since it was started or reset: the exponent of the interval. `errors` counts failures in a row.
    """

    next_at: datetime
    polls: int = 0
    errors: int = 0

    @classmethod
    def started(cls, now: datetime) -> "MonitorEntry":
        """Begin, or begin again after a reset: a poll now, and then the shortest interval."""
        return cls(next_at=now)

    def answered(self, policy: Backoff, now: datetime, random: Callable[[], float] = no_jitter) -> "MonitorEntry":
        """Record a poll that found the thing pending: errors are forgotten, and the next wait is longer."""
        return MonitorEntry(now + wait(policy, self.polls, random=random), self.polls + 1)

    def failed(self, policy: Backoff, now: datetime, random: Callable[[], float] = no_jitter) -> "MonitorEntry | None":
        """Record a failed poll: waits grow as after an answer. None if the policy allows no further error in a row."""
        if policy.exhausted(self.errors + 1):
            return None
        return MonitorEntry(now + wait(policy, self.polls, random=random), self.polls + 1, self.errors + 1)
