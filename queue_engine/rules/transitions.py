"""Transitions of an entry: what a new status resets, forgets, or keeps counting."""

from dataclasses import replace
from datetime import datetime

from queue_engine.core.timing.backoff import Backoff
from queue_engine.core.timing.monitor_entry import MonitorEntry
from queue_engine.domain.facts import Comparison
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.policy import Policy


def enter(entry: Entry, status: EntryStatus, now: datetime) -> Entry:
    """The entry as it begins a status; counters of the status before are gone, its turn's beginning is noted once."""
    started = entry.started_at or now
    return replace(
        entry,
        status=status,
        status_since=now,
        started_at=started,
        polls=0,
        next_poll_at=None,
        github_failures=0,
        github_failing_since=None,
    )


def after_poll(entry: Entry, monitor: Backoff, now: datetime, *, waited: int = 0) -> Entry:
    """The entry after a look of its monitor that found it waiting still; the monitor's state is kept in the entry.

    `waited` counts the monitor's waits before its first look. Errors of looks are counted in `github_failures`: they
    are GitHub's, and bounded by a time instead of a number.
    """
    after = MonitorEntry(now, entry.polls + waited).answered(monitor, now)
    return replace(entry, polls=entry.polls + 1, next_poll_at=after.next_at)


def up_to_date(entry: Entry, comparison: Comparison, now: datetime) -> Entry:
    """Nothing to update: the head as it is gets checked, and may be green already."""
    return replace(
        enter(entry, EntryStatus.CHECKING, now),
        base_tip=comparison.base_tip,
        tested_tree=comparison.head.tree,
        next_poll_at=now,
    )


def updating(entry: Entry, base_tip: str | None, policy: Policy, now: datetime) -> Entry:
    """An update is about to be asked for: what was known of the old head's checks and candidates is void."""
    return replace(
        enter(entry, EntryStatus.UPDATING, now),
        base_tip=base_tip,
        known_behind=False,
        tested_tree=None,
        candidate_head=None,
        candidate_is_ours=False,
        pending_checks=(),
        completed_checks=(),
        merge_requested_at=None,
        merge_refusals=0,
        refused_since=None,
        next_poll_at=now + policy.update_look.base,
    )


def with_candidate(entry: Entry, candidate: str, policy: Policy, now: datetime) -> Entry:
    """A head was found that no webhook announced; the one that names its sender is waited for a moment."""
    return replace(entry, candidate_head=candidate, candidate_is_ours=False, next_poll_at=now + policy.update_look.base)


def bind_head(entry: Entry, candidate: str, policy: Policy, now: datetime, *, proved: bool) -> Entry:
    """A head that appeared while updating is bound; until proved it is so on GitHub's word only."""
    kept = (report.partition(":") for report in entry.completed_checks)
    reported_already = any(sha == candidate for sha, _, _ in kept)
    return replace(
        enter(entry, EntryStatus.CHECKING, now),
        head=candidate,
        head_proved=proved,
        updated_from=entry.head,
        candidate_head=None,
        candidate_is_ours=False,
        completed_checks=(),
        merge_refusals=0,
        refused_since=None,
        reruns=0,
        rerun_checks=(),
        rerun_at=None,
        former_checks=None,
        started_checks=(),
        checks_started_at=None,
        # A head that its webhook announced has no reports yet; theirs will say when looking is worth a request.
        next_poll_at=now + policy.check_look.base if entry.candidate_is_ours and not reported_already else now,
    )


def preempted(entry: Entry, now: datetime) -> Entry:
    """The entry after it gave its turn to another: in line again, with the head that it was bound to.

    That head is no less its own: it is proved before anything else is made of it, if it was not yet.
    """
    return replace(
        entry,
        status=EntryStatus.PENDING,
        status_since=now,
        started_at=None,
        polls=0,
        next_poll_at=None,
        github_failures=0,
        github_failing_since=None,
        merge_refusals=0,
        refused_since=None,
        pending_checks=(),
        completed_checks=(),
    )


def blocked(entry: Entry, since: datetime, until: datetime, now: datetime) -> Entry:
    """The entry in line again, with the head that it is bound to, not to be processed before `until`."""
    back = replace(preempted(entry, now), merge_requested_at=None, refused_since=None)
    return replace(back, blocked_since=since, blocked_until=until)
