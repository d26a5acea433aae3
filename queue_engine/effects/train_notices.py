"""Have the check run of a member show that its run ended, in the transaction that returns the member to its queue."""

from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.domain.model import Entry
from queue_engine.domain.notice import NoticeKind
from queue_engine.effects.check_runs import is_shown, want_check_run
from queue_engine.effects.notices import progress_notice
from queue_engine.queries.train_status import load_trains
from queue_engine.store import Transaction


async def announce_run_ended(tx: Transaction, entry: Entry, policy: Policy, now: datetime, *, depth: int) -> None:
    """Have the check run show what the train does with the entry now, unless its next run begins within a moment."""
    if await is_shown(tx, entry):
        notice = await progress_notice(tx, entry, NoticeKind.QUEUED, policy, now, depth=depth)
        train = (await load_trains(tx, entry.queue_id)).notice(entry.number)
        shown = notice.model_copy(update={"train": train})
        await want_check_run(tx, entry, shown, policy, now + policy.comment_debounce)
