"""Store the changes of entries, each with its effects in one transaction (P2).

Where the rules of the base branch require that IMQ's own check passes, it passes right before the merge. The outbox is
the one writer of the check run. So a pass stores that the check is to pass, and ends; the dispatcher writes that, and
wakes the queue. The next pass reads GitHub again before it merges. If the process dies in between, the outbox still has
what GitHub shows. Then the next pass merges the head, or withdraws the check.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from queue_engine.config.model import Policy
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.errors import GitHubError, Refused
from queue_engine.domain.facts import CheckReport, FailingCheck, as_data
from queue_engine.domain.model import Entry, EntryStatus, UnmetRequirement
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.labels import remove_testing_label, start_queue_only_checks
from queue_engine.effects.notices import (
    announce_blockers,
    announce_progress,
    announce_retrying,
    announce_run_ended,
    pass_own_check,
    withdraw_own_check,
)
from queue_engine.effects.queue_depth import announce_not_ready
from queue_engine.effects.record import explained
from queue_engine.effects.stale_runs import cancel_later
from queue_engine.known.own_writes import record_merge_request
from queue_engine.planner.actions import Dequeue, Facts
from queue_engine.planner.github_outage import shows_retrying
from queue_engine.rules.check_progress import check_data, check_limits_by, progress, rerun_seconds, with_reports
from queue_engine.rules.checks import failing_checks, rerun_names
from queue_engine.rules.consent import named, updated_for
from queue_engine.rules.eligibility import Reject
from queue_engine.rules.transitions import check_transition, preempted
from queue_engine.store import Transaction

_log = structlog.get_logger("imq.entries")

_NOTICE_OF_STATUS = {EntryStatus.UPDATING: NoticeKind.UPDATING, EntryStatus.CHECKING: NoticeKind.CHECKING}

_MEASURED = 50
"""By how many passed tests of its branch the time limit of a check is set."""

Checks = tuple[CheckReport, ...]

_ASK_AGAIN = timedelta(seconds=10)
"""When the pass looks again whether the check run was written, in case that the wake-up was lost."""


@dataclass(frozen=True, slots=True)
class CheckResults:
    """What a pass found out about the checks of an entry."""

    running: Checks = ()
    """The reports under way."""
    ended: datetime | None = None
    """When the last check completed, if they passed."""
    failing: tuple[FailingCheck, ...] = ()
    """The failed checks that run again, with their jobs."""


_NO_RESULTS = CheckResults()


@dataclass(frozen=True, slots=True)
class EntryChange:
    """What goes with a change of an entry."""

    announce: bool = False
    """Whether the comment is updated even if the status is the same."""
    checks: CheckResults = _NO_RESULTS
    before_merge: bool = False
    """Whether a merge request for the head follows, which is recorded in the same transaction."""
    passes_on: bool = False
    """Whether IMQ's own check, if it passes, still does."""


AS_USUAL, PASSES_ON = EntryChange(), EntryChange(passes_on=True)


@dataclass(frozen=True, slots=True)
class EntryUpdates:
    """Stores changes of the front of one queue."""

    engine: Engine
    policy: Policy

    async def save(self, entry: Entry, changed: Entry, *, depth: int, how: EntryChange = AS_USUAL) -> Entry:
        """Store a changed entry, with what is known of its checks; returns the stored entry.

        Raises StaleRecord if the entry changed since it was read, InvariantError for a forbidden transition.
        """
        moved = changed.status is not entry.status
        if moved:
            check_transition(entry.status, changed.status)
        async with self.engine.change() as change:
            if moved and changed.status is EntryStatus.CHECKING:
                limits = await measured_limits(change.tx, changed.repository.id, changed.base_branch)
                changed = replace(changed, run=replace(changed.run, check_limits=limits))
            saved = await change.tx.entries.save(changed)
            await start_queue_only_checks(change.tx, entry, saved, self.policy, change.now)
            if how.before_merge:
                await record_merge_request(change.tx, saved, saved.head, change.now)
            elif _may_withdraw(entry) and not how.passes_on:
                await withdraw_own_check(change.tx, saved, self.policy, change.now)
            if changed.head != entry.head:
                await cancel_later(
                    change.tx, replace(entry, run=replace(entry.run, new_head=None)), self.policy, change.now
                )
            if moved or how.announce:
                # Once the check run names the pending checks, progress updates it, in rarer outbox items of its own.
                check_run = moved or not entry.run.pending_checks
                await self._announce(change, saved, depth=depth, checks=how.checks.running, check_run=check_run)
            if moved and saved.status is EntryStatus.PENDING and entry.run.candidate_run is not None:
                await announce_run_ended(change.tx, saved, self.policy, change.now, depth=depth)
            if (event := progress(entry, saved)) is not None:
                change.progress.append(event)
            events = _events(entry, saved, change.now, how.checks)
            for word, data in events.items():
                await change.record(word, saved, delivery=saved.delivery, data=data)
        for word, data in events.items():
            _log.info(word, repository=saved.repository.full_name, number=saved.number, **_logged(data))
        return saved

    async def _announce(self, change: Change, saved: Entry, *, depth: int, checks: Checks, check_run: bool) -> None:
        """Announce the entry's status, if people are to read of this status."""
        tx, now = change.tx, change.now
        if (kind := _NOTICE_OF_STATUS.get(saved.status)) is not None:
            await announce_progress(tx, saved, kind, self.policy, now, depth=depth, checks=checks, check_run=check_run)

    async def save_retrying(self, changed: Entry, next_try: datetime, error: GitHubError, *, depth: int) -> Entry:
        """Store that the entry waits for a retry, and announce that once GitHub has failed for a while.

        If GitHub refuses requests, the queue is paused for that, which all of its entries read instead.
        """
        async with self.engine.change() as change:
            saved = await change.tx.entries.save(changed)
            if _may_withdraw(saved) and saved.run.merge_requested_at is None:
                await withdraw_own_check(change.tx, saved, self.policy, change.now)
            if shows_retrying(saved.run, change.now):
                await record.pause_refused(change, saved.queue_id, error)
                if not isinstance(error, Refused):
                    await announce_retrying(change.tx, saved, next_try, self.policy, change.now, depth=depth)
        return saved

    async def block(self, entry: Entry, changed: Entry, reason: Reason, message: str) -> None:
        """Block the entry: it keeps its position in the order, its queue proceeds, and its comment names the reason."""
        check_transition(entry.status, changed.status)
        async with self.engine.change() as change:
            saved = await change.tx.entries.save(changed)
            await remove_testing_label(change.tx, entry, self.policy, change.now)
            blocker = Blocker(reason, message)
            await announce_blockers(change.tx, saved, [blocker], self.policy, change.now, kind=NoticeKind.BLOCKED)
            # Without a head, since this event is no refusal of one.
            data = {"detail": message, **check_data(entry, change.now)}
            await change.record("blocked", saved, reason=reason, delivery=saved.delivery, data=data)
        _log.info("blocked", repository=saved.repository.full_name, number=saved.number, reason=reason.value)

    async def unready(self, entry: Entry, unmet: tuple[UnmetRequirement, ...]) -> None:
        """Store the entry outside its queue until it has what it lacks; its proved head keeps the consent (P4)."""
        now = self.engine.clock.now()
        back = preempted(entry, now)
        back = replace(back, queued_head=entry.head, updated_from=None, unmet=unmet, read_at=now)
        check_transition(entry.status, back.status)
        async with self.engine.change() as change:
            saved = await change.tx.entries.save(back)
            await remove_testing_label(change.tx, entry, self.policy, change.now)
            await announce_not_ready(change, saved, self.policy)
            await change.tx.queues.wake(entry.queue_id, change.now)
        _log.info("unready", repository=entry.repository.full_name, number=entry.number, reason=unmet[0].reason.value)

    async def dequeue(
        self, entry: Entry, reason: Reason, facts: Facts, *, detail: str | None, checks: Checks = ()
    ) -> None:
        """Dequeue the entry, with what this pass has read."""
        if reason is Reason.HEAD_CHANGED and (other := await self._updated_for(entry, facts)) is not None:
            reason, detail = Reason.UPDATED_FOR_ANOTHER, named(other)
        with suppress(GitHubError):
            why_lost = await explained(self.engine, entry, Reject(reason, detail))
            reason, detail = why_lost.reason, why_lost.detail
        check_transition(entry.status, record.status_of(reason))
        people = (entry.author, *(facts.pull.assignees if facts.pull else ()))
        entry = replace(entry, run=with_reports(entry.run, facts.reports or ()))
        async with self.engine.change() as change:
            if reason is Reason.CONFLICT and detail is None:
                detail = await _landed_meanwhile(change.tx, entry)
            failing = failing_checks(checks, facts.reports)
            people = tuple(dict.fromkeys(people))
            why = DequeueReason(reason, detail, checks, people, entry.delivery, failing=failing)
            await record.dequeue(change, entry, why, self.policy)
        _log.info("dequeued", repository=entry.repository.full_name, number=entry.number, reason=reason.value)

    async def _updated_for(self, entry: Entry, facts: Facts) -> Entry | None:
        """Return the entry of the same branch for which IMQ made the new head; None if IMQ did not make it."""
        head = entry.run.new_head if facts.pull is None else facts.pull.head_sha
        if entry.head_branch is None or head is None:
            return None
        async with self.engine.store.reading() as tx:
            others = await tx.entries.sharing(entry.repository.id, entry.number, entry.head_branch)
        return updated_for(entry, head, others)


def _events(before: Entry, after: Entry, now: datetime, checks: CheckResults) -> dict[str, dict[str, Any]]:
    """Return the events that this change of an entry adds to its timeline, with their data."""
    events: dict[str, dict[str, Any]] = {}
    if (
        before.run.rerun_at is not None
        and after.run.rerun_at is None
        and before.run.rerun_checks == after.run.rerun_checks
    ):
        seconds = rerun_seconds(before.run, after.run)
        events["rerun"] = {"head": after.head, "checks": list(rerun_names(after.run)), "check_seconds": seconds}
        if checks.failing:
            events["rerun"]["failing"] = as_data(checks.failing)
    if after.status is before.status:
        return events
    data: dict[str, Any] = {"head": after.head, "base_tip": after.run.base_tip}
    events[after.status.value] = data
    if before.run.candidate is not None and after.run.candidate is None:
        # The run starts over: its checks are void, but they took their time.
        data |= check_data(before, now)
    elif after.status is EntryStatus.READY:
        data |= check_data(replace(after, status_since=before.status_since), now, passed=True)
    ended = checks.ended
    if after.status is EntryStatus.READY and ended is not None:
        # IMQ may find that later than the checks completed, for example after a pause.
        ended = min(max(ended, before.status_since), now)
        data["ended"] = ended.isoformat()
    if after.status is EntryStatus.READY and before.run.merge_refusals == 0:
        if after.run.rerun_checks:
            events["flaky"] = {"head": after.head, "checks": list(rerun_names(after.run))}
        elif after.head != after.queued_head and ended is not None:
            # Only the checks of IMQ's own update all began with the status: their durations are history.
            data["checks"] = (ended - before.status_since).total_seconds()
    return events


def _logged(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in ("check_seconds", "check_ended", "failing")}


async def measured_limits(tx: Transaction, repository_id: int, base_branch: str) -> dict[str, int] | None:
    """Return the time limits of checks in seconds, by how long each took on this branch before; None: no history."""
    events = await tx.timeline_reads.of_branch(repository_id, base_branch, [EntryStatus.READY.value], limit=_MEASURED)
    return check_limits_by(event.data for event in events) or None


async def _landed_meanwhile(tx: Transaction, entry: Entry) -> str | None:
    """Name the pull requests that landed since this entry was queued, since the conflict may be with one of them."""
    landed = EntryStatus.LANDED.value
    numbers = await tx.timeline.pull_requests(entry.repository.id, entry.base_branch, landed, entry.enqueued_at)
    return (
        f"since it was queued, {', '.join(f'#{n}' for n in numbers)} landed on {entry.base_branch}" if numbers else None
    )


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


def _may_withdraw(entry: Entry) -> bool:
    """Whether IMQ's check may pass on this entry, so that a change of the entry has to withdraw that."""
    return entry.own_check_required and entry.status is EntryStatus.READY
