"""Which pull requests lie above another one."""

from dataclasses import replace
from typing import Any

import pytest

from queue_engine.domain.facts import PullRequest, Snapshot, StackMember, StackPosition
from queue_engine.domain.known_facts import PullRequestState
from queue_engine.domain.model import UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.rules.stacks import (
    StackChange,
    aimed,
    awaited_member,
    is_ruled,
    is_stacked_above,
    lower_member,
    pull_request_in,
    stack_change,
    still_above,
)
from tests.unit.queue_engine.examples import NOW, entry, pull, rules


@pytest.mark.parametrize(("stack_base", "above"), [(None, False), ("main", False), ("trunk", True), ("", True)])
def test_pull_request_is_stacked_above_another_unless_it_is_for_the_base_of_the_stack(
    stack_base: str | None, above: bool
) -> None:
    """A stack whose base GitHub does not name may have something below."""
    assert is_stacked_above(pull(stack_base=stack_base)) is above


BELOW = (StackMember(9, "main"), StackMember(7, "main"))


@pytest.mark.parametrize(
    ("stack_base", "lands", "below"),
    [(None, False, 7), (None, True, None), ("topic", False, None), ("trunk", True, 7), ("main", False, 7)],
)
def test_branch_of_another_pull_request_has_no_queue_unless_pull_requests_are_meant_to_land_on_it(
    stack_base: str | None, lands: bool, below: int | None
) -> None:
    """A stack of GitHub's says itself what lies below."""
    taken = Snapshot(pull(base_branch="topic", stack_base=stack_base), below=BELOW)
    found = lower_member(taken, lands=lands)
    assert (found.number if found else None) == below


@pytest.mark.parametrize(
    ("changes", "ruled"),
    [
        ({}, False),
        ({"linear_history": True, "signatures": True}, False),
        ({"protected": True}, True),
        ({"approvals": 1}, True),
        ({"conversations": True}, True),
        ({"locked": True}, True),
    ],
)
def test_rules_say_what_lands_on_a_branch_unless_they_are_about_commits_alone(
    changes: dict[str, Any], ruled: bool
) -> None:
    """Rulesets for all branches demand signatures of topic branches, too."""
    assert is_ruled(replace(rules(), **changes)) is ruled
    assert is_ruled(rules("ci"))


@pytest.mark.parametrize(
    ("ruled", "demands"),
    [
        (True, {"approvals": 1}),
        (True, {"native_queue": True}),
        (True, {"locked": True}),
        (True, {"push_restricted": True}),
        (False, {"linear_history": True}),
    ],
)
def test_branch_is_ruled_by_whatever_says_what_may_land_on_it(ruled: bool, demands: dict[str, Any]) -> None:
    """How it lands does not matter."""
    assert is_ruled(rules(**demands)) is ruled


def test_branch_that_is_no_head_has_a_queue() -> None:
    """Most branches are the base of some pull requests, and the head of none."""
    assert lower_member(Snapshot(pull(base_branch="topic")), lands=False) is None


BASES = ("topic", "main", "other")
PLACE = StackPosition(7, "topic", "main")


def lower(**changes: object) -> PullRequest:
    return pull(number=7, head_branch="topic", **changes)


@pytest.mark.parametrize(
    ("base", "below", "change"),
    [
        ("topic", lower(), StackChange.NONE),
        ("topic", lower(open=False, merged=True), StackChange.LANDED),
        ("topic", lower(open=False, merged=True, base_branch="other"), StackChange.BASE_CHANGED),
        ("topic", lower(open=False), StackChange.ENDED),
        ("main", lower(open=False, merged=True), StackChange.RETARGETED),
        ("other", lower(open=False, merged=True, base_branch="other"), StackChange.RETARGETED),
        ("main", lower(), StackChange.BASE_CHANGED),
        ("main", lower(open=False), StackChange.BASE_CHANGED),
        ("other", lower(open=False, merged=True), StackChange.BASE_CHANGED),
    ],
)
def test_base_branch_may_change_to_where_the_one_below_landed_and_to_no_other(
    base: str, below: PullRequest, change: StackChange
) -> None:
    """P4: GitHub makes exactly this change; any other ends the consent."""
    assert stack_change(pull(base_branch=base), below, "main") is change


@pytest.mark.parametrize(
    ("listed", "above"),
    [
        (pull(base_branch="topic", stack_base="main"), True),
        (pull(base_branch="topic", stack_base="other"), False),
        (pull(base_branch="main", stack_base="main"), False),
        (pull(base_branch="topic"), True),
        (pull(base_branch="main"), False),
    ],
)
def test_listed_pull_request_is_still_above_in_its_own_stack_alone(listed: PullRequest, above: bool) -> None:
    """P4: consent was for the branch on which that stack lands."""
    waiting = entry(unmet=(UnmetRequirement(Reason.STACKED_ABOVE, "#7, of the branch topic"),))
    assert still_above(waiting, listed) is above


def test_pull_request_of_a_stack_is_judged_as_one_for_the_base_of_the_stack() -> None:
    """Webhooks reported its own base branch, which is no withdrawal; a third branch remains one."""
    known = {"updated_at": NOW, "head_sha": "head-1", "open": True, "merged": False, "draft": False, "title": "Pull"}
    more = {"labels": (), "base_changed": True}
    states = [PullRequestState.model_validate({**known, **more, "base": each}) for each in BASES]
    of_topic = pull(base_branch="topic", reported=tuple(states), mergeable=False, merge_state="dirty")
    taken = aimed(Snapshot(of_topic, base_tip="t", behind=3), PLACE)
    shown = [(one.base, one.base_changed) for one in taken.pull.reported if isinstance(one, PullRequestState)]
    assert shown == [("main", False), ("main", False), ("other", True)]
    assert (taken.pull.mergeable, taken.pull.merge_state) == (None, "unknown")
    assert (taken.pull.base_branch, taken.base_tip, taken.behind, taken.stack) == ("main", None, None, PLACE)


def test_waiting_entry_names_the_pull_request_below() -> None:
    """The detail begins with its number; other details have none."""
    unmet = (UnmetRequirement(Reason.DRAFT), UnmetRequirement(Reason.STACKED_ABOVE, "#12"))
    assert awaited_member(entry(unmet=unmet)) == 12
    assert awaited_member(entry(unmet=unmet[:1])) is None
    assert pull_request_in("#12, queued for main") == 12
    assert pull_request_in("needs #12") is None
