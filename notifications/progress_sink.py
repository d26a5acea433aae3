"""Send progress to the event bus, and to the check run of an entry whose checks take long."""

from notifications.event_bus import Event, EventBus
from queue_engine.config.model import Policy
from queue_engine.core.observability.progress import ProgressEvent
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.model import Entry
from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.rules.check_progress import pending_checks, tally
from queue_engine.store import Store
from queue_engine.store.outbox.outbox import OutboxKind


class BusProgress:
    """Publishes progress as an event."""

    def __init__(self, bus: EventBus[Event]) -> None:
        self._bus = bus

    async def on_progress(self, event: ProgressEvent) -> None:
        """Publish the event on the bus."""
        self._bus.publish(event)


class CheckRunProgress:
    """Shows in an entry's check run how many checks have reported, at the few instants that the policy names.

    Each change replaces the outbox item for the next instant, and so does the outcome. A fast entry costs no request, a
    slow one a request for each instant.
    """

    def __init__(self, store: Store, policy: Policy, clock: Clock) -> None:
        self._store = store
        self._policy = policy
        self._clock = clock

    async def on_progress(self, event: ProgressEvent) -> None:
        """Put the progress of an entry that is still being checked into the next outbox item of its check run.

        Once all have reported, the outcome follows, or the entry waits: its run failed, and another run tests it later.
        """
        async with self._store.transaction() as tx:
            entry = await tx.entries.get(event.correlation_id)
            if entry is None or (progress := tally(entry)) is None or progress[0] == progress[1]:
                return
            now = self._clock.now()
            instants = (entry.status_since + pause for pause in self._policy.progress_edits)
            due = next((instant for instant in instants if instant > now), None)
            shown = await tx.outbox.wanted(OutboxKind.CHECK_RUN, entry.repository.id, entry.number)
            if due is None or shown is None or (shown.kind, shown.head_sha) != (NoticeKind.CHECKING, entry.head):
                return
            # Another transaction that changed the entry meanwhile has announced that, and the entry may have left.
            if not await tx.entries.lock(entry):
                return
            notice = shown.model_copy(
                update={"at": now, "checks": _pending_reports(entry, shown), "progress": progress}
            )
            await tx.outbox.want(OutboxKind.CHECK_RUN, entry.repository, entry.number, due=due, notice=notice)


def _pending_reports(entry: Entry, shown: Notice) -> tuple[CheckReport, ...]:
    """Return the last reports of the pending checks."""
    reports = {check.name: check for check in shown.checks}
    return tuple(
        reports.get(name) or CheckReport(name, None, CheckState.PENDING, "expected", None, None, None)
        for name in pending_checks(entry.run)
    )
