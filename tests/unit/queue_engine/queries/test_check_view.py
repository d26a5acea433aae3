"""The checks of a run as people see them: state, link, and how long they take against their usual time."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.model import EntryStatus
from queue_engine.domain.run import CheckTiming, RunState
from queue_engine.queries.check_view import (
    CheckStatus,
    CheckView,
    check_views,
    group_runs,
    load_usual_times,
)
from queue_engine.store import Transaction
from tests.unit.queue_engine.examples import CHECKING, MINUTE, NOW, REPOSITORY, entry
from tests.unit.queue_engine.queries.examples import entries, happened
from tests.unit.queue_engine.queries.test_train_status import run


def shown(timing: CheckTiming | None = None, **changes: Any) -> CheckView:
    """The one check `ci` of a run, a minute after its status began."""
    timings = () if timing is None else (timing,)
    tested = entry(status=CHECKING, **({"head_sha": "head-2", "pending_checks": ("ci",), "timings": timings} | changes))
    (view,) = check_views(tested, {"ci": 120.0}, NOW + MINUTE)
    return view


@pytest.mark.parametrize(
    ("timing", "status", "elapsed"),
    [
        # No webhook says that a check of IMQ's own update has started: its time counts from that update.
        (None, CheckStatus.WAITING, MINUTE),
        (CheckTiming("ci"), CheckStatus.WAITING, MINUTE),
        (CheckTiming("ci", None, NOW), CheckStatus.RUNNING, MINUTE),
        (CheckTiming("ci", None, NOW, NOW + MINUTE / 2, passed=True), CheckStatus.PASSED, MINUTE / 2),
        (CheckTiming("ci", None, NOW, NOW + MINUTE / 2, passed=False), CheckStatus.FAILED, MINUTE / 2),
        # A status that only its end is known of began with IMQ's own update.
        (CheckTiming("ci", None, None, NOW + MINUTE / 2, passed=True), CheckStatus.PASSED, MINUTE / 2),
        # GitHub's clock is ahead.
        (CheckTiming("ci", None, NOW + 2 * MINUTE), CheckStatus.RUNNING, timedelta(0)),
    ],
)
def test_check_has_its_state_and_time(
    timing: CheckTiming | None, status: CheckStatus, elapsed: timedelta | None
) -> None:
    """A check of the head that was queued has no time until GitHub says when it started."""
    view = shown(timing)
    assert (view.status, view.elapsed, view.usual) == (status, elapsed, 2 * MINUTE)
    assert shown(None, head_sha="head-1", queued_head="head-1").elapsed is None


def test_check_that_ended_and_was_not_read_yet_is_reported() -> None:
    """A webhook named it without its times."""
    view = shown(completed_checks=("ci",), pending_checks=("ci",))
    assert (view.status, view.share) == (CheckStatus.REPORTED, None)


def test_share_of_the_usual_time_ends_at_all_of_it() -> None:
    """A slow check fills its bar, and the text says how slow."""
    view = shown(CheckTiming("ci", None, NOW - 10 * MINUTE))
    assert view.share == 1.0
    assert replace(view, elapsed=MINUTE).share == 0.5
    assert replace(view, usual=None).share is None
    assert replace(view, usual=timedelta(0)).share is None, "a check that is skipped most times"


def test_run_without_a_candidate_has_no_checks() -> None:
    """GitHub still makes the commit."""
    assert check_views(entry(pending_checks=("ci",)), {}, NOW) == ()


def test_runs_of_one_and_of_several_members_have_one_form() -> None:
    """Each with its members that have not landed, the one with the front first."""
    front, *others = entries(4, head_sha="head-9", pending_checks=("ci",))
    front = replace(front, run=replace(front.run, id=7))
    several = run(8, 2, 3, 5)
    landed = (*several.members[:2], replace(several.members[2], landed_sha="abc"))
    found = group_runs([front, *others], [replace(several, members=landed)], {"ci": 120.0}, NOW + MINUTE)
    assert [(each.id, each.numbers, each.state) for each in found] == [
        (None, (1,), RunState.TESTING),
        (8, (2, 3), RunState.TESTING),
    ]
    assert (found[0].started_at, found[0].candidate) == (NOW, "head-9")


@pytest.mark.parametrize(
    ("changes", "usual", "ends", "share"),
    [
        ({"pending_checks": ("ci",)}, {"ci": 120.0}, 2 * MINUTE, 0.5),
        ({"pending_checks": ("ci",)}, {"ci": 30.0}, MINUTE, 1.0),
        # Nothing says how long the check takes: one of two has ended.
        ({"pending_checks": ("ci", "lint"), "completed_checks": ("lint",)}, {}, None, 0.5),
        # Checks that nobody waits for do not count.
        (
            {"pending_checks": ("ci",), "timings": (CheckTiming("slow", None, NOW),)},
            {"ci": 120.0, "slow": 9e3},
            2 * MINUTE,
            0.5,
        ),
        ({"status": EntryStatus.READY}, {"ci": 120.0}, MINUTE, 1.0),
    ],
)
def test_run_ends_when_the_checks_that_it_waits_for_usually_do(
    changes: dict[str, Any], usual: dict[str, float], ends: timedelta | None, share: float | None
) -> None:
    """A clock time, and never one that has passed."""
    (front,) = entries(1, head_sha="head-9", **changes)
    (found,) = group_runs([replace(front, run=replace(front.run, id=7))], (), usual, NOW + MINUTE)
    assert (found.ends_at, found.share) == (ends and NOW + ends, share)


async def test_usual_times_are_those_of_the_last_passed_tests_of_the_branch(t: Transaction) -> None:
    """Failures end early, and say nothing about the usual time."""
    for number, seconds in enumerate((60.0, 80.0, 70.0), start=1):
        await happened(t, number, "ready", data={"check_seconds": {"ci": seconds}})
    await happened(t, 4, "failed", data={"check_seconds": {"ci": 1.0}})
    assert await load_usual_times(t, REPOSITORY.id, "main") == {"ci": 70.0}
    assert await load_usual_times(t, REPOSITORY.id, "dev") == {}


def test_check_is_slow_after_twice_its_usual_time() -> None:
    """Not before, and not a check that has ended."""
    view = shown(CheckTiming("ci", None, NOW))
    assert [replace(view, elapsed=view.usual * times).is_slow for times in (1, 2, 3) if view.usual] == [
        False,
        False,
        True,
    ]
    assert not replace(view, elapsed=timedelta(hours=1), status=CheckStatus.PASSED).is_slow
    assert not replace(view, elapsed=timedelta(hours=1), usual=None).is_slow
