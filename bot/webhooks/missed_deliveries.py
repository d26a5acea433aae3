"""Have GitHub redeliver deliveries that were not stored."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from queue_engine.core.concurrency.wakeup import Wakeup
from queue_engine.domain.webhooks import WebhookEvent

TOPIC = "missed deliveries"
"""The topic that wakes the loop of missed deliveries."""


class MissedDeliveries:
    """Remembers that deliveries may have been missed, until a job that looks for them is stored."""

    def __init__(
        self,
        receive: Callable[[WebhookEvent], Awaitable[bool]],
        schedule: Callable[[], Awaitable[None]],
        wakeup: Wakeup,
    ) -> None:
        """`receive` stores a delivery; `schedule` stores the job, once the database is up again."""
        self._receive = receive
        self._schedule = schedule
        self._wakeup = wakeup
        self._missed = False

    async def receive(self, webhook_event: WebhookEvent) -> bool:
        """Store a delivery; remember it as missed if that fails. Raises errors of `receive`."""
        try:
            return await self._receive(webhook_event)
        except Exception:
            self.note()
            raise

    def note(self) -> None:
        """Remember that deliveries may have been missed."""
        self._missed = True
        self._wakeup.notify(TOPIC)

    async def run_due(self) -> bool:
        """Store the job if deliveries may have been missed; return whether. Raises errors of the database."""
        if not self._missed:
            return False
        self._missed = False
        try:
            await self._schedule()
        except Exception:
            self._missed = True
            raise
        return True

    async def next_due(self) -> datetime | None:
        """Return None: nothing becomes due by time."""
        return None
