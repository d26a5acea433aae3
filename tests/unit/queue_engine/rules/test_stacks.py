"""Which pull requests lie above another one.

Covers `queue_engine/domain/stack.py`.
"""

import pytest

from queue_engine.domain.facts import Snapshot
from queue_engine.domain.stack import StackMember
from queue_engine.rules.stacks import is_stacked_above, lower_member
from tests.unit.queue_engine.examples import pull, rules


@pytest.mark.parametrize(("stack_base", "above"), [(None, False), ("main", False), ("trunk", True), ("", True)])
def test_pull_request_is_stacked_above_another_unless_it_is_for_the_base_of_the_stack(
    stack_base: str | None, above: bool
) -> None:
    """A stack whose base GitHub does not name may have something below."""
    assert is_stacked_above(pull(stack_base=stack_base)) is above


BELOW = (StackMember(9, "main"), StackMember(7, "main"))


@pytest.mark.parametrize(
    ("changes", "required", "below"),
    [
        ({"base_branch": "topic"}, (), 7),
        ({"base_branch": "topic"}, ("ci",), None),
        ({"base_branch": "trunk"}, (), None),
        ({"base_branch": "topic", "stack_base": "topic"}, (), None),
        ({"base_branch": "topic", "stack_base": "trunk"}, ("ci",), 7),
        ({"base_branch": "trunk", "stack_base": "main"}, (), 7),
    ],
)
def test_branch_of_another_pull_request_has_no_queue_unless_its_rules_say_what_lands_on_it(
    changes: dict[str, str], required: tuple[str, ...], below: int | None
) -> None:
    """The default branch has a queue, too; a stack of GitHub's says itself what lies below."""
    taken = Snapshot(pull(default_branch="trunk", **changes), below=BELOW)
    found = lower_member(taken, rules(*required))
    assert (found.number if found else None) == below


def test_branch_that_is_no_head_has_a_queue() -> None:
    """Most branches are the base of some pull requests, and the head of none."""
    assert lower_member(Snapshot(pull(base_branch="topic", default_branch="main")), rules()) is None
