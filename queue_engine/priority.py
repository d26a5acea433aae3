"""What its labels give a pull request in its queue: priority, precedence, and what it is let through. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from queue_engine.policy import Policy, carries


@dataclass(frozen=True)
class Standing:
    """What `Entries.add` takes beside the pull request itself."""

    priority: int = 0
    first: bool = False
    interrupts: bool = False
    fixes_base: bool = False
    freeze_exempt: bool = False


def standing_of(labels: Iterable[str], policy: Policy) -> Standing:
    """The highest priority among these labels, and every permission that one of them gives."""
    labels = tuple(labels)
    given = [each for each in policy.priorities if carries(labels, [each.label])]
    return Standing(
        priority=max((each.priority for each in given), default=0),
        first=any(each.first for each in given),
        interrupts=any(each.interrupts for each in given),
        fixes_base=any(each.fixes_base for each in given),
        freeze_exempt=carries(labels, policy.freeze_exempt_labels),
    )
