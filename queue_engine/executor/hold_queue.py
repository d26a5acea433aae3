"""Store holds of a whole queue: the base fails, no check starts, GitHub merges nothing."""

from datetime import datetime

from queue_engine.domain.facts import CheckReport
from queue_engine.domain.model import Entry, Queue, RedBase, Stall
from queue_engine.domain.policy import Policy
from queue_engine.effects.context import Engine
from queue_engine.known.own_merges import record_merge_request
from queue_engine.planner.check_limits import few, waits_for_start


async def hold_for_base(engine: Engine, queue: Queue, policy: Policy, check: CheckReport, tip: str) -> datetime:
    """Store that the base itself fails its check: only what fixes the base lands until it passes."""
    now = engine.clock.now()
    async with engine.change() as change:
        # What Actions reported there is run again, once, by the first look.
        later = now if check.by_actions and policy.check_reruns else now + policy.ask_again.maximum
        red = RedBase(check.name, tip, now, 0, later, check.app_id)
        await change.tx.red_bases.note(queue.id, red)
    return now


async def note_stall(
    engine: Engine, queue: Queue, stall: Stall | None, entry: Entry, not_starting: tuple[str, ...]
) -> datetime | None:
    """Store that no check starts for the front. The next look, at once, tells that, or that one did start."""
    now = engine.clock.now()
    if stall is not None:
        return None if waits_for_start(entry, stall.head) else now
    if not not_starting or (candidate := entry.run.candidate) is None:
        return None
    async with engine.change() as change:
        await change.tx.stalls.note(queue.id, Stall(now, candidate, few(not_starting)))
    return now


async def note_refused(engine: Engine, entry: Entry) -> None:
    """GitHub merges nothing. Stored by itself: a webhook may have changed the entry since it was saved."""
    async with engine.store.transaction() as tx:
        await record_merge_request(tx, entry, None, engine.clock.now())
