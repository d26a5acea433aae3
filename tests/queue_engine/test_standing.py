"""Why a queue stands still, who is let through, whose turn it is, and who is yet to be told."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from queue_engine.facts import CheckReport, CheckState
from queue_engine.model import PROCESSING, Entry, EntryStatus, Pause, Queue, RedBase, Stall
from queue_engine.policy import DatedFreeze, Policy
from queue_engine.reasons import Reason
from queue_engine.standing import (
    Standstill,
    Told,
    base_looked_at,
    base_unseen,
    freeze_by_hand,
    next_in_turn,
    settles,
    standstill,
    standstills,
    to_tell,
    unblocked_at,
)
from tests.queue_engine.examples import (
    CHECKING,
    HOUR,
    MINUTE,
    NOW,
    PENDING,
    POLICY,
    READY,
    REPOSITORY,
    SECOND,
    UPDATING,
    WAITING,
    entry,
    report,
)
from tests.queue_engine.store import examples as stored

RED = RedBase("ci", "tip-1", NOW, 0, NOW + 10 * MINUTE, 10)
PAUSE = Pause(Reason.PAUSED_BY_HAND, "the disk", NOW)
BY_HAND = Pause(Reason.FROZEN, "release", NOW - HOUR, NOW + HOUR, "rhea")
WINDOW = Policy(freezes=(DatedFreeze(NOW - HOUR, NOW + 2 * HOUR, "the fair"),))
BROKEN = Policy(fault="line 3: depht is unknown")

FREEZE = Standstill(Reason.FROZEN, "the fair", NOW + 2 * HOUR, NOW + 2 * HOUR)
HALT = Standstill(Reason.PAUSED_BY_HAND, "the disk", noted=True)
BASE_RED = Standstill(Reason.BASE_RED, "ci", look_at=RED.look_at)
NOT_STARTING = Standstill(Reason.CHECKS_NOT_STARTING, "ci, lint")


def queue(**changes: Any) -> Queue:
    return replace(Queue(1, REPOSITORY, "main", None, None, 0), **changes)


def line(*changes: dict[str, Any]) -> list[Entry]:
    """A queue of entries 1, 2, 3, ... in order, with these changes."""
    return [replace(stored.entry(n), position=n - 1, **each) for n, each in enumerate(changes, 1)]


@pytest.mark.parametrize(
    ("stands", "policy", "expected"),
    [
        ({}, POLICY, []),
        ({"paused": PAUSE}, POLICY, [Reason.PAUSED_BY_HAND]),
        ({"paused": BY_HAND}, POLICY, [Reason.FROZEN]),
        ({"paused": replace(BY_HAND, until=NOW)}, POLICY, []),
        ({"paused": replace(PAUSE, until=NOW), "beneath": BY_HAND}, POLICY, [Reason.FROZEN]),
        ({"paused": PAUSE, "beneath": BY_HAND}, POLICY, [Reason.PAUSED_BY_HAND, Reason.FROZEN]),
        ({"red": RED}, POLICY, [Reason.BASE_RED]),
        # Nobody knows yet whether that base is red; what holds the queue is the pause for the mismatch.
        ({"red": replace(RED, untested=True)}, POLICY, []),
        ({"stall": Stall(NOW, "head-1", "ci")}, POLICY, [Reason.CHECKS_NOT_STARTING]),
        ({}, WINDOW, [Reason.FROZEN]),
        ({}, BROKEN, [Reason.MISCONFIGURED]),
        (
            {"paused": PAUSE, "red": RED},
            replace(WINDOW, fault="line 1"),
            [Reason.PAUSED_BY_HAND, Reason.MISCONFIGURED, Reason.FROZEN, Reason.BASE_RED],
        ),
    ],
)
def test_standstills_of_a_queue_are_all_that_hold_it_most_important_first(
    stands: dict[str, Any], policy: Policy, expected: list[Reason]
) -> None:
    """People are told the first; a pause that has ended, and a freeze that is over, hold nobody."""
    found = standstills(queue(**stands), policy, NOW)
    assert [each.reason for each in found] == expected
    assert standstill(queue(**stands), policy, NOW) == (found[0] if found else None)


def test_standstill_tells_until_when_only_if_that_is_known() -> None:
    """A red base is looked at again without anybody knowing when it ends."""
    assert standstill(queue(), WINDOW, NOW) == FREEZE
    assert standstill(queue(), WINDOW, NOW + 2 * HOUR) is None
    assert standstill(queue(paused=PAUSE), POLICY, NOW) == HALT
    assert standstill(queue(red=RED), POLICY, NOW) == BASE_RED
    assert standstill(queue(stall=Stall(NOW, "head-1", "ci, lint")), POLICY, NOW) == NOT_STARTING
    assert standstill(queue(), BROKEN, NOW) == Standstill(Reason.MISCONFIGURED, "line 3: depht is unknown")
    expected = Standstill(Reason.FROZEN, "release", NOW + HOUR, look_at=NOW + HOUR, noted=True)
    assert standstill(queue(paused=BY_HAND), POLICY, NOW) == expected


@pytest.mark.parametrize(
    ("stands", "freeze"),
    [
        ({}, None),
        ({"paused": PAUSE}, None),
        ({"paused": BY_HAND}, BY_HAND),
        ({"paused": PAUSE, "beneath": BY_HAND}, BY_HAND),
        ({"paused": PAUSE, "beneath": replace(BY_HAND, until=NOW)}, None),
        (
            {"paused": replace(BY_HAND, until=NOW), "beneath": replace(BY_HAND, until=None)},
            replace(BY_HAND, until=None),
        ),
    ],
)
def test_freeze_by_hand_holds_until_its_end_also_under_a_pause(stands: dict[str, Any], freeze: Pause | None) -> None:
    """What lifts the pause alone leaves it."""
    assert freeze_by_hand(queue(**stands), NOW) == freeze


@pytest.mark.parametrize("status", WAITING)
def test_standstill_of_checks_that_do_not_start_lets_the_front_wait_for_them(status: EntryStatus) -> None:
    """It finds out when one starts; nobody else begins."""
    stands = Standstill(Reason.CHECKS_NOT_STARTING, "ci")
    assert stands.lets(entry(status=status)) is (status in PROCESSING)


PROCESSED = [CHECKING, READY]
HOTFIX = {"first": True, "interrupts": True}


@pytest.mark.parametrize(
    ("halts", "entries", "number"),
    [
        # Nothing in the way: the front, whoever it is.
        ([], [{}, {}], 1),
        ([], [{"status": CHECKING}, {}], 1),
        # A hotfix interrupts what is checked or ready, not what has to settle, and no other hotfix.
        ([], [{"status": CHECKING}, HOTFIX], 2),
        ([], [{"status": READY}, {}, HOTFIX], 3),
        ([], [{"status": UPDATING}, HOTFIX], 1),
        ([], [{"status": READY, "merge_requested_at": NOW}, HOTFIX], 1),
        ([], [{"status": CHECKING, "first": True}, HOTFIX], 1),
        ([], [{"status": CHECKING}, {"first": True}], 1),
        ([], [{"status": CHECKING}, {"interrupts": True}], 1),
        # A freeze: the exempt go, whoever has begun; else nobody.
        ([FREEZE], [{}, {}], None),
        ([FREEZE], [{"status": CHECKING}, {}], None),
        ([FREEZE], [{"status": CHECKING}, {"freeze_exempt": True}], 2),
        ([FREEZE], [{"status": CHECKING, "freeze_exempt": True}, {"freeze_exempt": True}], 1),
        ([FREEZE], [{"status": CHECKING, "freeze_exempt": True}, HOTFIX], 1),
        ([FREEZE], [{"status": CHECKING, "freeze_exempt": True}, {**HOTFIX, "freeze_exempt": True}], 2),
        ([FREEZE], [{}, {"fixes_base": True}, {"freeze_exempt": True}], 3),
        # What is under way settles first, even then.
        ([FREEZE], [{"status": UPDATING}, {"freeze_exempt": True}], 1),
        ([HALT], [{"status": READY, "merge_requested_at": NOW}], 1),
        # A red base lets its fix through, and in a freeze only one that is exempt.
        ([BASE_RED], [{"status": CHECKING}, {"fixes_base": True}], 2),
        ([BASE_RED], [{}, {"freeze_exempt": True}], None),
        ([FREEZE, BASE_RED], [{}, {"fixes_base": True}], None),
        ([FREEZE, BASE_RED], [{}, {"fixes_base": True, "freeze_exempt": True}], 2),
        # A pause and broken rules let nobody through.
        ([HALT], [{"freeze_exempt": True, "fixes_base": True, **HOTFIX}], None),
        ([Standstill(Reason.MISCONFIGURED, "line 1")], [{"freeze_exempt": True, "fixes_base": True}], None),
    ],
)
def test_turn_is_of_the_first_that_may_go_on(
    halts: Sequence[Standstill], entries: list[dict[str, Any]], number: int | None
) -> None:
    """Who has begun keeps the turn, but against a hotfix, or where it may not go on and somebody else may."""
    chosen = next_in_turn(line(*entries), halts, NOW)
    assert (None if chosen is None else chosen.number) == number


def test_turn_is_not_of_an_entry_that_is_blocked() -> None:
    """P5: IMQ lacks a permission to land it; the next goes on, and it is tried again when its time has come."""
    later = NOW + MINUTE
    entries = line({"blocked_until": later}, {}, {"blocked_until": later + MINUTE})
    chosen = [next_in_turn(entries, [], now) for now in (NOW, later)]
    assert [one and one.number for one in chosen] == [2, 1]
    assert [unblocked_at(entries, now) for now in (NOW, later, later + MINUTE)] == [later, later + MINUTE, None]
    assert next_in_turn(entries[:1], [], NOW) is None


def test_entry_settles_while_github_was_asked_for_something() -> None:
    """An update, or a merge whose answer is not known."""
    assert [settles(stored_with) for stored_with in line({"status": PENDING}, *({"status": s} for s in PROCESSED))] == [
        False,
        False,
        False,
    ]
    assert all(settles(entry) for entry in line({"status": UPDATING}, {"merge_requested_at": NOW}))


def test_told_is_remembered_as_it_was_written() -> None:
    """It stands in the database as text."""
    told = Told.of(FREEZE, line({}, {}))
    assert Told.read(told.written()) == told
    assert (told.last, Told.read(None)) == (2, None)


@pytest.mark.parametrize(
    ("before", "numbers"),
    [
        (None, [1, 2, 3]),
        (Told.of(FREEZE, line({}, {})), [3]),
        (Told.of(FREEZE, line({}, {}, {}, {})), []),
        (Told.of(replace(FREEZE, until=NOW), line({}, {}, {}, {})), [1, 2, 3]),
        (Told.of(replace(FREEZE, detail="another"), line({}, {}, {}, {})), [1, 2, 3]),
        (Told.of(HALT, line({}, {}, {}, {})), [1, 2, 3]),
    ],
)
def test_those_to_tell_are_who_joined_since_or_everybody_when_it_is_another_standstill(
    before: Told | None, numbers: list[int]
) -> None:
    """Each is told of each standstill once."""
    assert [entry.number for entry in to_tell(before, FREEZE, line({}, {}, {}))] == numbers


def test_who_is_let_through_is_told_of_nothing() -> None:
    """It does not wait."""
    assert [entry.number for entry in to_tell(None, FREEZE, line({"freeze_exempt": True}, {}))] == [2]
    assert [entry.number for entry in to_tell(None, BASE_RED, line({"fixes_base": True}, {}))] == [2]
    assert [entry.number for entry in to_tell(None, NOT_STARTING, line({"status": CHECKING}, {}))] == [1, 2], "it waits"


def test_look_at_the_base_again_does_not_make_another_standstill_of_it() -> None:
    """Nobody is told each time that it was looked at."""
    later = standstill(queue(red=base_unseen(RED, POLICY, NOW)), POLICY, NOW)
    assert later is not None
    some, others = Told.of(later, line({}), "earlier"), Told.of(BASE_RED, line({}, {}), "later")
    assert some.same(others)
    assert others.same(some)
    assert Told.of(BASE_RED, ()).last == 0, "the next to join is to be told"


@pytest.mark.parametrize(
    ("reason", "since", "front", "started"),
    [
        (FREEZE, NOW, {"started_at": NOW - HOUR}, NOW - HOUR + 2 * HOUR),
        (FREEZE, NOW, {"started_at": NOW + HOUR}, NOW + 2 * HOUR),
        (FREEZE, NOW, {"started_at": None}, None),
        (FREEZE, None, {"started_at": NOW - HOUR}, NOW + 2 * HOUR),
        (FREEZE, NOW, {"started_at": NOW - HOUR, "freeze_exempt": True}, NOW - HOUR),
        (BASE_RED, NOW, {"started_at": NOW - HOUR, "fixes_base": True}, NOW - HOUR),
        (BASE_RED, NOW, {"started_at": NOW - HOUR, "freeze_exempt": True}, NOW + HOUR),
    ],
)
def test_front_that_goes_on_had_its_time_but_for_the_standstill(
    reason: Standstill, since: datetime | None, front: dict[str, Any], started: datetime | None
) -> None:
    """Two hours of standstill are not held against it; what it had before is, and who was let through had them, too."""
    told = Told.of(reason, (), None if since is None else since.isoformat())
    [entry] = line(front | {"trouble": 2, "trouble_since": NOW})
    on = told.gone_on(entry, NOW + 2 * HOUR)
    assert on.started_at == started
    assert (on.trouble, on.trouble_since) == ((2, NOW) if reason.lets(entry) else (0, None))


FAILED, PASSED, RUNNING = (report("ci", state) for state in (CheckState.FAILED, CheckState.PASSED, CheckState.PENDING))
OTHER = report("lint", CheckState.FAILED)
NAMESAKE_FAILED = report("ci", CheckState.FAILED, app_id=11)
NAMESAKE_PASSED = report("ci", app_id=11)
ANYBODYS = report("ci", CheckState.FAILED, app_id=None)


@pytest.mark.parametrize("tip", ["tip-1", "tip-2"])
@pytest.mark.parametrize(
    ("reports", "red"),
    [
        ([FAILED], True),
        ([RUNNING], True),
        ([PASSED, FAILED], True),
        ([PASSED], False),
        ([PASSED, OTHER], False),
        ([PASSED, NAMESAKE_FAILED], False),
        ([PASSED, ANYBODYS], False),
        ([FAILED, NAMESAKE_PASSED], True),
    ],
)
def test_base_that_was_looked_at_is_red_until_the_check_passes(reports: list[CheckReport], red: bool, tip: str) -> None:
    """Other checks that fail there have held up nobody, nor has another App's of its name; a run and a status of one
    App and name have both to pass."""
    known = base_looked_at(RED, tip, reports, POLICY, NOW)
    assert (known is not None) == red
    if known is not None:
        assert (known.check, known.tip, known.since, known.looks) == ("ci", tip, NOW, 1)
        assert known.look_at == NOW + POLICY.check_look.base


def test_base_that_moved_and_on_which_nothing_reports_is_not_held_to_be_red_for_long() -> None:
    """Where checks run on pull requests only, nothing ever says that it is green."""
    waits = base_looked_at(RED, "tip-2", [OTHER], POLICY, NOW)
    assert waits == replace(RED, tip="tip-2", looks=1, look_at=NOW + POLICY.first_report)
    assert waits is not None
    assert base_looked_at(waits, "tip-2", [], POLICY, waits.look_at) is None
    assert base_looked_at(waits, "tip-3", [], POLICY, waits.look_at) is not None


def test_base_is_looked_at_ever_less_often() -> None:
    """A day of a red base costs few requests (P7)."""
    red, now, looks = RED, NOW, 0
    while now < NOW + timedelta(days=1):
        after = base_looked_at(red, "tip-1", [FAILED], POLICY, now)
        assert after is not None
        assert after.look_at >= now + 10 * MINUTE - SECOND
        red, now, looks = after, after.look_at, looks + 1
    assert looks <= 9
