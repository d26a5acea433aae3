"""Compare a queue with what its users expect: a median wait, a wait of nearly all, and few failures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from queue_engine.core.read_model import serialized

MEDIAN_LIMIT = 30 * 60.0
"""Seconds in the queue that half of the landings stay below."""
P95_LIMIT = 2 * 3600.0
"""Seconds in the queue that 95 of 100 landings stay below."""
FAILURES_LIMIT = 0.05
"""The share of failures among the pull requests that landed or failed; cancelled ones do not count."""

MEDIAN, P95 = 0.5, 0.95
"""The shares of the landings that wait at most so long."""
FEWEST = 5
"""The number of last departures below which a queue has no figures."""


@dataclass(frozen=True, slots=True)
class HealthLimit:
    """A figure and its limit. A figure of None is not known, so it exceeds nothing."""

    figure: float | None
    limit: float

    @serialized
    def met(self) -> bool:
        """Whether the figure is below its limit, or not known."""
        return self.figure is None or self.figure < self.limit


@dataclass(frozen=True, slots=True)
class Health:
    """The figures of a queue with their limits; durations are in seconds."""

    median_wait: HealthLimit
    p95_wait: HealthLimit
    failures: HealthLimit
    counted: int
    """How many pull requests landed or failed."""

    @serialized
    def good(self) -> bool:
        """Whether every limit is met."""
        return self.median_wait.met and self.p95_wait.met and self.failures.met

    @property
    def is_known(self) -> bool:
        """Whether any pull request has landed or failed."""
        return self.failures.figure is not None


def health_of(median: float | None, p95: float | None, *, failed: int, left: int) -> Health:
    """Judge figures: the waits of landings in seconds, and how many of the `left` pull requests failed."""
    return Health(
        HealthLimit(median, MEDIAN_LIMIT),
        HealthLimit(p95, P95_LIMIT),
        HealthLimit(failed / left if left else None, FAILURES_LIMIT),
        left,
    )


def health_of_last(waits: Sequence[float], *, failed: int) -> Health:
    """Judge the last departures: the seconds that each landing waited, and how many failed. Few have no figures."""
    left = len(waits) + failed
    if left < FEWEST:
        return replace(health_of(None, None, failed=0, left=0), counted=left)
    ordered = sorted(waits)
    median, p95 = (ordered[ceil(share * len(ordered)) - 1] if ordered else None for share in (MEDIAN, P95))
    return health_of(median, p95, failed=failed, left=left)
