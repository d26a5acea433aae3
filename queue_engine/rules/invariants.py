"""Invariants of a queue. A queue that breaks one is paused with an alert, and affects no other."""

from collections.abc import Sequence

from queue_engine.domain.errors import InvariantError, TransitionError
from queue_engine.domain.model import PROCESSING, TRANSITIONS, Entry, EntryStatus


def check_queue(entries: Sequence[Entry]) -> None:
    """Check one queue, given in order, front first.

    Positions are 0..n-1. Each pull request has one entry, and all entries are of the same queue and in a waiting
    status. Only members of the active run, which is the front's, or of runs with others, are past pending. Raises
    InvariantError.
    """
    active = {entry.run.id for entry in entries[:1]} - {None}
    for expected, entry in enumerate(entries):
        if entry.position != expected:
            raise InvariantError(f"pull request {entry.number} is at position {entry.position}, not {expected}")
        if entry.status.final:
            raise InvariantError(f"pull request {entry.number} is in the queue although it is {entry.status}")
        if entry.status in PROCESSING and entry.run.id not in active and entry.run.candidate_run is None:
            raise InvariantError(f"pull request {entry.number} is {entry.status} at position {expected}")
    if len({entry.number for entry in entries}) != len(entries):
        raise InvariantError("a pull request is in the queue more than once")
    if len({entry.queue_id for entry in entries}) > 1:
        raise InvariantError("entries of several queues are in one")


def check_transition(old: EntryStatus, new: EntryStatus) -> None:
    """Check a change of status against the table of transitions; the same status is allowed. Raises TransitionError."""
    if new is not old and new not in TRANSITIONS[old]:
        raise TransitionError(f"{old} does not lead to {new}")
