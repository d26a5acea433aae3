"""Make IMQ's own check pass right before the merge, where the rules of the base branch require that.

The outbox is the one writer of the check run. So a pass stores that the check is to pass, and ends; the dispatcher
writes that, and wakes the queue. The next pass reads GitHub again before it merges. If the process dies in between, the
outbox still has what GitHub shows. Then the next pass merges the head, or withdraws the check.
"""

from datetime import datetime, timedelta

from queue_engine.config.model import Policy
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.effects.check_runs import pass_own_check
from queue_engine.effects.context import Engine
from queue_engine.planner.actions import Dequeue

_ASK_AGAIN = timedelta(seconds=10)
"""When the pass looks again whether the check run was written, in case that the wake-up was lost."""


async def await_own_check(engine: Engine, entry: Entry, policy: Policy) -> datetime | Dequeue | None:
    """Return when to look again, None once GitHub shows that IMQ's check passes on this head, or need not pass.

    Raises StaleRecord if the entry changed since it was read.
    """
    if not entry.own_check_required:
        return None
    now = engine.clock.now()
    async with engine.store.reading() as tx:
        state = await tx.outbox.check_run(entry.repository.id, entry.number)
    if state is not None and state.notice.merges_now and state.notice.head_sha == entry.head:
        if state.shown:
            return None
        if state.error is not None:
            return Dequeue(Reason.PERMISSION_MISSING, f"IMQ's check run was not written: {state.error}")
        if now - state.notice.at >= policy.outage_timeout:
            return Dequeue(Reason.GITHUB_TROUBLE, "IMQ's check run was not written")
    else:
        async with engine.change() as change:
            # The save proves that no webhook changed the entry since it was judged.
            saved = await change.tx.entries.save(entry)
            await pass_own_check(change.tx, saved, policy, now)
    return now + _ASK_AGAIN


def may_withdraw(entry: Entry) -> bool:
    """Whether IMQ's check may pass on this entry, so that a change of the entry has to withdraw that."""
    return entry.own_check_required and entry.status is EntryStatus.READY
