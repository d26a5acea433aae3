"""Tips of branches compared with pushes that webhooks reported in any order."""

from datetime import datetime, timedelta
from itertools import permutations

import pytest

from queue_engine.domain.known_facts import KEPT, NO_COMMIT, Known, MergeResult, Push
from queue_engine.known.pulls import current_tip, exists, pushes, superseded
from tests.unit.queue_engine.examples import NOW

A, B, C = "a", "b", "c"
SECOND = timedelta(seconds=1)


def moved(before: str, after: str, at: datetime | None = NOW) -> Push:
    """A push."""
    return Push(before=before, after=after, at=at)


@pytest.mark.parametrize("reported", [*permutations([moved(A, B), moved(B, C)])])
def test_tip_that_pushes_have_left_is_superseded_in_any_order_of_reports(
    reported: tuple[Push, ...],
) -> None:
    """Deliveries come in any order; a late one lowers nothing."""
    assert [superseded(tip, reported) for tip in (A, B, C)] == [True, True, False]
    assert current_tip(reported) == C


def test_tip_that_nothing_is_known_of_is_believed() -> None:
    """It may be newer than what is known."""
    assert not superseded("d", [moved(A, B)])
    assert not superseded("d", [])


@pytest.mark.parametrize("reported", [*permutations([moved(A, B), moved(B, A, NOW + SECOND)])])
def test_tip_that_a_forced_push_came_back_to_is_believed(reported: tuple[Push, ...]) -> None:
    """The later push counts, by GitHub's time; the tip between the two is superseded."""
    assert not superseded(A, reported)
    assert superseded(B, reported)
    assert current_tip(reported) is None, "it is read by the branch's name then"


def test_tip_left_and_come_back_to_in_one_second_is_believed() -> None:
    """Nothing is certain then."""
    reported = [moved(A, B), moved(B, A)]
    assert not superseded(A, reported)
    assert not superseded(B, reported)


def test_landing_of_our_own_without_a_time_is_not_taken_for_later_than_a_forced_push() -> None:
    """IMQ's clock is not GitHub's."""
    reported = [moved(A, B, None), moved(B, A)]
    assert not superseded(A, reported)
    assert superseded(A, reported[:1])


def test_tip_that_was_left_again_after_a_forced_push_came_back_to_it_is_superseded() -> None:
    """P1: GitHub's time of the last push is enough, though IMQ's own landings from that tip tell none."""
    reported = [moved(A, B, None), moved(A, B), moved(B, A, NOW + SECOND), moved(A, C, None)]
    assert not superseded(A, reported)
    assert superseded(A, [*reported, moved(A, C, NOW + 2 * SECOND)])


def test_branch_that_was_deleted_has_no_tip() -> None:
    """GitHub writes forty zeros."""
    reported = [moved(A, B), moved(B, NO_COMMIT)]
    assert superseded(B, reported)
    assert current_tip(reported) is None
    assert (exists(reported[:1]), exists(reported), exists([])) == (True, False, False)


def test_push_that_happened_long_ago_and_was_delivered_again_proves_nothing() -> None:
    """Since then the branch may have come back, and that webhook be lost."""
    again = Known(moved(A, B, NOW - KEPT), NOW)
    new = Known(moved(B, C, None), NOW)
    assert pushes([again, new, Known(MergeResult(sha=C), NOW)], NOW) == [new.statement]
