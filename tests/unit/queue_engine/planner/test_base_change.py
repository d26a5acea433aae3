"""A base that moved while a run was under way: when the result is kept."""

from dataclasses import replace
from typing import Any

import pytest

from queue_engine.domain.facts import MergeMethod
from queue_engine.planner.actions import FactKind, ReadFact, Save
from queue_engine.planner.base_change import follow_base, keeps_result, may_keep_result
from queue_engine.rules.checks import BaseChange
from tests.unit.queue_engine.examples import CHECKING, NOW, POLICY, entry, facts_with, pull, rules

LENIENT = replace(POLICY, checks=replace(POLICY.checks, untested_paths=("CHANGELOG.md",)))
RELEASE = BaseChange("base-1", "base-2", frozenset({"CHANGELOG.md"}))
MOVED = entry(status=CHECKING, base_tip="base-1", newer_tip="base-2")


@pytest.mark.parametrize(
    ("refusals", "facts", "may"),
    [
        (0, {}, True),
        (1, {}, False),
        (1, {"refused_methods": frozenset({MergeMethod.MERGE})}, True),
        (2, {"refused_methods": frozenset({MergeMethod.MERGE})}, False),
        (0, {"pull": pull(merge_state="behind")}, False),
        (0, {"pull": pull(merge_state="clean")}, True),
        (0, {"rules": rules("ci", up_to_date=True)}, False),
    ],
)
def test_result_may_be_kept_unless_github_refused_the_merge_or_wants_the_tip_of_the_base(
    refusals: int, facts: dict[str, Any], may: bool
) -> None:
    """A refused merge method says nothing about the base."""
    front = entry(status=CHECKING, merge_refusals=refusals)
    assert may_keep_result(front, facts_with(**facts), LENIENT) is may
    assert not may_keep_result(front, facts_with(**facts), POLICY)


def test_change_of_other_tips_is_read_again() -> None:
    """P1: files that an earlier push changed say nothing about this one."""
    known = facts_with(rules=rules("ci"), base_change=replace(RELEASE, after="base-1b"))
    assert keeps_result(MOVED, known, LENIENT) == ReadFact(FactKind.BASE_CHANGE)
    assert keeps_result(MOVED, replace(known, base_change=RELEASE), LENIENT) is True


def test_kept_result_is_of_the_base_that_was_tested() -> None:
    """P1: the landed tree is compared with what was tested there, and the next change again with that commit."""
    kept = follow_base(MOVED, facts_with(rules=rules("ci"), base_change=RELEASE), LENIENT, NOW)
    assert isinstance(kept, Save)
    assert (kept.entry.newer_tip, kept.entry.run.base_tip) == (None, "base-1")
