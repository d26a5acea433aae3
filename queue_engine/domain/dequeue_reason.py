"""Why an entry leaves its queue without landing, with the facts that people read about it."""

from dataclasses import dataclass

from queue_engine.domain.facts import CheckReport
from queue_engine.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class DequeueReason:
    """A reason code with its details. `detail` may hold foreign words."""

    reason: Reason
    detail: str | None = None
    checks: tuple[CheckReport, ...] = ()
    """The check reports that the entry failed by."""
    people: tuple[str, ...] = ()
    """Logins that the comment mentions, if the next step is the author's."""
    delivery: str | None = None
    """The webhook that caused it."""
    by: str | None = None
    """The person or program that asked for it, if any."""
