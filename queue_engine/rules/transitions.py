"""Transitions of an entry: what a new status resets, forgets, or keeps counting."""

from dataclasses import replace
from datetime import datetime

from queue_engine.core.timing.backoff import Backoff
from queue_engine.core.timing.monitor_entry import MonitorEntry
from queue_engine.domain.facts import Comparison
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.policy import Policy


def enter(entry: Entry, status: EntryStatus, now: datetime) -> Entry:
    """The entry as it begins a status: its run counts anew, and remembers when it began."""
    run = replace(
        entry.run,
        started_at=entry.run.started_at or now,
        polls=0,
        next_poll_at=None,
        github_failures=0,
        github_failing_since=None,
    )
    return replace(entry, status=status, status_since=now, run=run)


def after_poll(entry: Entry, monitor: Backoff, now: datetime, *, waited: int = 0) -> Entry:
    """The entry after a look of its monitor that found it waiting still; the monitor's state is kept in the run.

    `waited` counts the monitor's waits before its first look. Errors of looks are counted in `github_failures`: they
    are GitHub's, and bounded by a time instead of a number.
    """
    after = MonitorEntry(now, entry.run.polls + waited).answered(monitor, now)
    return replace(entry, run=replace(entry.run, polls=entry.run.polls + 1, next_poll_at=after.next_at))


def up_to_date(entry: Entry, comparison: Comparison, now: datetime) -> Entry:
    """Nothing to update: the head as it is gets checked, and may be green already."""
    checking = enter(entry, EntryStatus.CHECKING, now)
    candidate, tree = entry.head, comparison.head.tree
    run = replace(checking.run, base_tip=comparison.base_tip, candidate=candidate, tested_tree=tree, next_poll_at=now)
    return replace(checking, run=run)


def updating(entry: Entry, base_tip: str | None, policy: Policy, now: datetime) -> Entry:
    """An update is about to be asked for: the run begins, or starts over, on this tip, and forgets all candidates."""
    started = entry.run.started_at or now
    run = replace(entry.run.ended(), started_at=started, base_tip=base_tip, next_poll_at=now + policy.update_look.base)
    return replace(entry, status=EntryStatus.UPDATING, status_since=now, newer_tip=None, run=run)


def with_new_head(entry: Entry, head: str, policy: Policy, now: datetime) -> Entry:
    """A head was found that no webhook announced; the one that names its sender is waited for a moment."""
    due = now + policy.update_look.base
    return replace(entry, run=replace(entry.run, new_head=head, new_head_is_ours=False, next_poll_at=due))


def bind_head(entry: Entry, head: str, policy: Policy, now: datetime, *, proved: bool) -> Entry:
    """A head that appeared while updating is bound as candidate; until proved it is so on GitHub's word only."""
    kept = (report.partition(":") for report in entry.run.completed_checks)
    reported_already = any(sha == head for sha, _, _ in kept)
    # A head that its webhook announced has no reports yet; theirs will say when looking is worth a request.
    due = now + policy.check_look.base if entry.run.new_head_is_ours and not reported_already else now
    checking = enter(entry, EntryStatus.CHECKING, now)
    found = replace(checking.run, candidate=head, new_head=None, new_head_is_ours=False)
    run = replace(found, completed_checks=(), next_poll_at=due)
    return replace(checking, head=head, head_proved=proved, updated_from=entry.head, run=run)


def with_refusal(entry: Entry, now: datetime) -> Entry:
    """The entry after GitHub refused its merge for a reason that may pass."""
    since = entry.run.refused_since or now
    return replace(entry, run=replace(entry.run, merge_refusals=entry.run.merge_refusals + 1, refused_since=since))


def preempted(entry: Entry, now: datetime) -> Entry:
    """The entry after it gave its turn to another: in line again, with the head that it was bound to.

    Its run ends. That head is no less its own: it is proved before anything else is made of it, if it was not yet.
    """
    return replace(entry, status=EntryStatus.PENDING, status_since=now, run=entry.run.ended())


def blocked(entry: Entry, since: datetime, until: datetime, now: datetime) -> Entry:
    """The entry in line again, with the head that it is bound to, not to be processed before `until`."""
    return replace(preempted(entry, now), blocked_since=since, blocked_until=until)
