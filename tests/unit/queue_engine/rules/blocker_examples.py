"""Queues and their blockers."""

from collections.abc import Sequence
from typing import Any

from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.model import Entry, RedBase
from queue_engine.domain.reasons import Reason
from queue_engine.rules.blockers import unannounced
from tests.store import examples as stored
from tests.unit.queue_engine.examples import HOUR, MINUTE, NOW

RED = RedBase("ci", "tip-1", NOW, 0, NOW + 10 * MINUTE, 10)


FREEZE = Blocker(Reason.FROZEN, "the fair", NOW + 2 * HOUR, NOW + 2 * HOUR)
HALT = Blocker(Reason.PAUSED_BY_HAND, "the disk", recorded=True)
BASE_RED = Blocker(Reason.BASE_RED, "ci", next_poll_at=RED.next_poll_at)
NOT_STARTING = Blocker(Reason.CHECKS_NOT_STARTING, "ci, lint")


def line(*changes: dict[str, Any]) -> list[Entry]:
    """A queue of entries 1, 2, 3, ... in order, with these changes."""
    return [stored.changed(stored.entry(n), position=n - 1, **each) for n, each in enumerate(changes, 1)]


Announced = Sequence[tuple[int, Sequence[Blocker]]]


def announced_to(before: BlockerNotices | None, blockers: Sequence[Blocker], entries: Sequence[Entry]) -> Announced:
    """The numbers of the entries to notify, each with the blockers that concern it."""
    return [(entry.number, concerning) for entry, concerning in unannounced(before, blockers, entries)]
