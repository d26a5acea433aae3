"""The entry as it begins a status, or waits on in it: what is set anew, forgotten, and goes on being counted."""

from dataclasses import replace
from datetime import datetime

from queue_engine.core.backoff import Backoff
from queue_engine.core.monitor import MonitorEntry
from queue_engine.facts import Comparison
from queue_engine.model import Entry, EntryStatus
from queue_engine.policy import Policy


def enter(entry: Entry, status: EntryStatus, now: datetime) -> Entry:
    """The entry as it begins a status; counters of the status before are gone, its turn's beginning is noted once."""
    started = entry.started_at or now
    return replace(
        entry,
        status=status,
        status_since=now,
        started_at=started,
        recheck=0,
        recheck_at=None,
        trouble=0,
        trouble_since=None,
    )


def looked(entry: Entry, monitor: Backoff, now: datetime, *, waited: int = 0) -> Entry:
    """The entry after a look of its monitor that found it waiting still; the monitor's state is kept in the entry.

    `waited` counts the monitor's waits before its first look. Errors of looks are counted in `trouble`: they are
    GitHub's, and bounded by a time instead of a number.
    """
    after = MonitorEntry(now, entry.recheck + waited).answered(monitor, now)
    return replace(entry, recheck=entry.recheck + 1, recheck_at=after.next_at)


def up_to_date(entry: Entry, comparison: Comparison, now: datetime) -> Entry:
    """Nothing to update: the head as it is gets checked, and may be green already."""
    return replace(
        enter(entry, EntryStatus.CHECKING, now),
        base_tip=comparison.base_tip,
        tested_tree=comparison.head.tree,
        recheck_at=now,
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
        awaited_checks=(),
        reported_checks=(),
        merge_requested_at=None,
        refusals=0,
        refused_since=None,
        recheck_at=now + policy.update_look.base,
    )


def unseen_head(entry: Entry, candidate: str, policy: Policy, now: datetime) -> Entry:
    """A head was found that no webhook announced; the one that names its sender is waited for a moment."""
    return replace(entry, candidate_head=candidate, candidate_is_ours=False, recheck_at=now + policy.update_look.base)


def bound(entry: Entry, candidate: str, policy: Policy, now: datetime, *, proved: bool) -> Entry:
    """A head that appeared while updating is bound; until proved it is so on GitHub's word only."""
    kept = (report.partition(":") for report in entry.reported_checks)
    reported_already = any(sha == candidate for sha, _, _ in kept)
    return replace(
        enter(entry, EntryStatus.CHECKING, now),
        head=candidate,
        head_proved=proved,
        updated_from=entry.head,
        candidate_head=None,
        candidate_is_ours=False,
        reported_checks=(),
        refusals=0,
        refused_since=None,
        reruns=0,
        rerun_checks=(),
        rerun_at=None,
        former_checks=None,
        started_checks=(),
        checks_started_at=None,
        # A head that its webhook announced has no reports yet; theirs will say when looking is worth a request.
        recheck_at=now + policy.check_look.base if entry.candidate_is_ours and not reported_already else now,
    )


def set_back(entry: Entry, now: datetime) -> Entry:
    """The entry after it gave its turn to another: in line again, with the head that it was bound to.

    That head is no less its own: it is proved before anything else is made of it, if it was not yet.
    """
    return replace(
        entry,
        status=EntryStatus.PENDING,
        status_since=now,
        started_at=None,
        recheck=0,
        recheck_at=None,
        trouble=0,
        trouble_since=None,
        refusals=0,
        refused_since=None,
        awaited_checks=(),
        reported_checks=(),
    )


def blocked(entry: Entry, since: datetime, until: datetime, now: datetime) -> Entry:
    """The entry in line again, with the head that it is bound to, not to be processed before `until`."""
    back = replace(set_back(entry, now), merge_requested_at=None, refused_since=None)
    return replace(back, blocked_since=since, blocked_until=until)
