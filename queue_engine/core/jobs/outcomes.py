"""Outcomes of a job's handler: data, which the worker stores.

A handler returns an outcome, or raises. `is_retryable` (`queue_engine.domain.errors`) says whether trying again may
help: yes for no connection, 5xx, 408, limits and refusals that GitHub does not explain, never for another 4xx. What
cannot be read is dead at once; faults of IMQ are tried again. A hold is no attempt, and neither is a fault of the
database. Holds are counted for their reason alone, so that one does not use up the tries of another (`Job.holds`).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class JobResult:
    """The job is done. `response` is kept if a consumer collects results."""

    response: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """A transient failure, which counts as an attempt: retry after `delay`, or after the worker's backoff.

    When the attempts are used up it is dead.
    """

    error: str
    delay: timedelta | None = None
    level: int = logging.INFO
    """At which the attempt is logged."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The job cannot be done yet, which counts as no attempt: again after `delay`.

    `Job.holds` counts the holds of each `why`, for a handler that bounds how often it holds a job for that reason.
    """

    delay: timedelta
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Dead:
    """A final failure, for a person to see. `retryable` if a later retry may help."""

    error: str
    retryable: bool


Outcome = JobResult | Retry | Hold | Dead
