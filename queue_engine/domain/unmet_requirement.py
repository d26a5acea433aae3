"""Requirements that a pull request does not meet yet, and may still meet without a new request. Plain data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from queue_engine.domain import failing_check
from queue_engine.domain.failing_check import FailingCheck
from queue_engine.domain.reasons import Reason

MAY_STILL_BE_MET = frozenset(
    {
        Reason.STACKED_ABOVE,
        Reason.STACK_LANDED,
        Reason.HEAD_SHARED,
        Reason.DRAFT,
        Reason.BLOCKED_BY_LABEL,
        Reason.BLOCKED_BY_TITLE,
        Reason.APPROVAL_MISSING,
        Reason.CHANGES_REQUESTED,
        Reason.CODE_OWNER_MISSING,
        Reason.CONVERSATIONS_UNRESOLVED,
        Reason.CHECKS_FAILED,
        Reason.CHECK_ABSENT,
    }
)
"""Reasons that people remove without a new request: with `when_not_ready: wait` the pull request waits for that."""


@dataclass(frozen=True, slots=True)
class UnmetRequirement:
    """A requirement that the pull request does not meet yet; `detail` may hold text from GitHub or users."""

    reason: Reason
    """One of `MAY_STILL_BE_MET`."""
    detail: str | None = None
    failing: tuple[FailingCheck, ...] = ()
    """The required checks that fail on the head."""

    def as_data(self) -> list[Any]:
        """Return JSON data: reason and detail, and failing checks if there are any."""
        failing = [failing_check.as_data(self.failing)] if self.failing else []
        return [self.reason.value, self.detail, *failing]

    @classmethod
    def of_data(cls, data: Sequence[Any]) -> "UnmetRequirement":
        """Read what `as_data` returned."""
        reason, detail, *failing = data
        return cls(Reason(reason), detail, tuple(map(FailingCheck.of_data, failing[0] if failing else ())))

    @classmethod
    def all_of(cls, data: Sequence[Sequence[Any]] | None) -> tuple["UnmetRequirement", ...]:
        """Read what `as_data` returned for each."""
        return tuple(map(cls.of_data, data or ()))


def failing_in(unmet: Sequence[UnmetRequirement]) -> tuple[FailingCheck, ...]:
    """Return the checks that fail, of all requirements."""
    return tuple(check for each in unmet for check in each.failing)
