"""Why a queue stands still, if it does: a pause, a broken configuration, a freeze, a base that is red. Pure."""

from dataclasses import dataclass
from datetime import datetime

from queue_engine.model import Entry, Queue
from queue_engine.policy import Policy
from queue_engine.reasons import Reason


@dataclass(frozen=True, slots=True)
class Standstill:
    """The reason, what people read of it beside its sentence, and when it is looked at again; None: when woken."""

    reason: Reason
    detail: str
    until: datetime | None


def standstill(queue: Queue, front: Entry, policy: Policy, now: datetime) -> Standstill | None:
    """Why this front may not be advanced now; None if nothing stands in its way."""
    if queue.paused is not None and (queue.paused.until is None or now < queue.paused.until):
        return Standstill(queue.paused.reason, queue.paused.detail, queue.paused.until)
    return None
