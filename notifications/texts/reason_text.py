"""The text of a reason, and what several texts end with."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReasonText:
    """The sentence about the cause, and the next step."""

    sentence: str
    next_step: str


REQUEUE = " Then comment `/queue` or add the label {label}."
