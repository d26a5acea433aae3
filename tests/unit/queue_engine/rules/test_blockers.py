"""Find the blockers of a queue, the entries that they exempt, the front, and which entries IMQ notifies."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from queue_engine.config.model import FreezeRules, Policy
from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.model import PROCESSING, EntryStatus, Pause, Queue, Stall
from queue_engine.domain.policy import FreezeWindow
from queue_engine.domain.reasons import Reason
from queue_engine.rules.blockers import (
    base_unread,
    blockers_of,
    in_flight,
    next_poll_at,
    unblocked_at,
    waits_for_base,
)
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    MINUTE,
    NOW,
    PENDING,
    POLICY,
    READY,
    REPOSITORY,
    UPDATING,
    WAITING,
    entry,
)
from tests.unit.queue_engine.rules.blocker_examples import BASE_RED, FREEZE, HALT, NOT_STARTING, RED, announced_to, line

PAUSE = Pause(Reason.PAUSED_BY_HAND, "the disk", NOW)
BY_HAND = Pause(Reason.FROZEN, "release", NOW - HOUR, NOW + HOUR, "rhea")
WINDOW = Policy(freeze=FreezeRules(windows=(FreezeWindow(NOW - HOUR, NOW + 2 * HOUR, "the fair"),)))
BROKEN = Policy(fault="line 3: depht is unknown")


def queue(**changes: Any) -> Queue:
    return replace(Queue(1, REPOSITORY, "main", None, 0), **changes)


def test_blockers_of_a_queue_are_all_that_hold_the_most_important_first() -> None:
    """A pause that has ended, and a freeze that is over, block nothing."""
    cases: list[tuple[dict[str, Any], Policy, list[Reason]]] = [
        ({}, POLICY, []),
        ({"pauses": (PAUSE,)}, POLICY, [Reason.PAUSED_BY_HAND]),
        ({"pauses": (BY_HAND,)}, POLICY, [Reason.FROZEN]),
        ({"pauses": (replace(BY_HAND, until=NOW),)}, POLICY, []),
        ({"pauses": (PAUSE, BY_HAND)}, POLICY, [Reason.PAUSED_BY_HAND, Reason.FROZEN]),
        ({"red": RED}, POLICY, [Reason.BASE_RED]),
        # It is not known yet whether that base is red; the pause for the mismatch blocks the queue.
        ({"red": replace(RED, check="", untested=True)}, POLICY, []),
        ({"red": replace(RED, check="1 of 3 members landed", untested=True)}, POLICY, [Reason.TIP_UNTESTED]),
        ({"stall": Stall(NOW, "head-1", "ci")}, POLICY, [Reason.CHECKS_NOT_STARTING]),
        ({}, WINDOW, [Reason.FROZEN]),
        ({}, BROKEN, [Reason.MISCONFIGURED]),
        (
            {"pauses": (PAUSE,), "red": RED},
            replace(WINDOW, fault="line 1"),
            [Reason.PAUSED_BY_HAND, Reason.MISCONFIGURED, Reason.FROZEN, Reason.BASE_RED],
        ),
    ]
    for slots, policy, expected in cases:
        assert [each.reason for each in blockers_of(queue(**slots), policy, NOW)] == expected, (slots, policy, expected)


def test_blocker_has_an_end_only_if_that_is_known() -> None:
    """A red base is looked at again without anybody knowing when it ends."""
    assert blockers_of(queue(), WINDOW, NOW) == (FREEZE,)
    assert blockers_of(queue(), WINDOW, NOW + 2 * HOUR) == ()
    assert blockers_of(queue(pauses=(PAUSE,)), POLICY, NOW) == (HALT,)
    assert blockers_of(queue(red=RED), POLICY, NOW) == (BASE_RED,)
    assert blockers_of(queue(stall=Stall(NOW, "head-1", "ci, lint")), POLICY, NOW) == (NOT_STARTING,)
    assert blockers_of(queue(), BROKEN, NOW) == (Blocker(Reason.MISCONFIGURED, "line 3: depht is unknown"),)
    by_hand = Blocker(Reason.FROZEN, "release", NOW + HOUR, next_poll_at=NOW + HOUR, recorded=True)
    assert blockers_of(queue(pauses=(BY_HAND,)), POLICY, NOW) == (by_hand,)


def test_next_poll_comes_when_the_first_blocker_ends_and_at_a_red_base_only_if_it_is_alone() -> None:
    """P7: what lies under a pause asks GitHub nothing; the end of a freeze under a pause is announced in time."""
    assert [next_poll_at(each) for each in ([], [HALT], [HALT, FREEZE])] == [None, None, FREEZE.until]
    assert [next_poll_at(each) for each in ([BASE_RED], [HALT, BASE_RED])] == [RED.next_poll_at, None]
    assert [waits_for_base(each) for each in ([], [BASE_RED], [FREEZE, BASE_RED])] == [False, True, False]


@pytest.mark.parametrize("status", WAITING)
def test_blocker_of_checks_that_do_not_start_lets_the_front_wait_for_them(status: EntryStatus) -> None:
    """The front finds out when a check starts; no other entry begins."""
    stands = Blocker(Reason.CHECKS_NOT_STARTING, "ci")
    assert stands.exempts(entry(status=status)) is (status in PROCESSING)


PROCESSED = [CHECKING, READY]


def test_first_try_of_blocked_entries_is_due_when_the_first_block_ends() -> None:
    """P5: IMQ lacks a permission to land them."""
    later = NOW + MINUTE
    entries = line({"blocked_until": later}, {}, {"blocked_until": later + MINUTE})
    assert [unblocked_at(entries, now) for now in (NOW, later, later + MINUTE)] == [later, later + MINUTE, None]


def test_entry_settles_while_github_was_asked_for_something() -> None:
    """An update, or a merge whose answer is not known."""
    assert [
        in_flight(stored_with) for stored_with in line({"status": PENDING}, *({"status": s} for s in PROCESSED))
    ] == [
        False,
        False,
        False,
    ]
    assert all(in_flight(entry) for entry in line({"status": UPDATING}, {"merge_requested_at": NOW}))


def test_poll_of_the_base_again_does_not_make_another_blocker_of_it() -> None:
    """IMQ does not announce each poll."""
    (later,) = blockers_of(queue(red=base_unread(RED, POLICY, NOW)), POLICY, NOW)
    before = BlockerNotices.of([BASE_RED], line({}))
    assert later != BASE_RED
    assert (before.began([later]), before.ended([later]), announced_to(before, [later], line({}))) == ((), (), [])


@pytest.mark.parametrize(
    ("before", "now", "since"),
    [
        ([], [HALT], [NOW]),
        ([HALT], [HALT], [NOW - HOUR]),
        ([HALT], [HALT, BASE_RED], [NOW - HOUR, NOW]),
        # The queue did not go on in between.
        ([HALT], [BASE_RED], [NOW - HOUR]),
        ([replace(HALT, detail="the old disk")], [HALT], [NOW - HOUR]),
    ],
)
def test_blocker_that_outlasts_another_counts_from_the_beginning_of_both(
    before: Sequence[Blocker], now: Sequence[Blocker], since: list[datetime]
) -> None:
    """What the front has no time for is counted whole."""
    after = BlockerNotices.of(before, line({}), NOW - HOUR).followed_by(now, line({}, {}), NOW)
    assert ([each.since for each in after.blockers], after.last) == (since, 2)


@pytest.mark.parametrize(
    ("blockers", "since", "front", "started"),
    [
        ([FREEZE], NOW, {"started_at": NOW - HOUR}, NOW - HOUR + 2 * HOUR),
        ([FREEZE], NOW, {"started_at": NOW + HOUR}, NOW + 2 * HOUR),
        ([FREEZE], NOW, {"started_at": None}, None),
        ([FREEZE], None, {"started_at": NOW - HOUR}, NOW + 2 * HOUR),
        ([FREEZE], NOW, {"started_at": NOW - HOUR, "freeze_exempt": True}, NOW - HOUR),
        ([BASE_RED], NOW, {"started_at": NOW - HOUR, "fixes_base": True}, NOW - HOUR),
        ([BASE_RED], NOW, {"started_at": NOW - HOUR, "freeze_exempt": True}, NOW + HOUR),
        ([FREEZE, BASE_RED], NOW, {"started_at": NOW - HOUR, "freeze_exempt": True}, NOW + HOUR),
    ],
)
def test_time_of_a_front_that_proceeds_leaves_out_the_blockers(
    blockers: Sequence[Blocker], since: datetime | None, front: dict[str, Any], started: datetime | None
) -> None:
    """The blockers' two hours do not count; time from before them does, and an exempt entry keeps all of it."""
    announced = BlockerNotices.of(blockers, (), since)
    [entry] = line(front | {"github_failures": 2, "github_failing_since": NOW})
    on = announced.resumed_entry(entry, NOW + 2 * HOUR)
    assert on.run.started_at == started
    exempt = all(blocker.exempts(entry) for blocker in blockers)
    assert (on.run.github_failures, on.run.github_failing_since) == ((2, NOW) if exempt else (0, None))
