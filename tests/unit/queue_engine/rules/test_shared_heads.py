"""Which push is IMQ's update for another pull request of the same branch, and what it brings."""

import pytest

from queue_engine.config.model import Policy, QueuePermissions
from queue_engine.domain.facts import Comparison, Permission
from queue_engine.rules.shared_heads import head_branch_of, merged_tip, most_active, updated_for, with_shared_update
from tests.store.examples import changed
from tests.unit.queue_engine.examples import CHECKING, NOW, PENDING, POLICY, UPDATING, comparison, entry, pull

OWN = entry(head="head-1")


def compared(*parents: str) -> Comparison:
    return comparison("head-2", parents=parents)


@pytest.mark.parametrize(
    ("changes", "is_update"),
    [
        ({"head": "head-2", "updated_from": "head-1"}, True),
        ({"status": UPDATING, "head": "head-1", "new_head": "head-2", "new_head_is_ours": True}, True),
        ({"status": UPDATING, "head": "head-1", "new_head": "head-2", "new_head_is_ours": False}, False),
        ({"head": "head-2", "updated_from": "head-0"}, False),
        ({"head": "head-3", "updated_from": "head-1"}, False),
        ({"status": UPDATING, "head": "head-0", "new_head": "head-2", "new_head_is_ours": True}, False),
    ],
)
def test_head_is_an_update_for_another_entry_if_that_entry_has_it_from_the_same_head(
    changes: dict[str, object], is_update: bool
) -> None:
    """P4: heads that a person pushed have no such entry."""
    other = entry(number=2, **changes)
    assert updated_for(OWN, "head-2", [other]) == (other if is_update else None)


def test_most_active_of_those_that_share_a_head_is_the_one_that_is_updated() -> None:
    """Its update moved the branch, even if others have waited for longer."""
    first, second = entry(number=2, seq=1, status=PENDING), entry(number=3, seq=2, status=CHECKING)
    assert most_active([first, second]) == second
    assert most_active([second, first]) == second
    assert most_active([]) is None


@pytest.mark.parametrize(
    ("parents", "tip"),
    [(("head-1", "tip"), "tip"), (("tip", "head-1"), None), (("head-1",), None), (("head-1", "tip", "x"), None)],
)
def test_update_has_the_own_head_and_one_tip_as_parents(parents: tuple[str, ...], tip: str | None) -> None:
    """P4: in this order; anything else is a person's push."""
    assert merged_tip(OWN, compared(*parents), POLICY) == tip


def test_update_needs_githubs_signature_where_write_permission_may_not_queue() -> None:
    """A writer may craft a merge with these parents and other content."""
    assert (
        merged_tip(
            OWN, compared("head-1", "tip"), Policy(who_may_queue=QueuePermissions(permission=Permission.MAINTAIN))
        )
        is None
    )


def test_shared_update_is_bound_and_ends_a_run_on_the_former_head() -> None:
    """The entry waits again, at its position."""
    updated = changed(OWN, status=CHECKING, candidate="head-1", updated_from="head-0")
    bound = with_shared_update(updated, "head-2", NOW)
    assert (bound.status, bound.head, bound.queued_head, bound.head_proved) == (PENDING, "head-2", "head-2", True)
    assert bound.updated_from is None
    assert not bound.run.has_begun


def test_head_branch_has_its_repository_and_a_deleted_fork_has_none() -> None:
    """Two forks may name their branches alike."""
    assert head_branch_of(pull(head_branch="topic")) == "acme/rocket:topic"
    assert head_branch_of(pull(head_branch="topic", head_repository=None)) is None
    assert head_branch_of(pull()) is None
