"""Verify that a pull request may land, but for its checks: consent, permission, reviews, conversations, method. Pure.

A train verifies each member before IMQ merges it onto a candidate, and again before it lands.
"""

from dataclasses import replace
from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.domain.facts import BranchRules, MergeMethod, PullRequest, Snapshot
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Action, Dequeue, FactKind, Facts, ReadFact, Save, Unmet
from queue_engine.planner.merge_errors import forbids_merge_commits, named
from queue_engine.planner.new_heads import judge_lost_consent, prove
from queue_engine.rules.consent import consent_lost
from queue_engine.rules.eligibility import may_queue, unread_teams
from queue_engine.rules.landing_order import new_requirements
from queue_engine.rules.merge_method import merge_method, no_method
from queue_engine.rules.reviews import counted_reviews, missing_approval
from queue_engine.rules.stacks import is_stacked_above


def judge_member(entry: Entry, facts: Facts, policy: Policy, now: datetime, *, mergeable: bool) -> MergeMethod | Action:
    """Return the method by which the entry lands, or the action before. `mergeable`: a known conflict dequeues it."""
    if facts.pull is None:
        return ReadFact(FactKind.SNAPSHOT)
    if (lost := consent_lost(entry, facts.pull, policy)) is not None:
        waiting = replace(entry, run=entry.run.ended())
        return judge_lost_consent(waiting, lost, facts.pull, facts, policy, now)
    if entry.needs_refetch:
        return Save(replace(entry, needs_refetch=False))
    if facts.head_landed:
        return Dequeue(Reason.MERGED_ELSEWHERE)
    if mergeable and facts.pull.mergeable is False:
        return Dequeue(Reason.CONFLICT)
    if not entry.head_proved:
        if facts.comparison is None:
            return ReadFact(FactKind.COMPARISON)
        if (unproved := prove(entry, facts.comparison, policy, now)) is not None:
            return _without_tree(entry, unproved)
    if facts.rules is None:
        return ReadFact(FactKind.RULES)
    return judge_landing(entry, facts.pull, facts.rules, facts, policy)


def judge_landing(
    entry: Entry, pull: PullRequest, rules: BranchRules, facts: Facts, policy: Policy
) -> MergeMethod | Action:
    """Return the method by which an entry with consent may land; else the read, or the dequeue, that comes before."""
    if named_since := new_requirements(entry, pull):
        # IMQ judges them once it waits outside.
        return Unmet(entry, named_since)
    if facts.permission is None:
        return ReadFact(FactKind.PERMISSION)
    if may_queue(policy, entry.queued_by, facts.permission) is not None:
        return Dequeue(Reason.PERMISSION_LOST, unread_teams(policy))
    if (unmet := _unmet_bypassed_rules(facts, rules) or _withdrawn_approval(facts.snapshot, rules)) is not None:
        return unmet
    if is_stacked_above(pull):
        # A merge would land what lies below it, too, untested.
        return Dequeue(Reason.STACKED)
    rules = replace(rules, linear_history=rules.linear_history or forbids_merge_commits(facts.merge_refused))
    mergeable = replace(pull, methods=tuple(one for one in pull.methods if one not in facts.refused_methods))
    method = merge_method(mergeable, rules, policy)
    if method is None and _may_be_cached(facts):
        return ReadFact(FactKind.FRESH_RULES)
    if method is None:
        reason, asked_for = no_method(pull, rules, policy)
        return Dequeue(named(facts.merge_refused or "") or reason, detail=asked_for)
    return method


def _without_tree(entry: Entry, action: Action) -> Action:
    """Return the action; a proved head is not the tested tree of a member."""
    return Save(replace(entry, head_proved=True)) if isinstance(action, Save) else action


def _unmet_bypassed_rules(facts: Facts, rules: BranchRules) -> Action | None:
    """Enforce the rules that GitHub does not enforce for IMQ, which may bypass them; None if all are met."""
    if rules.bypassed and _may_be_cached(facts):
        return ReadFact(FactKind.FRESH_RULES)
    if rules.bypassed:
        return Dequeue(Reason.RULESET_BYPASSED, detail="; ".join(rules.bypassed))
    if not rules.approvals_bypassed:
        return None
    if facts.reviews is None:
        return ReadFact(FactKind.REVIEWS)
    decision = None if facts.snapshot is None else facts.snapshot.decision
    missing = missing_approval(facts.reviews, rules, decision)
    return None if missing is None else Dequeue(missing[0], detail=missing[1])


def _may_be_cached(facts: Facts) -> bool:
    """Whether the rules and merge methods may come from the cache; IMQ drops cached ones after a refused merge."""
    return not facts.rules_fresh and facts.merge_refused is None


def _withdrawn_approval(snapshot: Snapshot | None, rules: BranchRules) -> Dequeue | None:
    """Dequeue the entry for a dismissed approval, requested changes or a conversation in the snapshot."""
    if snapshot is None:
        return None
    reviews = counted_reviews(snapshot, rules)
    owners = snapshot.code_owners
    if reviews is not None and (missing := missing_approval(reviews, rules, snapshot.decision, owners)) is not None:
        return Dequeue(missing[0], detail=missing[1])
    return Dequeue(Reason.CONVERSATIONS_UNRESOLVED) if rules.conversations and snapshot.open_conversations else None
