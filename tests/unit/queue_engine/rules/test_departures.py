"""What an entry waited for, derived from the events of its pull request and of its queue."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_engine.domain.departure import Departure, RerunCheck
from queue_engine.domain.model import WHOLE_QUEUE, Entry, TimelineEvent
from queue_engine.domain.reasons import Reason, WaitKind
from queue_engine.rules.departures import departure_of, share_of, train_runs
from tests.store.examples import changed, entry
from tests.unit.queue_engine.examples import MINUTE, NOW

ME = entry()
OWN = ("queued", "held", "pending", "updating", "checking", "ready", "rerun", "flaky", "blocked", "priority")
BLOCKERS = (Reason.BASE_RED, Reason.FROZEN, Reason.PAUSED_BY_HAND, Reason.CHECKS_NOT_STARTING)


def after(minutes: float) -> datetime:
    return NOW + minutes * MINUTE


def own(*events: tuple[float, str] | tuple[float, str, dict[str, Any]]) -> list[TimelineEvent]:
    """Events of the entry, each with its minute, in the order of the timeline."""
    return [
        TimelineEvent(after(minute), name, 7, "main", 1, ME.id, data=data[0] if data else {}, id=index + 1)
        for index, (minute, name, *data) in enumerate(events)
    ]


def of_queue(*events: tuple[float, str, Reason]) -> list[TimelineEvent]:
    """Pauses and resumptions of the queue, each with its minute."""
    return [
        TimelineEvent(after(minute), name, 7, "main", WHOLE_QUEUE, reason=reason, id=index + 1)
        for index, (minute, name, reason) in enumerate(events)
    ]


def departed(
    minute: float,
    events: list[TimelineEvent],
    blockers: list[TimelineEvent] | None = None,
    others: tuple[float, ...] = (),
    me: Entry = ME,
    **end: Any,
) -> Departure:
    """The departure of the entry after so many minutes; it joined at minute 0."""
    me = changed(me, enqueued_at=NOW)
    left = TimelineEvent(after(minute), "landed", 7, "main", 1, ME.id, id=1000, data=end)
    return departure_of(left, events, blockers or [], [after(each) for each in others], me)


def minutes(departure: Departure) -> dict[str, float]:
    """The parts of the wait that are not empty, in minutes."""
    return {kind.value: value / 60 for kind in WaitKind if (value := getattr(departure, kind.value))}


def test_departure_divides_the_wait_by_the_status_of_the_entry() -> None:
    """Behind others until the last of them left, then in its checks until these ended; the rest is IMQ's own work."""
    events = own(
        (0, "queued", {"position": 2}),
        (31, "updating"),
        (32, "checking"),
        (45, "ready", {"ended": after(44).isoformat()}),
    )
    found = departed(46, events, others=(10, 30, 50))
    assert minutes(found) == {"capacity": 30, "checks": 12, "other": 4}
    assert (found.enqueued_at, found.left_at, found.waited) == (NOW, after(46), 46 * 60)


@pytest.mark.parametrize(("position", "expected"), [(0, {"other": 5}), (1, {"capacity": 5})])
def test_first_entry_does_not_wait_behind_others(position: int, expected: dict[str, float]) -> None:
    """A pull request that joined an empty queue waits for GitHub, one behind others waits for them."""
    events = own((0, "queued", {"position": position}), (5, "updating"), (5, "checking"))
    assert minutes(departed(6, events)) == expected | {"checks": 1}


def test_departure_of_an_entry_behind_others_waited_for_them_until_its_end() -> None:
    """A person dequeued it while another was still ahead."""
    events = own((0, "queued", {"position": 3}))
    assert minutes(departed(9, events, others=(4,), me=changed(ME, position=1))) == {"capacity": 9}
    assert minutes(departed(9, events, others=(4,), me=changed(ME, position=0))) == {"capacity": 4, "other": 5}


def test_preempted_entry_waits_behind_the_hotfix() -> None:
    """Both runs of its checks count, and the wait between them."""
    events = own((0, "queued", {"position": 0}), (0, "checking"), (3, "pending"), (9, "checking"))
    assert minutes(departed(10, events, others=(9,))) == {"checks": 4, "capacity": 6}


def test_blocker_counts_before_what_the_entry_did() -> None:
    """A red base counts before a pause, and both before checks and others ahead."""
    blockers = of_queue(
        (2, "paused", Reason.PAUSED_BY_HAND),
        (4, "paused", Reason.BASE_RED),
        (6, "resumed", Reason.BASE_RED),
        (7, "resumed", Reason.PAUSED_BY_HAND),
    )
    events = own((0, "queued", {"position": 0}), (0, "checking"))
    assert minutes(departed(10, events, blockers)) == {"checks": 5, "paused": 3, "base_red": 2}


def test_blocker_from_before_the_entry_joined_counts_from_its_arrival() -> None:
    """Whether the pause is known or only its end; one that ended before counts for nothing."""
    events = own((0, "queued", {"position": 1}))
    only_end = of_queue((4, "resumed", Reason.FROZEN))
    both = of_queue((-5, "paused", Reason.FROZEN), (4, "resumed", Reason.FROZEN))
    before = of_queue((-5, "paused", Reason.FROZEN), (-4, "resumed", Reason.FROZEN))
    assert minutes(departed(9, events, only_end)) == minutes(departed(9, events, both)) == {"paused": 4, "capacity": 5}
    assert minutes(departed(9, events, before)) == {"capacity": 9}


def test_freeze_ends_when_its_time_is_over() -> None:
    """No event marks the end while no pass runs; a new end of the same freeze replaces the old one."""
    freeze = of_queue((1, "paused", Reason.FROZEN), (2, "paused", Reason.FROZEN))
    freeze = [
        TimelineEvent(each.at, each.event, 7, "main", 0, reason=each.reason, data={"until": after(end).isoformat()})
        for each, end in zip(freeze, (3, 5), strict=True)
    ]
    assert minutes(departed(9, own((0, "queued", {"position": 1})), freeze)) == {"capacity": 5, "paused": 4}


def test_exempt_entry_does_not_wait_for_the_blocker() -> None:
    """A fix of the base lands while the base is red."""
    red = of_queue((0, "paused", Reason.BASE_RED))
    events = own((0, "queued", {"position": 0}), (0, "checking"))
    assert minutes(departed(3, events, red, me=changed(ME, fixes_base=True))) == {"checks": 3}
    assert minutes(departed(3, events, red)) == {"base_red": 3}


def test_stall_of_checks_holds_the_others_and_is_part_of_the_checks_of_the_front() -> None:
    """The front waits for its own checks to start."""
    stall = of_queue((1, "paused", Reason.CHECKS_NOT_STARTING))
    assert minutes(departed(5, own((0, "queued", {"position": 0}), (0, "checking")), stall)) == {"checks": 5}
    assert minutes(departed(5, own((0, "queued", {"position": 1})), stall)) == {"capacity": 1, "paused": 4}


def test_departure_counts_ci_reruns_and_flaky_checks() -> None:
    """CI time is that of all runs; a flaky check costs its rerun and the wait for it, divided among those together.

    The job `lint` failed in the same workflow run, and is required itself: it counts once.
    """
    failing = [{"check": "ci", "url": None, "jobs": ["unit (3.12)", "lint"]}]
    events = own(
        (0, "checking"),
        (1, "updating", {"tested": "g", "check_seconds": {"ci": 60.0}}),
        (1, "checking"),
        (4, "rerun", {"head": "h", "checks": ["ci", "lint"], "failing": failing, "check_seconds": {"ci": 50.0}}),
        (10, "ready", {"head": "h", "ended": after(9).isoformat(), "tested": "h", "check_seconds": {"ci": 200.0}}),
        (10, "flaky", {"head": "h", "checks": ["ci", "lint"]}),
    )
    found = departed(11, events, tested="h", check_seconds={"ci": 200.0, "lint": 30})
    assert (found.ci_seconds, found.reruns) == (60.0 + 50.0 + 230.0, 1)
    assert found.flaky == (
        RerunCheck("ci", ("unit (3.12)",), 1, 50.0, 150.0),
        RerunCheck("lint", (), 1, None, 150.0),
    )


EVENTS = st.lists(
    st.tuples(
        st.floats(-50, 150),
        st.sampled_from(OWN),
        st.one_of(
            st.just({}),
            st.builds(lambda minute: {"ended": after(minute).isoformat()}, st.floats(-50, 150)),
            st.builds(lambda position: {"position": position}, st.integers(0, 2)),
        ),
    ),
    max_size=12,
)
QUEUE_EVENTS = st.lists(
    st.tuples(st.floats(-50, 150), st.sampled_from(("paused", "resumed")), st.sampled_from(BLOCKERS)), max_size=10
)


@given(EVENTS, QUEUE_EVENTS, st.lists(st.floats(-50, 150), max_size=5), st.floats(-10, 120), st.integers(0, 2))
def test_parts_add_up_to_the_whole_and_none_is_negative(
    events: list[tuple[float, str, dict[str, Any]]],
    blockers: list[tuple[float, str, Reason]],
    others: list[float],
    left: float,
    position: int,
) -> None:
    """Whatever the clock did between the events: their instants are in any order, even before the entry joined."""
    found = departed(left, own(*events), of_queue(*blockers), tuple(others), changed(ME, position=position))
    parts = [getattr(found, kind.value) for kind in WaitKind]
    assert all(part >= 0 for part in parts)
    assert sum(parts) == pytest.approx(found.waited, abs=1e-5)
    assert found.waited == pytest.approx(max(left, 0) * 60, abs=1e-5)
    assert found.left_at - found.enqueued_at == timedelta(seconds=found.waited)


def test_ci_time_of_a_run_of_a_train_counts_once_among_the_members_that_it_tests() -> None:
    """Each of its members has the run's seconds; a member that another run has tested adds nothing."""
    tested = {"tested": "candidate", "check_seconds": {"ci": 600.0}, "check_ended": {}, "run": 5}
    events = own((0, "checking"), (9, "ready", tested))
    left = TimelineEvent(after(10), "landed", 7, "main", 1, ME.id, id=1000)
    parts = [share_of(number, {1, 2, 3, 4}) for number in (1, 2, 3, 4, 5)]
    seconds = [departure_of(left, events, [], [], ME, {5: part}).ci_seconds for part in parts]
    assert train_runs(events) == {5}
    assert seconds == [150, 150, 150, 150, 0]
