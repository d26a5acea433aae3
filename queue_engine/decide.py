"""The next step of the front entry: a pure function from an entry and the facts seen to one action.

Facts are asked for one by one, and only when the decision turns on them: that is what keeps requests few. The
caller fetches what a `Look` names, adds it to `Seen` and asks again; everything in `Seen` is from this very pass.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from queue_engine.actions import Action, Confirm, Fact, Leave, Look, Merge, Save, Seen, Update, Wait
from queue_engine.checks import Verdict, judge
from queue_engine.consent import is_own_update, withdrawn
from queue_engine.facts import BranchRules, CheckState, Comparison, MergeMethod, PullRequest
from queue_engine.model import Entry, EntryStatus
from queue_engine.policy import Policy, doubling
from queue_engine.reasons import Reason


def decide(entry: Entry, seen: Seen, policy: Policy, now: datetime) -> Action:
    """The one next step of the front entry."""
    if seen.comparison is not None and seen.comparison.head.sha != (entry.candidate_head or entry.head):
        # A candidate appeared, or was bound, since this was read: it tells nothing of the head in question now.
        seen = replace(seen, comparison=None)
    if seen.pull is None and (entry.suspect or entry.merge_requested_at is not None):
        return Look(Fact.PULL)
    if seen.pull is not None:
        if seen.pull.merged and entry.merge_requested_at is not None:
            return Confirm(seen.pull.merge_sha)
        if (reason := withdrawn(entry, seen.pull, policy)) is not None:
            return Leave(reason)
        if entry.suspect or entry.merge_requested_at is not None:
            return Save(replace(entry, suspect=False, merge_requested_at=None))
    return _BY_STATUS[entry.status](entry, seen, policy, now)


def enter(entry: Entry, status: EntryStatus, now: datetime) -> Entry:
    """The entry as it begins a status: counters of the status before are gone, the first entry into one is noted."""
    started = entry.started_at or now
    return replace(
        entry,
        status=status,
        status_since=now,
        started_at=started,
        recheck=0,
        recheck_at=None,
        refusals=0,
        trouble=0,
        trouble_since=None,
    )


def _pending(entry: Entry, seen: Seen, policy: Policy, now: datetime) -> Action:
    if entry.known_behind:
        return _update(entry, entry.base_tip, policy, now)
    if seen.comparison is None:
        return Look(Fact.COMPARISON)
    if seen.comparison.behind > 0:
        return _update(entry, seen.comparison.base_tip, policy, now)
    return _up_to_date(entry, seen.comparison, now)


def _up_to_date(entry: Entry, comparison: Comparison, now: datetime) -> Save:
    """Nothing to update: the head as it is gets checked, and may be green already."""
    return Save(
        replace(
            enter(entry, EntryStatus.CHECKING, now),
            base_tip=comparison.base_tip,
            tested_tree=comparison.head.tree,
            recheck_at=now,
        )
    )


def _update(entry: Entry, base_tip: str | None, policy: Policy, now: datetime) -> Update:
    updating = enter(entry, EntryStatus.UPDATING, now)
    return Update(
        replace(
            updating,
            base_tip=base_tip,
            known_behind=False,
            tested_tree=None,
            candidate_head=None,
            candidate_is_ours=False,
            awaited_checks=(),
            reported_checks=(),
            recheck_at=now + policy.update_look,
        )
    )


def _updating(entry: Entry, seen: Seen, policy: Policy, now: datetime) -> Action:
    if entry.candidate_head is not None:
        return _judge_candidate(entry, entry.candidate_head, seen, policy, now)
    if seen.update_refused is not None:
        return _judge_refused_update(entry, seen.update_refused, seen, policy, now)
    late = now - entry.status_since >= policy.update_timeout
    if seen.pull is None:
        if not late and entry.recheck_at is not None and now < entry.recheck_at:
            return Wait(entry, entry.recheck_at)
        return Look(Fact.PULL)
    if seen.pull.head_sha != entry.head:
        return Save(replace(entry, candidate_head=seen.pull.head_sha, candidate_is_ours=False))
    if seen.pull.mergeable is False:
        return Leave(Reason.CONFLICT)
    if late and entry.recheck == 0:
        # Nobody looked in all that time: IMQ was away, and may have been killed before it asked at all.
        return _update(entry, entry.base_tip, policy, now)
    if late:
        return Leave(Reason.UPDATE_TIMED_OUT)
    if entry.recheck_at is not None and now < entry.recheck_at:
        return Wait(entry, entry.recheck_at)
    # The call may have been lost, by GitHub or by a kill between intent and request; the head makes it idempotent.
    next_look = doubling(policy.update_look, entry.recheck + 1, policy.update_timeout)
    return Update(replace(entry, recheck=entry.recheck + 1, recheck_at=now + next_look))


def _judge_refused_update(entry: Entry, words: str, seen: Seen, policy: Policy, now: datetime) -> Action:
    """422 has several causes, told apart by facts: a new head, nothing to update, a conflict, or a real refusal."""
    if seen.pull is None:
        return Look(Fact.PULL)
    if seen.pull.head_sha != entry.head:
        return Save(replace(entry, candidate_head=seen.pull.head_sha, candidate_is_ours=False))
    if seen.comparison is None:
        return Look(Fact.COMPARISON)
    if seen.comparison.behind == 0:
        return _up_to_date(entry, seen.comparison, now)
    if seen.update_forbidden:
        own = seen.pull.head_repository == entry.repository.full_name
        return Leave(Reason.PERMISSION_MISSING if own else Reason.UPDATE_REFUSED, detail=words)
    if seen.pull.mergeable is False or "conflict" in words.lower():
        return Leave(Reason.CONFLICT)
    if seen.pull.mergeable is True:
        return Leave(Reason.UPDATE_REFUSED, detail=words)
    if now - entry.status_since >= policy.update_timeout:
        return Leave(Reason.MERGEABLE_UNKNOWN, detail=words)
    again = now + doubling(policy.ask_again, entry.recheck, policy.update_timeout)
    return Wait(replace(entry, recheck=entry.recheck + 1, recheck_at=again), again)


def _judge_candidate(entry: Entry, candidate: str, seen: Seen, policy: Policy, now: datetime) -> Action:
    """Bind the head that appeared while updating: our own on GitHub's word until proved, any other once proved."""
    proved = False
    if not entry.candidate_is_ours:
        if seen.comparison is None:
            return Look(Fact.COMPARISON)
        if not is_own_update(entry.head, seen.comparison):
            return Leave(Reason.HEAD_CHANGED)
        proved = True
    already = tuple(name for sha, _, name in (r.partition(":") for r in entry.reported_checks) if sha == candidate)
    bound = replace(
        enter(entry, EntryStatus.CHECKING, now),
        head=candidate,
        head_proved=proved,
        updated_from=entry.head,
        candidate_head=None,
        candidate_is_ours=False,
        reported_checks=(),
        # A head that its webhook announced has no reports yet; theirs will say when looking is worth a request.
        recheck_at=now + policy.check_look if entry.candidate_is_ours and not already else now,
    )
    return Save(bound)


def _checking(entry: Entry, seen: Seen, policy: Policy, now: datetime) -> Action:
    if entry.known_behind:
        return _follow_base(entry, seen, policy, now)
    if seen.rules is None:
        return Look(Fact.RULES)
    required = seen.rules.required_checks
    if seen.reports is None:
        limit = policy.check_timeout if required or entry.awaited_checks else policy.first_report
        due = min(entry.recheck_at or now, entry.status_since + limit)
        if now >= due:
            return Look(Fact.CHECKS)
        names = entry.awaited_checks or tuple(sorted({check.name for check in required}))
        return Wait(replace(entry, awaited_checks=names), due)
    verdict = judge(required, seen.reports)
    if verdict.state is CheckState.FAILED:
        return Leave(Reason.CHECKS_FAILED, checks=verdict.failed)
    if verdict.state is CheckState.PASSED:
        return _passed(entry, seen.rules, verdict, policy, now)
    return _keep_checking(entry, seen.rules, verdict, policy, now)


def _keep_checking(entry: Entry, rules: BranchRules, verdict: Verdict, policy: Policy, now: datetime) -> Action:
    silent = not rules.required_checks and not verdict.reported
    deadline = entry.status_since + (policy.first_report if silent else policy.check_timeout)
    if now >= deadline:
        if silent:
            return Leave(Reason.NO_CHECKS)
        return Leave(Reason.CHECKS_TIMED_OUT, detail=", ".join(verdict.awaited), checks=verdict.pending)
    look = now + doubling(policy.check_look, entry.recheck, timedelta(days=1))
    waiting = replace(
        entry, awaited_checks=verdict.awaited, reported_checks=(), recheck=entry.recheck + 1, recheck_at=look
    )
    return Wait(waiting, min(look, deadline), verdict.pending)


def _passed(entry: Entry, rules: BranchRules, verdict: Verdict, policy: Policy, now: datetime) -> Action:
    """Green. Where nothing is required, later workflows get a moment to appear before that is believed."""
    if not rules.required_checks and verdict.last_completed is not None:
        settled = verdict.last_completed + policy.settle
        if now < settled:
            return Wait(replace(entry, recheck_at=settled), settled)
    return Save(replace(enter(entry, EntryStatus.READY, now), awaited_checks=(), reported_checks=()))


def _follow_base(entry: Entry, seen: Seen, policy: Policy, now: datetime) -> Action:
    """The base is said to have moved: what runs now can no longer land, so update at once rather than at the end."""
    if seen.comparison is None:
        return Look(Fact.COMPARISON)
    if (unproved := _prove(entry, seen.comparison)) is not None:
        return unproved
    if seen.comparison.behind > 0:
        return _update(entry, seen.comparison.base_tip, policy, now)
    return Save(replace(entry, known_behind=False, base_tip=seen.comparison.base_tip))


def _prove(entry: Entry, comparison: Comparison) -> Action | None:
    """Prove an update by its parents, once; None when there is nothing left to prove."""
    if entry.head_proved:
        return None
    if not is_own_update(entry.updated_from, comparison):
        return Leave(Reason.HEAD_CHANGED)
    return Save(replace(entry, head_proved=True, tested_tree=comparison.head.tree))


def _ready(entry: Entry, seen: Seen, policy: Policy, now: datetime) -> Action:
    if entry.recheck_at is not None and now < entry.recheck_at:
        return Wait(entry, entry.recheck_at)
    if seen.pull is None:
        return Look(Fact.PULL)
    if seen.merge_refused is not None and (
        verdict := _judge_refused_merge(entry, seen.merge_refused, seen, policy, now)
    ):
        return verdict
    if seen.comparison is None:
        return Look(Fact.COMPARISON)
    if (unproved := _prove(entry, seen.comparison)) is not None:
        return unproved
    if seen.comparison.behind > 0:
        return _update(entry, seen.comparison.base_tip, policy, now)
    if seen.rules is None:
        return Look(Fact.RULES)
    ready = replace(
        entry,
        base_tip=seen.comparison.base_tip,
        tested_tree=seen.comparison.head.tree,
        known_behind=False,
        merge_requested_at=now,
        recheck_at=None,
    )
    return Merge(ready, merge_method(seen.pull, seen.rules))


def _judge_refused_merge(entry: Entry, words: str, seen: Seen, policy: Policy, now: datetime) -> Action | None:
    """405 and 409 cover passing and lasting refusals alike; None means: try again at once with fresh facts."""
    if seen.merge_denied is not None:
        return Leave(seen.merge_denied, detail=words)
    if seen.pull is not None and seen.pull.mergeable is False:
        return Leave(Reason.CONFLICT)
    if "merge queue" in words.lower():
        return Leave(Reason.NATIVE_QUEUE_REQUIRED, detail=words)
    if entry.refusals >= policy.merge_refusals:
        return Leave(Reason.REFUSED_BY_RULES, detail=words)
    if "base branch was modified" in words.lower():
        return None
    again = now + doubling(policy.ask_again, entry.refusals, policy.trouble_timeout)
    return Wait(replace(entry, recheck_at=again), again)


def merge_method(pull: PullRequest, rules: BranchRules) -> MergeMethod:
    """The first allowed of merge, squash, rebase; no merge commits where history must be linear."""
    allowed = [m for m in pull.methods if not (rules.linear_history and m is MergeMethod.MERGE)]
    return allowed[0] if allowed else MergeMethod.MERGE


_BY_STATUS = {
    EntryStatus.PENDING: _pending,
    EntryStatus.UPDATING: _updating,
    EntryStatus.CHECKING: _checking,
    EntryStatus.READY: _ready,
}
