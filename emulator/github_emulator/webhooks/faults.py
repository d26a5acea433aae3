"""What can go wrong with webhooks on their way, on demand and reproducibly."""

import random
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class ResponseFault:
    """What becomes of one delivery."""

    drop: bool = False
    copies: int = 1
    delay: timedelta = timedelta(0)


@dataclass(slots=True)
class _Fault:
    event: str | None
    action: str | None
    left: int | None
    drop: bool = False
    copies: int = 1
    delay: timedelta = timedelta(0)
    within: timedelta = timedelta(0)

    def matches(self, event: str, action: str | None) -> bool:
        return self.left != 0 and self.event in {None, event} and self.action in {None, action}


class WebhookFaults:
    """Each fault hits the next `times` deliveries (None: all) of this event and action (None: any).

    Several faults may hit one delivery. Drops are recorded as failed, so they can be redelivered.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._faults: list[_Fault] = []

    def drop(self, times: int | None = 1, *, event: str | None = None, action: str | None = None) -> None:
        """Never arrive."""
        self._faults.append(_Fault(event, action, times, drop=True))

    def double(self, times: int | None = 1, *, event: str | None = None, action: str | None = None) -> None:
        """Arrive twice, with one GUID."""
        self._faults.append(_Fault(event, action, times, copies=2))

    def delay(
        self, by: timedelta, times: int | None = 1, *, event: str | None = None, action: str | None = None
    ) -> None:
        """Arrive later."""
        self._faults.append(_Fault(event, action, times, delay=by))

    def reorder(
        self, within: timedelta, times: int | None = None, *, event: str | None = None, action: str | None = None
    ) -> None:
        """Arrive later by a random part of `within`, so in another order; the seed decides which."""
        self._faults.append(_Fault(event, action, times, within=within))

    def clear(self) -> None:
        """Forget all faults."""
        self._faults.clear()

    def fate(self, event: str, action: str | None) -> ResponseFault:
        """What becomes of the next delivery; uses the faults up that hit it."""
        hits = [fault for fault in self._faults if fault.matches(event, action)]
        delay = timedelta(0)
        copies = 1
        for fault in hits:
            fault.left = None if fault.left is None else fault.left - 1
            delay += fault.delay + fault.within * (self._chance.random() if fault.within else 0)
            copies *= fault.copies
        return ResponseFault(any(fault.drop for fault in hits), copies, delay)
