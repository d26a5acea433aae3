"""Decide the next action for the front and its run: a pure function of both and the facts that this pass read.

`decide` asks for facts one by one, and only for those that its decision depends on, so that requests are few. The
caller reads the fact that `ReadFact` names, adds it to `Facts` and calls `decide` again.

Before a merge, one pass verifies all of this, in this order. The pull request still has consent. The head contains the
base's tip, or the base moved only in files that need no test. An update is proved by its parents. The checks pass by
reports of this pass. The person who queued it still may queue. Reviews and conversations meet the rules. The merge
request names the head. Before cached rules or merge methods dequeue an entry, IMQ reads them again
(`FactKind.FRESH_RULES`).
"""

from dataclasses import replace
from datetime import datetime, timedelta

from queue_engine.config.merge_commit import needs_commits
from queue_engine.config.model import Policy
from queue_engine.core.timing.backoff import MONITOR
from queue_engine.domain.facts import CheckState, MergeMethod, PullRequest
from queue_engine.domain.landing_record import LandingProof
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.port import MergeState, PendingMerge
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import RunState
from queue_engine.planner.absent_checks import judge_absent, leave_for_absent, leave_for_base
from queue_engine.planner.actions import (
    Absent,
    Action,
    Dequeue,
    FactKind,
    Facts,
    HoldLanding,
    Landing,
    Merge,
    ReadFact,
    Ready,
    RunContext,
    Save,
    SaveRun,
    Unmet,
    Update,
    Wait,
)
from queue_engine.planner.base_change import follow_base, keeps_result, may_keep_result, start_over
from queue_engine.planner.check_outcome import judge_checks
from queue_engine.planner.member_rules import judge_landing, judge_member
from queue_engine.planner.merge_errors import judge_refused_member, judge_refused_merge, judge_refused_update
from queue_engine.planner.new_heads import judge_lost_consent, judge_new_head, prove
from queue_engine.rules.check_progress import with_reports
from queue_engine.rules.checks import expected_checks, judge, of_now, reports_since, requires_own_check, run_checks
from queue_engine.rules.consent import consent_lost
from queue_engine.rules.landing_order import new_requirements
from queue_engine.rules.merge_method import commit_message
from queue_engine.rules.proof import proof_of
from queue_engine.rules.reviews import approved_by
from queue_engine.rules.transitions import after_poll, enter, up_to_date, updating, with_new_head, with_refusal

_UNFINISHED = "GitHub has not finished its merge in the background, and may still do so"


def _follow_merge(entry: Entry, facts: Facts, policy: Policy, now: datetime) -> Action:
    """Return the next action while GitHub merges the entry, which no call stops.

    A webhook reports most landings before. A refusal is judged afterwards, as that of any other merge. GitHub keeps a
    result for a day ("Merge API"); the time limit is shorter (P5).
    """
    pending, run = facts.pending_merge, entry.run
    if pending is None:
        waits = run.next_poll_at is not None and now < run.next_poll_at
        return Wait(run, run.next_poll_at) if waits and run.next_poll_at else ReadFact(FactKind.PENDING_MERGE)
    if pending.state is MergeState.MERGED:
        return Landing(pending.sha)
    if pending.state is not MergeState.PENDING:
        return Save(with_refusal(_followed(entry, None), now))
    if now - (run.merge_requested_at or now) >= policy.pending_merge_timeout:
        return Dequeue(Reason.GITHUB_TROUBLE, detail=_UNFINISHED)
    waiting = after_poll(run, MONITOR, now)
    return Wait(waiting, waiting.next_poll_at or now)


def with_pending_merge(entry: Entry, pending: PendingMerge, now: datetime) -> Entry:
    """Record the merge that GitHub has accepted, and when IMQ reads its result first."""
    run = replace(entry.run, polls=0, next_poll_at=now + MONITOR.base)
    return _followed(replace(entry, run=run), pending.uuid)


def _followed(entry: Entry, uuid: str | None) -> Entry:
    return replace(entry, run=replace(entry.run, merge_uuid=uuid))


def decide(entry: Entry, facts: Facts, policy: Policy, now: datetime) -> Action:
    """Return the one next action for the front entry, or for a member whose train lands by merges."""
    facts = _of_head(entry, facts)
    if entry.run.has_branch:
        return _member(entry, facts, policy, now)
    if (first := _before_status(entry, facts, policy, now, entry)) is not None:
        return first
    if facts.rules is not None and not entry.own_check_required and requires_own_check(facts.rules, policy):
        # The rules changed since the entry was queued.
        return Save(replace(entry, own_check_required=True))
    return _BY_STATUS[entry.status](entry, facts, policy, now)


def _member(entry: Entry, facts: Facts, policy: Policy, now: datetime) -> Action:
    """Return the next action for a member whose train lands by merges, one after the other.

    The run of the train tested the tree that the base has to hold after this member (`tested_tree`), on the commit that
    the base has to be at now (`base_tip`). All else is verified as for any other entry.
    """
    run = entry.run
    waiting = replace(entry, run=run.ended())
    if (first := _before_status(entry, facts, policy, now, waiting)) is not None:
        return first
    if run.next_poll_at is not None and now < run.next_poll_at:
        return Wait(run, run.next_poll_at)
    if facts.merge_refused is not None and (
        verdict := judge_refused_member(entry, facts.merge_refused, facts, policy, now)
    ):
        return verdict
    if facts.pull is None:
        return ReadFact(FactKind.SNAPSHOT)
    method = judge_member(entry, facts, policy, now, mergeable=False)
    if not isinstance(method, MergeMethod):
        return method
    tip = None if facts.snapshot is None else facts.snapshot.base_tip
    if tip is None and facts.comparison is None:
        return ReadFact(FactKind.COMPARISON)
    if tip is None and facts.comparison is not None:
        tip = facts.comparison.base_tip
    if tip != run.base_tip:
        return HoldLanding(f"somebody pushed to {entry.base_branch}", tip)
    return _merge(entry, facts.pull, method, facts, policy, now)


def _of_head(entry: Entry, facts: Facts) -> Facts:
    """Return the facts without the comparison of a former head: a new one has appeared, or was bound, since."""
    outdated = facts.comparison is not None and facts.comparison.head.sha != (entry.run.new_head or entry.head_sha)
    return replace(facts, comparison=None) if outdated else facts


def _before_status(entry: Entry, facts: Facts, policy: Policy, now: datetime, waiting: Entry) -> Action | None:
    """Return the action before any of its status. `waiting`: the entry as it is after a push by its own bot."""
    if entry.run.merge_requested_at is not None and facts.landed_sha is not None:
        # GitHub answered the merge request: no read could add anything.
        return Landing(facts.landed_sha)
    if facts.pull is None and entry.needs_refetch:
        return ReadFact(FactKind.SNAPSHOT if entry.status is EntryStatus.READY else FactKind.PULL)
    if facts.pull is not None and facts.pull.merged and entry.run.merge_requested_at is not None:
        return Landing(facts.pull.merge_sha)
    if entry.run.merge_uuid is not None:
        return _follow_merge(entry, facts, policy, now)
    if facts.pull is not None:
        if (lost := consent_lost(entry, facts.pull, policy)) is not None:
            return judge_lost_consent(waiting, lost, facts.pull, facts, policy, now)
        if (
            entry.head_proved
            and entry.run.merge_requested_at is None
            and (unmet := new_requirements(entry, facts.pull))
        ):
            return Unmet(entry, unmet)
        if entry.needs_refetch:
            return Save(replace(entry, needs_refetch=False))
        if entry.run.merge_requested_at is not None and facts.merge_refused is None:
            return _in_doubt(entry, facts, policy, now)
    return None


def _in_doubt(entry: Entry, facts: Facts, policy: Policy, now: datetime) -> Action:
    """Find out whether GitHub merged, after the answer to a merge was lost and a read shows the pull request open.

    If the base's tip is still the one that IMQ merged into, nothing was merged. Otherwise the base may contain this
    very merge, and the read may lag: IMQ polls a few times before it updates anything.
    """
    if facts.comparison is None:
        return ReadFact(FactKind.COMPARISON)
    moved = facts.comparison.behind > 0 and facts.comparison.base_tip != entry.run.base_tip
    if moved and entry.run.polls < policy.lost_merge_polls:
        waiting = after_poll(entry.run, policy.ask_again, now)
        return Wait(waiting, waiting.next_poll_at or now, failing=entry.run.github_failing_since is not None)
    return Save(replace(entry, run=replace(entry.run, merge_requested_at=None, polls=0, next_poll_at=None)))


def _pending(entry: Entry, facts: Facts, policy: Policy, now: datetime) -> Action:
    if facts.head_landed:
        return Dequeue(Reason.MERGED_ELSEWHERE)
    if not entry.head_proved:
        # It was updated, then preempted by a hotfix: another update would hide the parents of the unproved head.
        if facts.comparison is None:
            return ReadFact(FactKind.COMPARISON)
        if (unproved := prove(entry, facts.comparison, policy, now)) is not None:
            return unproved
    if entry.newer_tip is not None:
        return Update(updating(entry, entry.newer_tip, policy, now))
    if facts.comparison is None and facts.snapshot is not None and facts.snapshot.behind:
        return Update(updating(entry, facts.snapshot.base_tip, policy, now))
    if facts.comparison is None:
        # One snapshot has most facts that a merge in this pass needs; missing ones are read one by one.
        return ReadFact(FactKind.SNAPSHOT if facts.snapshot is None else FactKind.COMPARISON)
    if facts.comparison.behind > 0:
        return Update(updating(entry, facts.comparison.base_tip, policy, now))
    return Save(up_to_date(entry, facts.comparison, now))


def _updating(entry: Entry, facts: Facts, policy: Policy, now: datetime) -> Action:
    if entry.run.new_head is not None:
        return judge_new_head(entry, entry.run.new_head, facts, policy, now)
    if facts.update_refused is not None:
        return judge_refused_update(entry, facts.update_refused, facts, policy, now)
    failing, again = entry.run.github_failing_since is not None, entry.run.next_poll_at
    if failing and facts.pull is None and again is not None and now < again:
        return Wait(entry.run, again, failing=True)
    late = now - entry.status_since >= policy.timeouts.update
    if facts.pull is None:
        if not late and entry.run.next_poll_at is not None and now < entry.run.next_poll_at:
            return Wait(entry.run, entry.run.next_poll_at)
        return ReadFact(FactKind.PULL)
    if facts.pull.head_sha != entry.head_sha:
        return Save(with_new_head(entry, facts.pull.head_sha, policy, now))
    if facts.pull.mergeable is False:
        return Dequeue(Reason.CONFLICT)
    if late and entry.run.polls == 0:
        # No poll in all that time: IMQ was not running, and may have been killed before it sent the request.
        return Update(updating(entry, entry.run.base_tip, policy, now))
    if late:
        return Dequeue(Reason.MERGEABLE_UNKNOWN if facts.pull.mergeable is None else Reason.UPDATE_TIMED_OUT)
    if entry.run.next_poll_at is not None and now < entry.run.next_poll_at:
        return Wait(entry.run, entry.run.next_poll_at)
    # GitHub may have lost the request, or IMQ was killed before it sent it; the named head makes it idempotent.
    return Update(replace(entry, run=after_poll(entry.run, policy.update_poll, now, waited=1)))


def _checking(entry: Entry, facts: Facts, policy: Policy, now: datetime) -> Action:
    if entry.newer_tip is not None:
        return follow_base(entry, facts, policy, now)
    run, of = with_reports(entry.run, facts.reports or ()), RunContext.of(entry)
    match judge_absent(run, of, facts, policy, now) or judge_checks(run, of, facts, policy, now):
        case SaveRun(changed):
            return Save(replace(entry, run=changed))
        case Ready(changed, ended):
            return Save(enter(replace(entry, run=changed), RunState.PASSED, now), ended)
        case Absent() if not entry.head_proved and facts.comparison is None:
            return ReadFact(FactKind.COMPARISON)
        case Absent() as lacks:
            unproved = None if facts.comparison is None else prove(entry, facts.comparison, policy, now)
            return unproved or leave_for_absent(entry, lacks, policy)
        case verdict:
            return verdict


def _ready(entry: Entry, facts: Facts, policy: Policy, now: datetime) -> Action:
    if entry.run.next_poll_at is not None and now < entry.run.next_poll_at:
        return Wait(entry.run, entry.run.next_poll_at)
    if facts.pull is None:
        return ReadFact(FactKind.SNAPSHOT)
    if facts.merge_refused is not None and (
        verdict := judge_refused_merge(entry, facts.merge_refused, facts, policy, now)
    ):
        return verdict
    if facts.head_landed:
        return Dequeue(Reason.MERGED_ELSEWHERE)
    behind = facts.snapshot is not None and bool(facts.snapshot.behind)
    if facts.comparison is None and entry.head_proved and behind and not may_keep_result(entry, facts, policy):
        return start_over(entry, facts.snapshot.base_tip if facts.snapshot else None, policy, now)
    if facts.comparison is None:
        # A read of the pull request alone lacks facts that a merge needs; a snapshot has them.
        return ReadFact(FactKind.SNAPSHOT if facts.snapshot is None else FactKind.COMPARISON)
    if (unproved := prove(entry, facts.comparison, policy, now)) is not None:
        return unproved
    if facts.comparison.behind > 0:
        kept = keeps_result(entry, facts, policy)
        if isinstance(kept, ReadFact):
            return kept
        if not kept:
            return start_over(entry, facts.comparison.base_tip, policy, now)
    if facts.rules is None:
        return ReadFact(FactKind.RULES)
    if entry.run.github_failing_since is not None and now - entry.run.github_failing_since >= policy.outage_timeout:
        return Dequeue(Reason.GITHUB_TROUBLE)
    if facts.reports is None:
        # The entry waited since its checks passed: for GitHub, or because its queue was blocked.
        return ReadFact(FactKind.CHECKS)
    if (of_another_base := _of_another_base(entry, facts, policy)) is not None:
        return of_another_base
    if not _is_green(entry, facts, policy):
        checking = enter(entry, RunState.TESTING, now)
        return Save(replace(checking, run=replace(checking.run, merge_requested_at=None, next_poll_at=now)))
    method = judge_landing(entry, facts.pull, facts.rules, facts, policy)
    if not isinstance(method, MergeMethod):
        return method
    base_tip, tree = facts.comparison.base_tip, facts.comparison.head.tree
    tested = replace(entry, run=replace(entry.run, base_tip=base_tip, tested_tree=tree))
    return _merge(tested, facts.pull, method, facts, policy, now)


def _of_another_base(entry: Entry, facts: Facts, policy: Policy) -> Action | None:
    """Judge a head whose pull request had another base branch, or lost commits, after its checks had begun."""
    if facts.snapshot is None and facts.pull is not None and facts.pull.by_rest:
        return ReadFact(FactKind.SNAPSHOT)
    since = None if facts.snapshot is None else facts.snapshot.base_changed_at
    if since is None or not _is_green(entry, facts, policy):
        return None
    if facts.suites is None:
        return ReadFact(FactKind.SUITES)
    if entry.head_sha != entry.queued_head:
        # IMQ's update came after a change of base, which would have dequeued the entry: perhaps in the same second.
        since -= timedelta(seconds=1)
    counted = reports_since(facts.reports or (), facts.suites, since)
    if _is_green(entry, replace(facts, reports=counted), policy):
        return None
    return leave_for_base(entry, set(facts.reports or ()) - set(counted), policy)


def _merge(entry: Entry, pull: PullRequest, method: MergeMethod, facts: Facts, policy: Policy, now: datetime) -> Action:
    """Merge by this method; first read what the message of the commit needs."""
    if facts.commit_texts is None and needs_commits(policy.merge.body) and method is not MergeMethod.REBASE:
        return ReadFact(FactKind.COMMIT_TEXTS)
    run = replace(entry.run, merge_requested_at=now, next_poll_at=None, proof=_proof(entry, method, facts, policy))
    reviewers = approved_by(facts.snapshot)
    message = commit_message(pull, method, policy, facts.commit_texts, queued_by=entry.queued_by, reviewers=reviewers)
    ready = replace(entry, newer_tip=None, run=run)
    return Merge(ready, method, message, in_background=pull.stack_base is not None)


def _proof(entry: Entry, method: MergeMethod, facts: Facts, policy: Policy) -> LandingProof | None:
    """Return what lets the entry land: a member of a train has it from the train's run."""
    if entry.run.has_branch:
        return None if entry.run.proof is None else replace(entry.run.proof, method=method)
    reports = of_now(entry.run, facts.reports or (), policy)
    return proof_of(entry.head_sha, run_checks(facts.rules, policy), reports, facts.rules, policy, method)


def _is_green(entry: Entry, facts: Facts, policy: Policy) -> bool:
    """Whether the entry's checks pass by the reports of this pass, including checks that only IMQ requires."""
    required = run_checks(facts.rules, policy)
    expected = expected_checks(entry.run, required, policy)
    verdict = judge(required, of_now(entry.run, facts.reports or (), policy), policy.checks.ignored, expected)
    if required or verdict.reported or policy.checks.queue_only:
        return verdict.state is CheckState.PASSED
    return policy.checks.land_without


_BY_STATUS = {
    EntryStatus.PENDING: _pending,
    EntryStatus.UPDATING: _updating,
    EntryStatus.CHECKING: _checking,
    EntryStatus.READY: _ready,
}
