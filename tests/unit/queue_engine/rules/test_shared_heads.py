"""Which pull requests share a head branch."""

from queue_engine.rules.consent import head_branch_of, most_active
from tests.unit.queue_engine.examples import CHECKING, PENDING, entry, pull

OWN = entry(head_sha="head-1")


def test_most_active_of_those_that_share_a_head_is_the_one_that_is_updated() -> None:
    """Its update moved the branch, even if others have waited for longer."""
    first, second = entry(number=2, seq=1, status=PENDING), entry(number=3, seq=2, status=CHECKING)
    assert most_active([first, second]) == second
    assert most_active([second, first]) == second
    assert most_active([]) is None


def test_head_branch_has_its_repository_and_a_deleted_fork_has_none() -> None:
    """Two forks may name their branches alike."""
    assert head_branch_of(pull(head_branch="topic")) == "acme/rocket:topic"
    assert head_branch_of(pull(head_branch="topic", head_repository=None)) is None
    assert head_branch_of(pull()) is None
