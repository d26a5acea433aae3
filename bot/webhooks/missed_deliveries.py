"""Have GitHub redeliver deliveries that were not stored."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from queue_engine.core.concurrency.wakeup import Wakeup
from queue_engine.domain.webhook_event import WebhookEvent

TOPIC = "missed deliveries"
"""What the loop that asks for a look listens for."""


class MissedDeliveries:
    """Remembers that deliveries may have been missed, until a look for them is stored."""

    def __init__(
        self, receive: Callable[[WebhookEvent], Awaitable[bool]], look: Callable[[], Awaitable[None]], bell: Wakeup
    ) -> None:
        """`receive` stores a delivery; `look` stores the wish for a look, as soon as the database is back."""
        self._receive = receive
        self._look = look
        self._bell = bell
        self._missed = False

    async def receive(self, hint: WebhookEvent) -> bool:
        """Store a delivery; remember it as missed if that fails. Raises what `receive` raises."""
        try:
            return await self._receive(hint)
        except Exception:
            self.note()
            raise

    def note(self) -> None:
        """Remember that deliveries may have been missed."""
        self._missed = True
        self._bell.notify(TOPIC)

    async def run_due(self) -> bool:
        """Ask for a look if deliveries may have been missed; whether that was so. Raises what the database raises."""
        if not self._missed:
            return False
        self._missed = False
        try:
            await self._look()
        except Exception:
            self._missed = True
            raise
        return True

    async def next_due(self) -> datetime | None:
        """Nothing becomes due by time."""
        return None
