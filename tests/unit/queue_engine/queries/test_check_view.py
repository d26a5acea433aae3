"""The checks of a run as people see them: state, link, and how long they take against their usual time."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.run import CheckTiming
from queue_engine.queries.check_view import (
    CheckStatus,
    CheckView,
    check_views,
    group_runs,
    load_slow_checks,
    load_usual_times,
)
from queue_engine.store import Transaction
from tests.store.examples import changed
from tests.unit.queue_engine.examples import CHECKING, MINUTE, NOW, REPOSITORY, entry
from tests.unit.queue_engine.queries.examples import entries, happened, viewed


def shown(timing: CheckTiming | None = None, **changes: Any) -> CheckView:
    """The one check `ci` of a run, a minute after its status began."""
    timings = () if timing is None else (timing,)
    tested = entry(status=CHECKING, **({"head": "head-2", "pending_checks": ("ci",), "timings": timings} | changes))
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
    assert shown(None, head="head-1", queued_head="head-1").elapsed is None


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


def test_members_of_a_run_are_one_group() -> None:
    """Runs of several members need no other page."""
    first, second, third = entries(3)
    second = changed(second, status=CHECKING, started_at=NOW)
    second = replace(second, run=replace(second.run, id=7))
    first = replace(first, run=replace(first.run, id=7))
    views = [viewed(number, of=[first, second, third]) for number in (1, 2, 3)]
    (run,), waiting = group_runs(views, {}, NOW)
    assert [view.entry.number for view in run.members] == [1, 2]
    assert (run.front.status, run.front.run.started_at, run.front.run.candidate) == (CHECKING, NOW, "head-1")
    assert [view.entry.number for view in waiting] == [3]


async def test_usual_times_are_those_of_the_last_passed_tests_of_the_branch(t: Transaction) -> None:
    """Failures end early, and say nothing about the usual time."""
    for number, seconds in enumerate((60.0, 80.0, 70.0), start=1):
        await happened(t, number, "ready", data={"check_seconds": {"ci": seconds}})
    await happened(t, 4, "failed", data={"check_seconds": {"ci": 1.0}})
    assert await load_usual_times(t, REPOSITORY.id, "main") == {"ci": 70.0}
    assert await load_usual_times(t, REPOSITORY.id, "dev") == {}


async def test_check_is_slow_after_twice_its_usual_time(t: Transaction) -> None:
    """Not before, and not a check that has ended."""
    await happened(t, 8, "ready", data={"check_seconds": {"ci": 60.0}})
    running = CheckTiming("ci", None, NOW - 2 * MINUTE)
    tested = entry(status=CHECKING, head="head-2", pending_checks=("ci",), timings=(running,))
    ended = entry(status=CHECKING, head="head-2", timings=(replace(running, ended=NOW, passed=True),))
    assert await load_slow_checks(t, (tested, ended), NOW) == ()
    ((found, view),) = await load_slow_checks(t, (tested, ended), NOW + MINUTE)
    assert (found, view.name, view.elapsed, view.usual) == (tested, "ci", 3 * MINUTE, MINUTE)
    updated = replace(tested, run=replace(tested.run, timings=()))
    assert await load_slow_checks(t, (updated,), NOW + 2 * MINUTE) == ()
    ((found, view),) = await load_slow_checks(t, (updated,), NOW + 3 * MINUTE)
    assert (view.status, view.elapsed) == (CheckStatus.WAITING, 3 * MINUTE), "it may not have started at all"
