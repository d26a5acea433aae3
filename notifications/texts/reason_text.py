"""What people read about one reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReasonText:
    """The sentence about the cause, and the next step."""

    sentence: str
    next_step: str
