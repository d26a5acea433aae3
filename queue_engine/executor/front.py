"""Make the changes of a queue that come before its runs: announce its blockers once at start and end, preempt, dequeue.

A blocked queue costs no requests, except for ever rarer polls of a red base.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog

from queue_engine.config.model import Policy
from queue_engine.domain.blocker import Blocker, BlockerNotice, BlockerNotices
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.facts import CheckReport, FailingCheck, as_data
from queue_engine.domain.model import NOWHERE, Entry, EntryStatus, Pause, Queue, RedBase, Stall
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason, few
from queue_engine.domain.run import Run
from queue_engine.effects import notices, record
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.labels import remove_testing_label
from queue_engine.effects.landings import search_later
from queue_engine.effects.record import announce_joined
from queue_engine.executor.base import poll_missing_checks, poll_red_base, poll_untested_tip
from queue_engine.known.own_writes import record_merge_request
from queue_engine.planner.check_limits import waits_for_start
from queue_engine.planner.queue_plan import QueueAction, QueueChange
from queue_engine.rules.blockers import unannounced
from queue_engine.rules.check_progress import check_data
from queue_engine.rules.depth import moved_entries
from queue_engine.rules.transitions import preempted

_log = structlog.get_logger("imq.front")


async def make(engine: Engine, queue: Queue, needed: QueueChange, policy: Policy) -> None:
    """Make this change of the queue. Raises StaleRecord if an entry changed since it was read."""
    entries, blockers = needed.entries, needed.blockers
    match needed.action:
        case QueueAction.LIFT if needed.pause is not None:
            await lift(engine, queue, needed.pause)
        case QueueAction.PAUSE:
            await _pause(engine, queue, needed.detail)
        case QueueAction.END_STALL:
            await engine.write(lambda change: change.tx.stalls.note(queue.id, None))
        case QueueAction.FOLLOW_DEPTH:
            await follow_depth(engine, entries, blockers, policy)
        case QueueAction.END_HOLD:
            await _dequeue_together(engine, entries, DequeueReason(Reason.HOLD_TIMED_OUT), policy)
        case QueueAction.ANNOUNCE:
            await _announce(engine, queue, entries, blockers, policy)
        case QueueAction.POLL_TIP if queue.red is not None:
            await poll_untested_tip(engine, queue, queue.red, policy)
        case QueueAction.POLL_MISSING if queue.stall is not None:
            await poll_missing_checks(engine, queue, queue.stall, entries, policy)
        case QueueAction.POLL_BASE if queue.red is not None:
            await poll_red_base(engine, queue, queue.red, entries, policy)
        case QueueAction.DEQUEUE:
            failing = queue.red.failing if queue.red is not None and needed.reason is Reason.BASE_STAYS_RED else ()
            why = DequeueReason(needed.reason, needed.detail, failing=failing)
            await _dequeue_together(engine, entries, why, policy)
        case QueueAction.PREEMPT:
            await _preempt(engine, entries[0], entries[1], policy, needed.depth)


async def _pause(engine: Engine, queue: Queue, fault: str) -> None:
    _log.critical("invariant_broken", queue=queue.id, detail=fault)
    await engine.write(lambda change: record.pause(change, queue, Reason.INVARIANT_BROKEN, fault))


async def lift(engine: Engine, queue: Queue, over: Pause) -> None:
    """Lift a pause that has ended."""
    async with engine.change() as change:
        stored = await change.tx.queues.get(queue.id)
        if stored is None or stored.pause(over.reason) != over:
            return
        await change.tx.pauses.lift(queue.id, over.reason, now=change.now)
        await _record(change, queue, "resumed", over.reason, over.detail, None)


async def _announce(
    engine: Engine, queue: Queue, entries: Sequence[Entry], blockers: Sequence[Blocker], policy: Policy
) -> None:
    """Announce new blockers, and the end of former ones."""
    known = BlockerNotices.from_json(queue.announced)
    before = known or BlockerNotices((), 0)
    outdated = unannounced(known, blockers, entries)
    began, ended = before.began(blockers), before.ended(blockers)
    async with engine.change() as change:
        after = before.followed_by(blockers, entries, change.now)
        await change.tx.queues.note_announced(queue.id, after.to_json() if blockers else None)
        if entries and all(blocker.exempts(entries[0]) for blocker in blockers):
            resumed = before.resumed_entry(entries[0], change.now)
            if resumed != entries[0]:
                await change.tx.entries.save(resumed)
        for entry, concerning in outdated:
            if concerning:
                await notices.announce_blockers(change, entry, concerning, policy)
            else:
                await notices.announce_resumed(change, entry, policy, depth=len(entries))
        await _record_changes(change, queue, began, ended)


async def _record_changes(
    change: Change, queue: Queue, began: Sequence[Blocker], ended: Sequence[BlockerNotice]
) -> None:
    """Record in the timeline which blockers began and ended, except those whose command or job recorded it."""
    changed = {blocker.reason for blocker in began if not blocker.recorded}
    for each in ended:
        if not each.recorded and each.reason not in changed:
            await _record(change, queue, "resumed", each.reason, each.detail, None)
    for blocker in began:
        if not blocker.recorded:
            await _record(change, queue, "paused", blocker.reason, blocker.detail, blocker.until)


async def _record(
    change: Change, queue: Queue, event: str, reason: Reason, detail: str, until: datetime | None
) -> None:
    data: dict[str, Any] = {"by": None, "detail": detail, "until": until and until.isoformat()}
    if event == "paused" and reason is Reason.BASE_RED and queue.red is not None:
        data["failing"] = as_data(queue.red.failing)
    await change.record(event, queue, reason=reason, data=data)
    _log.info(event, repository=queue.repository.full_name, base_branch=queue.base_branch, reason=reason.value)


async def _preempt(engine: Engine, front: Entry, other: Entry, policy: Policy, depth: int) -> None:
    """Preempt the front by another entry; it waits at its position, and keeps its updated head."""
    back = preempted(front, engine.clock.now())
    async with engine.change() as change:
        await change.tx.entries.save(back)
        await remove_testing_label(change, front, policy)
        saved = await change.tx.entries.get(front.id)
        assert saved is not None
        await notices.announce_progress(change, saved, NoticeKind.QUEUED, policy, depth=depth)
        data = {"head": saved.head_sha, "yields_to": other.number, **check_data(front, change.now)}
        await change.record(EntryStatus.PENDING.value, saved, data=data)
    _log.info("preempted", repository=front.repository.full_name, number=front.number, by=other.number)


async def follow_depth(engine: Engine, entries: Sequence[Entry], blockers: Sequence[Blocker], policy: Policy) -> None:
    """Announce each entry that crossed the depth limit, with the queue's blockers. Raises StaleRecord."""
    async with engine.change() as change:
        for entry in moved_entries(entries, policy):
            saved = await announce_joined(change, entry, policy, depth=len(entries))
            concerning = [blocker for blocker in blockers if blocker.concerns(saved)]
            if saved.held_since is None and concerning:
                await notices.announce_blockers(change, saved, concerning, policy)


async def _dequeue_together(engine: Engine, entries: Sequence[Entry], why: DequeueReason, policy: Policy) -> None:
    """Dequeue entries of one queue, all for one reason. Raises StaleRecord if one changed since it was read."""
    await engine.write(lambda change: record.dequeue_together(change, entries, why, lambda _: policy))
    _log.info("dequeued", repository=entries[0].repository.full_name, numbers=[each.number for each in entries])


async def hold_for_base(
    engine: Engine, queue: Queue, policy: Policy, check: CheckReport, tip: str, failing: tuple[FailingCheck, ...]
) -> datetime:
    """Store that the base itself fails its check, and `failing`: only fixes of the base land until it passes."""
    now = engine.clock.now()
    async with engine.change() as change:
        # The first poll, at once, reruns a failed job of GitHub Actions.
        later = now if check.by_actions and policy.checks.reruns else now + policy.ask_again.maximum
        red = RedBase(check.name, tip, now, 0, later, check.app_id, failing=failing)
        # Only a move of the base sets the polls of a broken workflow file back to none.
        await change.tx.red_bases.note(queue.id, replace(red, polls=1) if red.is_workflow else red)
        await search_later(change, queue, policy, tip, check.name)
    return now


@dataclass(frozen=True, slots=True)
class StallFacts:
    """The checks that did not start for the front, and those that no commit has."""

    here: tuple[str, ...] = ()
    anywhere: str | None = None


async def record_stall(
    engine: Engine, queue: Queue, stall: Stall | None, run: Run, found: StallFacts
) -> datetime | None:
    """Store that no check starts for the front. The pass then announces the blocker, or its end, at once."""
    now = engine.clock.now()
    if found.anywhere is not None and (stall is None or not stall.never):
        new = Stall(now, NOWHERE, found.anywhere)
    elif stall is not None:
        return None if stall.never or waits_for_start(run, stall.head_sha) else now
    elif found.here and run.candidate is not None:
        new = Stall(now, run.candidate, few(found.here))
    else:
        return None
    await engine.write(lambda change: change.tx.stalls.note(queue.id, new))
    return now


async def record_refused_merge(engine: Engine, entry: Entry) -> None:
    """Record that GitHub refused to merge; in its own transaction, since a webhook may have changed the entry since."""
    await engine.store.write(lambda tx: record_merge_request(tx, entry, None, engine.clock.now()))
