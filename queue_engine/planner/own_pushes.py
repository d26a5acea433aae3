"""Decide about a front with another head: a named bot may have pushed it, and its webhook is lost, or still to come."""

from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Action, Dequeue, FactKind, Facts, ReadFact, Save, Update
from queue_engine.rules.eligibility import Reject
from queue_engine.rules.own_pushes import may_push, pushed_by, with_pushed_head
from queue_engine.rules.transitions import updating


def judge_lost_consent(
    entry: Entry, lost: Reject, pull: PullRequest, facts: Facts, policy: Policy, now: datetime
) -> Action:
    """Dequeue the entry, unless the bot that opened the pull request alone pushed: then its run starts over."""
    if lost != Reject(Reason.HEAD_CHANGED) or not may_push(entry, pull.author, policy):
        return Dequeue(lost.reason, lost.detail)
    if facts.head_pushes is None:
        return ReadFact(FactKind.HEAD_PUSHES)
    if not pushed_by(pull.author, facts.head_pushes, entry, pull.head_sha):
        return Dequeue(lost.reason)
    bound = with_pushed_head(entry, pull.head_sha)
    return Save(bound) if entry.status is EntryStatus.PENDING else Update(updating(bound, None, policy, now))
