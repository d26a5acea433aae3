"""The event bus: parts of the domain publish, others subscribe, and neither knows the other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from github_emulator.events.events import Event

_Kind = TypeVar("_Kind", bound=Event)


class EventBus:
    """Hands each event at once to the subscribers of its class, in the order in which they subscribed."""

    def __init__(self) -> None:
        self._subscribers: list[tuple[type[Event], Callable[[Any], None]]] = []
        self.is_muted = False
        """Whether webhooks are suppressed while state changes."""

    def subscribe(self, kind: type[_Kind], subscriber: Callable[[_Kind], None]) -> None:
        """Call the subscriber with each later event of this class or a subclass."""
        self._subscribers.append((kind, subscriber))

    def publish(self, event: Event) -> None:
        """Pass the event to its subscribers; returns when all are done, with what they caused."""
        for kind, subscriber in tuple(self._subscribers):
            if isinstance(event, kind):
                subscriber(event)

    @contextmanager
    def muted(self, muted: bool = True) -> Iterator[None]:
        """Publish events within it without telling apps, also where an inner call would tell them."""
        before, self.is_muted = self.is_muted, self.is_muted or muted
        try:
            yield
        finally:
            self.is_muted = before
