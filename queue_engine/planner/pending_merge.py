"""Follow a merge that GitHub makes in the background, until its end."""

from dataclasses import replace
from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.core.timing.backoff import MONITOR
from queue_engine.domain.model import Entry
from queue_engine.domain.port import MergeState, PendingMerge
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Action, Dequeue, FactKind, Facts, Landing, ReadFact, Save, Wait
from queue_engine.rules.transitions import after_poll, with_refusal

_UNFINISHED = "GitHub has not finished its merge in the background, and may still do so"


def follow_merge(entry: Entry, facts: Facts, policy: Policy, now: datetime) -> Action:
    """Return the next action while GitHub merges the entry, which no call stops.

    A webhook reports most landings before. A refusal is judged afterwards, as that of any other merge. GitHub keeps a
    result for a day ("Merge API"); the time limit is shorter (P5).
    """
    pending, run = facts.pending_merge, entry.run
    if pending is None:
        waits = run.next_poll_at is not None and now < run.next_poll_at
        return Wait(entry, run.next_poll_at) if waits and run.next_poll_at else ReadFact(FactKind.PENDING_MERGE)
    if pending.state is MergeState.MERGED:
        return Landing(pending.sha)
    if pending.state is not MergeState.PENDING:
        return Save(with_refusal(_followed(entry, None), now))
    if now - (run.merge_requested_at or now) >= policy.pending_merge_timeout:
        return Dequeue(Reason.GITHUB_TROUBLE, detail=_UNFINISHED)
    waiting = after_poll(entry, MONITOR, now)
    return Wait(waiting, waiting.run.next_poll_at or now)


def with_pending_merge(entry: Entry, pending: PendingMerge, now: datetime) -> Entry:
    """Record the merge that GitHub has accepted, and when IMQ reads its result first."""
    run = replace(entry.run, polls=0, next_poll_at=now + MONITOR.base)
    return _followed(replace(entry, run=run), pending.uuid)


def _followed(entry: Entry, uuid: str | None) -> Entry:
    return replace(entry, run=replace(entry.run, merge_uuid=uuid))
