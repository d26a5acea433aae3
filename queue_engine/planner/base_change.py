"""Decide about a run whose base moved: update its front again, or keep the result. Pure.

The result is kept where the base moved only in files that need no test, as the configuration says: release bots commit
a version or a changelog after each landing. IMQ compares the commit of the base that the head contains with the base's
tip. If GitHub does not list all changed files, the base was moved back, or GitHub refused the merge, it tests again. It
does so, too, where GitHub merges only heads that contain the base's tip.
"""

from dataclasses import replace
from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Action, Dequeue, FactKind, Facts, ReadFact, Save, Update
from queue_engine.planner.new_heads import prove
from queue_engine.rules.checks import need_no_test
from queue_engine.rules.transitions import updating

_BEHIND = "behind"
"""GitHub's `mergeable_state` of a head that it does not merge because it lacks commits of the base."""


def follow_base(entry: Entry, facts: Facts, policy: Policy, now: datetime) -> Action:
    """Update at once after the base moved: the commit that is tested now can no longer land, unless it is kept."""
    if facts.comparison is None and may_keep_result(entry, facts, policy):
        kept = keeps_result(entry, facts, policy)
        if isinstance(kept, ReadFact):
            return kept
        if kept:
            return Save(replace(entry, newer_tip=None))
    if facts.comparison is None:
        return ReadFact(FactKind.COMPARISON)
    if facts.head_landed:
        return Dequeue(Reason.MERGED_ELSEWHERE)
    if (unproved := prove(entry, facts.comparison, policy, now)) is not None:
        return unproved
    if facts.comparison.behind > 0:
        return start_over(entry, facts.comparison.base_tip, policy, now)
    return Save(replace(entry, newer_tip=None, run=replace(entry.run, base_tip=facts.comparison.base_tip)))


def start_over(entry: Entry, base_tip: str | None, policy: Policy, now: datetime) -> Action:
    """Update the front again, since its base moved; dequeue it after the time limit if the base keeps moving."""
    if entry.run.started_at is not None and now - entry.run.started_at >= policy.timeouts.run:
        return Dequeue(Reason.BASE_KEEPS_MOVING)
    return Update(updating(entry, base_tip, policy, now))


def may_keep_result(entry: Entry, facts: Facts, policy: Policy) -> bool:
    """Return whether some change of the base could keep the result, as far as is known without another read."""
    if not policy.checks.untested_paths or entry.run.merge_refusals > len(facts.refused_methods):
        return False
    if facts.rules is not None and facts.rules.up_to_date:
        return False
    return facts.pull is None or facts.pull.merge_state != _BEHIND


def keeps_result(entry: Entry, facts: Facts, policy: Policy) -> bool | ReadFact:
    """Return whether the result of the run is kept although the base moved, or the read that this depends on."""
    change = tips_to_compare(entry, facts)
    if change is None or not may_keep_result(entry, facts, policy):
        return False
    if facts.rules is None:
        return ReadFact(FactKind.RULES)
    if facts.base_change is None or (facts.base_change.before, facts.base_change.after) != change:
        return ReadFact(FactKind.BASE_CHANGE)
    return need_no_test(facts.base_change.paths, policy)


def tips_to_compare(entry: Entry, facts: Facts) -> tuple[str, str] | None:
    """Return the commit of the base that was tested, and its tip: by a webhook, before a merge by a comparison."""
    if facts.comparison is not None:
        return facts.comparison.merge_base, facts.comparison.base_tip
    if entry.run.base_tip is None or entry.newer_tip is None:
        return None
    return entry.run.base_tip, entry.newer_tip
