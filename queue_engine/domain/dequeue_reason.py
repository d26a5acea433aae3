"""Why an entry leaves its queue without landing, with the facts that people read about it."""

from dataclasses import dataclass

from queue_engine.domain.facts import CheckReport
from queue_engine.domain.failing_check import FailingCheck
from queue_engine.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class DequeueReason:
    """A reason code with its details. `detail` may hold text from GitHub or users."""

    reason: Reason
    detail: str | None = None
    checks: tuple[CheckReport, ...] = ()
    """The failed check reports."""
    people: tuple[str, ...] = ()
    """Logins that the comment mentions, if the reason mentions the author."""
    delivery: str | None = None
    """The webhook that caused the dequeue."""
    by: str | None = None
    """The person or program that asked for the dequeue, if any."""
    failing: tuple[FailingCheck, ...] = ()
    """The failed checks for programs and pages: one for each workflow run."""
