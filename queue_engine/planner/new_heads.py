"""Decide about a new head of a front or a member: IMQ's update, or the push of a named bot without its webhook."""

from dataclasses import replace
from datetime import datetime, timedelta

from queue_engine.config.model import Policy
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.facts import Comparison, PullRequest
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Action, Dequeue, FactKind, Facts, ReadFact, Save, Update, Wait
from queue_engine.rules.consent import (
    NewHead,
    UnknownFact,
    dropped_tip,
    may_be_updated_silently,
    may_bind,
    may_lack_update,
    with_lost_update,
    with_pushed_head,
)
from queue_engine.rules.eligibility import Reject
from queue_engine.rules.transitions import bind_head, updating

_LAG = timedelta(minutes=1)
"""For so long after IMQ saw a tip of the base a read may still show the state before, where GitHub's reads lag."""


def judge_new_head(entry: Entry, head_sha: str, facts: Facts, policy: Policy, now: datetime) -> Action:
    """Bind the head that appeared while updating. A head pushed by IMQ's login is proved later, any other before."""
    if entry.run.new_head_is_ours:
        return Save(bind_head(entry, head_sha, policy, now, proved=False))
    if facts.pull is None:
        return ReadFact(FactKind.PULL)
    if not may_be_updated_silently(entry.repository, facts.pull):
        # The webhook that names the sender may come late; without it a fork's new head counts as another person's.
        if entry.run.next_poll_at is not None and now < entry.run.next_poll_at:
            return Wait(entry.run, entry.run.next_poll_at)
        return Dequeue(Reason.HEAD_CHANGED)
    if facts.comparison is None:
        return ReadFact(FactKind.COMPARISON)
    if facts.head_landed:
        return Dequeue(Reason.MERGED_ELSEWHERE)
    if may_bind(NewHead(head_sha, compared=facts.comparison), entry, policy, ConsentKind.OWN_UPDATE) is None:
        return judge_lost_consent(entry, Reject(Reason.HEAD_CHANGED), facts.pull, facts, policy, now)
    return Save(bind_head(entry, head_sha, policy, now, proved=True))


def prove(entry: Entry, comparison: Comparison, policy: Policy, now: datetime) -> Action | None:
    """Prove an update by its parents, once; None if the head is proved already.

    A head that was proved leaves as well if its base no longer has what IMQ merged: landing would bring that back.
    """
    if (dropped := dropped_tip(entry, comparison)) is not None:
        shown = now if entry.run.started_at is None else entry.run.started_at + _LAG
        if entry.head_proved and now < shown:
            return Wait(entry.run, shown)
        return Dequeue(Reason.BASE_REWRITTEN, detail=dropped)
    if entry.head_proved:
        return None
    if may_bind(NewHead(entry.head_sha, compared=comparison), entry, policy, ConsentKind.OWN_UPDATE) is None:
        return Dequeue(Reason.HEAD_CHANGED)
    return Save(replace(entry, head_proved=True, run=replace(entry.run, tested_tree=comparison.head.tree)))


def judge_lost_consent(
    entry: Entry, lost: Reject, pull: PullRequest, facts: Facts, policy: Policy, now: datetime
) -> Action:
    """Dequeue the entry, unless the bot that opened the pull request alone pushed: then its run starts over.

    An entry that is to be read again may be of a restored database, which does not know IMQ's last update.
    """
    if lost == Reject(Reason.HEAD_CHANGED) and may_lack_update(entry):
        if facts.lost_update is None:
            return ReadFact(FactKind.LOST_UPDATE)
        if facts.lost_update:
            return Save(with_lost_update(entry, pull.head_sha, now))
    head = NewHead(pull.head_sha, by=pull.author, pushes=facts.head_pushes, ledger=facts.ledger)
    found = may_bind(head, entry, policy, ConsentKind.BOT_PUSH) if lost == Reject(Reason.HEAD_CHANGED) else None
    if isinstance(found, UnknownFact):
        return ReadFact(FactKind.HEAD_PUSHES)
    if found is not ConsentKind.BOT_PUSH:
        return Dequeue(lost.reason, lost.detail)
    bound = with_pushed_head(entry, pull.head_sha)
    return Save(bound) if entry.status is EntryStatus.PENDING else Update(updating(bound, None, policy, now))
