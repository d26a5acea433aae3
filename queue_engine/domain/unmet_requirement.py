"""Requirements that a pull request does not meet yet, and may still meet without a new request. Plain data."""

from dataclasses import dataclass

from queue_engine.domain.reasons import Reason

MAY_STILL_BE_MET = frozenset(
    {
        Reason.STACKED_ABOVE,
        Reason.STACK_LANDED,
        Reason.HEAD_SHARED,
        Reason.DRAFT,
        Reason.APPROVAL_MISSING,
        Reason.CHANGES_REQUESTED,
        Reason.CODE_OWNER_MISSING,
    }
)
"""Reasons that people remove without a new request: with `when_not_ready: wait` the pull request waits for that."""


@dataclass(frozen=True, slots=True)
class UnmetRequirement:
    """A requirement that the pull request does not meet yet; `detail` may hold text from GitHub or users."""

    reason: Reason
    """One of `MAY_STILL_BE_MET`."""
    detail: str | None = None

    def as_data(self) -> list[str | None]:
        """Return JSON data."""
        return [self.reason.value, self.detail]

    @classmethod
    def all_of(cls, data: list[list[str]] | None) -> tuple["UnmetRequirement", ...]:
        """Read what `as_data` returned for each."""
        return tuple(cls(Reason(reason), detail) for reason, detail in data or ())
