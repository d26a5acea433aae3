"""What is always true of a queue. A queue found to break it is paused with an alert and harms no other."""

from collections.abc import Sequence

from queue_engine.errors import ForbiddenTransition, InvariantBroken
from queue_engine.model import PROCESSING, TRANSITIONS, Entry, EntryStatus


def check_queue(entries: Sequence[Entry]) -> None:
    """Check one queue, given in order, front first.

    Positions are 0..n-1, a pull request stands there once, all stand in the same queue in a waiting status, and only
    the front is processed. Raises InvariantBroken.
    """
    for expected, entry in enumerate(entries):
        if entry.position != expected:
            raise InvariantBroken(f"pull request {entry.number} stands at position {entry.position}, not {expected}")
        if entry.status.final:
            raise InvariantBroken(f"pull request {entry.number} stands in the queue although it is {entry.status}")
        if expected > 0 and entry.status in PROCESSING:
            raise InvariantBroken(f"pull request {entry.number} is {entry.status} at position {expected}")
    if len({entry.number for entry in entries}) != len(entries):
        raise InvariantBroken("a pull request stands in the queue more than once")
    if len({entry.queue_id for entry in entries}) > 1:
        raise InvariantBroken("entries of several queues stand in one")


def check_transition(old: EntryStatus, new: EntryStatus) -> None:
    """Check a change of status against the table of transitions. Staying is no change. Raises ForbiddenTransition."""
    if new is not old and new not in TRANSITIONS[old]:
        raise ForbiddenTransition(f"{old} does not lead to {new}")
