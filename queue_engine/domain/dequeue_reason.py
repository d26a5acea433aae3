"""Why an entry leaves its queue without landing, with the facts that people read about it."""

from dataclasses import dataclass

from queue_engine.domain.facts import CheckReport
from queue_engine.domain.failing_check import FailingCheck
from queue_engine.domain.reasons import Reason

GREEN_BEFORE = "passed before the update, failed on IMQ's merge commit"
"""Details of a departure begin so where a check was green on the queued head: it may judge IMQ's own commit."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Who caused a departure, as far as a webhook says it."""

    by: str
    """The login of the account that acted, as GitHub showed it."""
    bot: bool = False
    after_update: float | None = None
    """How many seconds after IMQ's own update of the branch, by GitHub's clock; None: none is known."""


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
    by_bot: bool = False
    """Whether GitHub says that `by` is a bot."""
    failing: tuple[FailingCheck, ...] = ()
    """The failed checks for programs and pages: one for each workflow run."""
