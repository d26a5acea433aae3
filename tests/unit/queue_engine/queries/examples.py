"""A queue that is stored nowhere, its entries, and how long others were at its front."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from queue_engine.domain.blocker import Blocker
from queue_engine.domain.model import Entry, Queue, TimelineEvent
from queue_engine.queries.queue_status import EntryView, entry_view
from queue_engine.store import Transaction
from tests.store.examples import changed, entry
from tests.unit.queue_engine.examples import CHECKING, MINUTE, NOW, REPOSITORY

DURATIONS = (10 * MINUTE,) * 5
"""Five landings, each of ten minutes at the front: the fewest that tell a range."""


def queue(**changes: Any) -> Queue:
    """The queue for `main`, without a blocker."""
    plain = Queue(id=1, repository=REPOSITORY, base_branch="main", due_at=None, wake_count=0)
    return replace(plain, **changes)


def entries(count: int, **front: Any) -> tuple[Entry, ...]:
    """So many entries in order; the front is checked since NOW, or as given."""
    first, *others = (replace(entry(number), position=number - 1) for number in range(1, count + 1))
    checked: dict[str, Any] = {"status": CHECKING, "started_at": NOW} | front
    return (changed(first, **checked), *others)


def viewed(
    number: int,
    *,
    of: Sequence[Entry],
    stored: Queue | None = None,
    blockers: Sequence[Blocker] = (),
    after: timedelta = timedelta(0),
) -> EntryView:
    """The view of one entry, so long after NOW."""
    found = next(each for each in of if each.number == number)
    return entry_view(stored or queue(), of, found, blockers, DURATIONS, NOW + after)


async def happened(t: Transaction, number: int, event: str, **facts: Any) -> None:
    """An event of a pull request against `main`."""
    await t.timeline.append(TimelineEvent(NOW, event, REPOSITORY.id, "main", number, **facts))
