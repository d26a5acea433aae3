"""Change the status of an entry, and the state of its run with it. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.core.timing.backoff import Backoff, MonitorEntry
from queue_engine.domain.errors import InvariantError, TransitionError
from queue_engine.domain.facts import Comparison
from queue_engine.domain.model import PROCESSING, TRANSITIONS, Entry, EntryStatus
from queue_engine.domain.run import Run, RunState


def enter(entry: Entry, state: RunState, now: datetime) -> Entry:
    """Give the entry's run a new state, and reset its counters; the run keeps its start."""
    run = replace(
        entry.run,
        state=state,
        started_at=entry.run.started_at or now,
        checks_since=now if state is RunState.TESTING else entry.run.checks_since,
        polls=0,
        next_poll_at=None,
        github_failures=0,
        github_failing_since=None,
    )
    return replace(entry, status_since=now, run=run)


def after_poll(run: Run, monitor: Backoff, now: datetime, *, waited: int = 0) -> Run:
    """Record a poll that found no change; the next poll is later, as `monitor` says.

    `waited` counts waits before the first poll. Polls that fail count as `github_failures` instead, which have a time
    limit.
    """
    after = MonitorEntry(now, run.polls + waited).answered(monitor, now)
    return replace(run, polls=run.polls + 1, next_poll_at=after.next_at)


def up_to_date(entry: Entry, comparison: Comparison, now: datetime) -> Entry:
    """Start checking the present head, which needs no update; its checks may have passed already."""
    checking = enter(entry, RunState.TESTING, now)
    candidate, tree = entry.head_sha, comparison.head.tree
    run = replace(checking.run, base_tip=comparison.base_tip, candidate=candidate, tested_tree=tree, next_poll_at=now)
    return replace(checking, run=run)


def updating(entry: Entry, base_tip: str | None, policy: Policy, now: datetime) -> Entry:
    """Prepare an update request: the run begins, or starts over, on this tip without a candidate."""
    started = entry.run.started_at or now
    due = now + policy.update_poll.base
    run = replace(entry.run.ended(), state=RunState.BUILDING, started_at=started, base_tip=base_tip, next_poll_at=due)
    return replace(entry, status_since=now, newer_tip=None, run=run)


def with_new_head(entry: Entry, head_sha: str, policy: Policy, now: datetime) -> Entry:
    """Record a new head that a poll found, and wait a moment for the webhook that names its sender."""
    due = now + policy.update_poll.base
    return replace(entry, run=replace(entry.run, new_head=head_sha, new_head_is_ours=False, next_poll_at=due))


def bind_head(entry: Entry, head_sha: str, policy: Policy, now: datetime, *, proved: bool) -> Entry:
    """Bind a head that appeared while updating as the candidate; `proved` says whether its parents are verified."""
    kept = (report.partition(":") for report in entry.run.completed_checks)
    reported_already = any(sha == head_sha for sha, _, _ in kept)
    # A head from its webhook has no reports yet; their webhooks will make the entry due.
    due = now + policy.check_poll.base if entry.run.new_head_is_ours and not reported_already else now
    checking = enter(entry, RunState.TESTING, now)
    found = replace(checking.run, candidate=head_sha, new_head=None, new_head_is_ours=False)
    run = replace(found, completed_checks=(), next_poll_at=due)
    return replace(checking, head_sha=head_sha, head_proved=proved, updated_from=entry.head_sha, run=run)


def with_refusal(entry: Entry, now: datetime) -> Entry:
    """Record that GitHub refused the merge for a reason that may pass."""
    since = entry.run.refused_since or now
    return replace(entry, run=replace(entry.run, merge_refusals=entry.run.merge_refusals + 1, refused_since=since))


def preempted(entry: Entry, now: datetime) -> Entry:
    """Return a preempted entry to its queue as pending, with its present head. Its run ends.

    If that head is an update that is not proved, it is proved before the next update.
    """
    return replace(entry, status_since=now, run=entry.run.ended())


def blocked(entry: Entry, since: datetime, until: datetime, now: datetime) -> Entry:
    """Return the entry to its queue as pending, with its present head; it is not processed before `until`."""
    return replace(preempted(entry, now), blocked_since=since, blocked_until=until, blocked_for=None)


def unblocked(entry: Entry) -> Entry:
    """Return an entry whose wait is over."""
    return replace(entry, blocked_since=None, blocked_until=None, blocked_for=None)


def check_queue(entries: Sequence[Entry]) -> None:
    """Check one queue, given in order, front first.

    Positions are 0..n-1. Each pull request has one entry, and all entries are of the same queue. Only members of the
    active run, which is the front's, or of runs with others, are past pending. Raises InvariantError.
    """
    active = {entry.run.id for entry in entries[:1]} - {None}
    for expected, entry in enumerate(entries):
        if entry.position != expected:
            raise InvariantError(f"pull request {entry.number} is at position {entry.position}, not {expected}")
        if entry.status in PROCESSING and entry.run.id not in active and not entry.run.has_branch:
            raise InvariantError(f"pull request {entry.number} is {entry.status} at position {expected}")
    if len({entry.number for entry in entries}) != len(entries):
        raise InvariantError("a pull request is in the queue more than once")
    if len({entry.queue_id for entry in entries}) > 1:
        raise InvariantError("entries of several queues are in one")


def check_transition(old: EntryStatus, new: EntryStatus) -> None:
    """Check a change of status against the table of transitions; the same status is allowed. Raises TransitionError."""
    if new is not old and new not in TRANSITIONS[old]:
        raise TransitionError(f"{old} does not lead to {new}")
