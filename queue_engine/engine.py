"""What every part of the engine works with: one record, made once by the wiring."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from queue_engine import journal
from queue_engine.core.bell import Bell
from queue_engine.core.clock import Clock
from queue_engine.core.meter import Meter, Silent
from queue_engine.core.progress import ProgressEvent, ProgressNotifier, Unheard
from queue_engine.journal import Happening
from queue_engine.model import Entry
from queue_engine.policies import Policies
from queue_engine.port import GitHub
from queue_engine.reasons import Reason
from queue_engine.store import Store, Transaction

Publish = Callable[[Happening], None]
"""Takes the events of a committed transaction, one by one; must not raise."""


def _nobody(happening: Happening) -> None:
    """Nobody listens."""


@dataclass(slots=True)
class Change:
    """One transaction under way, with the events that are published when it has been committed."""

    tx: Transaction
    now: datetime
    happenings: list[Happening] = field(default_factory=list)
    progress: list[ProgressEvent] = field(default_factory=list)

    async def record(
        self,
        event: str,
        entry: Entry,
        *,
        reason: Reason | None = None,
        delivery: str | None = None,
        data: dict[str, Any] | None = None,
    ) -> None:
        """Append an event of an entry to its timeline, to be published after the commit."""
        of_entry = (entry.repository, entry.base_branch, entry.number)
        self.happenings.append(
            await journal.note(
                self.tx, self.now, event, *of_entry, entry_id=entry.id, reason=reason, delivery=delivery, data=data
            )
        )


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine's surroundings. `random` gives numbers in [0, 1) for jitter; `owner` names this process's leases."""

    store: Store
    github: GitHub
    clock: Clock
    policies: Policies
    random: Callable[[], float]
    owner: str
    publish: Publish = _nobody
    progress: ProgressNotifier = field(default_factory=Unheard)
    """Hears how far the checks of entries are; must not raise."""
    lease: timedelta = timedelta(seconds=30)
    """How long a dead process can keep a queue or a job; a living one renews every third of it."""
    bell: Bell = field(default_factory=Bell)
    """Rung whenever a queue, a job or a letter may have become due; each topic is a `Due`."""
    meter: Meter = field(default_factory=Silent)

    @asynccontextmanager
    async def change(self) -> AsyncIterator[Change]:
        """A transaction; after its commit its events are published and the loops that it concerns are woken."""
        async with self.store.transaction() as tx:
            change = Change(tx, self.clock.now())
            yield change
        for happening in change.happenings:
            self.publish(happening)
        for due in change.tx.due:
            self.bell.ring(due)
        for event in change.progress:
            await self.progress.on_progress(event)
