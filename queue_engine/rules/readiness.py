"""Judge a pull request that waits outside its queue until it is ready. Pure, over plain data.

While it waits, everything but the awaited may withdraw consent, as in the queue (P4). Its wait has a limit (P5).
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from queue_engine.config.model import Policy
from queue_engine.domain.facts import Permission, PullRequest, Snapshot
from queue_engine.domain.model import Entry, failing_in
from queue_engine.domain.reasons import Reason
from queue_engine.domain.webhooks import CheckOutcome
from queue_engine.rules.consent import consent_lost
from queue_engine.rules.departure_facts import BY_DISMISSAL
from queue_engine.rules.eligibility import Answer, Consent, Reject, RequiredFacts, check_eligibility, waits
from queue_engine.rules.stacks import awaited_member, pull_request_in, still_above, waits_for_stack

_CLOCK_SKEW = timedelta(minutes=1)
"""How far IMQ's clock may differ from GitHub's."""

_UNCHANGED, _UNLISTED_CHANGE = timedelta(days=1), timedelta(hours=1)
"""How often IMQ reads a waiting pull request although nothing says that it changed; also if no list would say it."""


FOR_REPORTS = frozenset({Reason.CHECK_ABSENT, Reason.TESTED_ON_ANOTHER_BASE})
"""Any report on the head may end these waits."""
_UNLISTED = FOR_REPORTS | {
    Reason.CHECKS_FAILED,
    Reason.CONVERSATIONS_UNRESOLVED,
    Reason.DEPENDENCY_OPEN,
    Reason.DEPENDENCY_HIDDEN,
    Reason.SET_WAITING,
}
"""What changes without a change of `updated_at`, or may: no source says whether a resolved conversation changes it."""


def wait_ended(entry: Entry, pull: PullRequest, policy: Policy, now: datetime) -> Reject | None:
    """Return why this entry waits no longer, and does not join its queue; None if it may wait or join."""
    if (lost := consent_lost(entry, pull, policy)) is not None:
        return lost
    if policy.fault is None and now >= entry.enqueued_at + policy.timeouts.ready:
        return Reject(Reason.NOT_READY_TIMED_OUT, entry.unmet[0].reason.value.replace("_", " "))
    return None


def judge_readiness(entry: Entry, taken: Snapshot, requirements: RequiredFacts, policy: Policy) -> Answer:
    """Judge whether an entry whose wait has not ended joins its queue now, waits on, or is refused."""
    consent = Consent(
        by=entry.queued_by,
        permission=taken.permission or Permission.NONE,
        head_sha=entry.head_sha,
        base_branch=entry.base_branch,
    )
    return check_eligibility(taken.pull, consent, requirements, repository=entry.repository, policy=policy)


def may_be_renewed(entry: Entry, reason: Reason, policy: Policy) -> bool:
    """Return whether an entry waits outside its queue for an approval that was withdrawn after IMQ's own update.

    Rules or automation dismiss approvals after any push. No one withdrew the consent, so the entry keeps its place.
    """
    updated = entry.head_sha != entry.queued_head and not entry.run.has_branch
    return reason in BY_DISMISSAL and updated and waits(policy)


def waits_for_check(entry: Entry, webhook: CheckOutcome) -> bool:
    """Return whether the entry waits until this check passes on its head, or for any report there."""
    if entry.head_sha != webhook.head_sha:
        return False
    if any(each.reason in FOR_REPORTS for each in entry.unmet):
        return True
    awaited = {name for each in failing_in(entry.unmet) for name in (each.check, *each.jobs)}
    return webhook.passed and webhook.check_name in awaited


def seems_changed(entry: Entry, listed: PullRequest, policy: Policy, now: datetime) -> bool:
    """Return whether a listed pull request is to be read again, since a webhook may be lost.

    Reviews and drafts change `updated_at`. IMQ's own comment does, too: then one more read finds nothing. What waits
    for the pull request below keeps its own base branch until that one has landed.
    """
    if waits_for_stack(entry):
        if not still_above(entry, listed):
            return True
        listed = replace(listed, base_branch=entry.base_branch)
    if wait_ended(entry, listed, policy, now) is not None or (_changes_unlisted(entry) and is_read_due(entry, now)):
        return True
    return listed.updated_at is None or entry.read_at is None or listed.updated_at > entry.read_at - _CLOCK_SKEW


def seems_freed(entry: Entry, listed: Collection[int], now: datetime, *, whole: bool) -> bool:
    """Return whether an entry is to be read since one for which it waits is not `listed` among the open ones.

    That is the pull request below, or one that its description names. `whole`: all open ones are listed.
    """
    awaited = {awaited_member(entry)} - {None}
    if any(each.reason is Reason.STACK_LANDED for each in entry.unmet):
        awaited = set()
    awaited |= {pull_request_in(each.detail) for each in entry.unmet if each.reason is Reason.DEPENDENCY_OPEN}
    if awaited <= {None, *listed}:
        return False
    return whole or is_read_due(entry, now)


def is_read_due(entry: Entry, now: datetime) -> bool:
    """Return whether a pull request is to be read although nothing says that it changed: once a day.

    One that waits for checks, conversations or other pull requests is read once an hour: nothing else shows a change
    without its webhook.
    """
    unchanged = _UNLISTED_CHANGE if _changes_unlisted(entry) else _UNCHANGED
    return entry.read_at is None or now >= entry.read_at + unchanged


def _changes_unlisted(entry: Entry) -> bool:
    return any(each.reason in _UNLISTED for each in entry.unmet)
