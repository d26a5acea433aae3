"""Count how entries end, once their transaction is committed: landed or dequeued, and after how long.

In shadow mode count what IMQ would have done, and how merges by others differ from that.
"""

from queue_engine.core.observability.meter import Meter
from queue_engine.domain.departure import ENDS
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.shadow import ShadowAction, ShadowLanding
from queue_engine.domain.timeline_event import TimelineEvent


def count_outcome(meter: Meter, event: TimelineEvent) -> None:
    """Count the event if it ends an entry."""
    if event.entry_id is None or event.event not in ENDS:
        return
    if event.event == EntryStatus.LANDED:
        meter.count("landed")
        meter.observe("queue_time", event.data["queue"])
        meter.observe("front_time", event.data["front"])
    else:
        meter.count("dequeued", reason=str(event.reason))


def count_shadow_decision(meter: Meter, before: ShadowAction | None, decision: ShadowAction | None) -> None:
    """Count a decision in shadow mode, unless it only repeats the one before."""
    if decision is not None and (before is None or _kind(before) != _kind(decision)):
        meter.count("shadow_decisions", outcome=decision.outcome.value)


def _kind(decision: ShadowAction) -> tuple[object, object]:
    return decision.outcome, decision.reason


def count_shadow_landing(meter: Meter, landing: ShadowLanding) -> None:
    """Count a merge by somebody else in shadow mode, and each way in which IMQ would have acted otherwise."""
    meter.count("shadow_merges", judgement="different" if landing.differences else "same")
    for difference in landing.differences:
        meter.count("shadow_differences", difference=difference.value)
