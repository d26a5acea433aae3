"""Deliveries that were not stored: GitHub keeps them, and sends them again only when it is asked to."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from queue_engine.core.bell import Bell
from queue_engine.hints import Hint

TOPIC = "missed deliveries"
"""What the loop that asks for a look listens for."""


class MissedDeliveries:
    """Remembers that deliveries may have been missed, until a look for them is stored."""

    def __init__(
        self, receive: Callable[[Hint], Awaitable[bool]], look: Callable[[], Awaitable[None]], bell: Bell
    ) -> None:
        """`receive` stores a delivery; `look` stores the wish for a look, as soon as the database is back."""
        self._receive = receive
        self._look = look
        self._bell = bell
        self._missed = False

    async def receive(self, hint: Hint) -> bool:
        """Store a delivery; remember it as missed if that fails. Raises what `receive` raises."""
        try:
            return await self._receive(hint)
        except Exception:
            self.note()
            raise

    def note(self) -> None:
        """Remember that deliveries may have been missed."""
        self._missed = True
        self._bell.ring(TOPIC)

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
