"""Which queues are idle: a pass would find their wait alone. `executor/test_front.py` has the steps of a pass."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_engine.config.model import Policy
from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.model import PROCESSING, Entry, Pause, Queue, QueueFront, RedBase, Stall
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import NOT_BEGUN
from queue_engine.planner.queue_plan import (
    Members,
    QueueChange,
    QueueWait,
    front_decides,
    next_front,
    next_members,
    wait_of,
)
from queue_engine.rules.blockers import blockers_of
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
    entry,
    rules,
)
from tests.unit.queue_engine.queues import WINDOW, front_of
from tests.unit.queue_engine.rules.blocker_examples import BASE_RED, FREEZE, HALT, NOT_STARTING, line

QUEUE = Queue(1, REPOSITORY, "main", due_at=NOW, wake_count=1)
LATER = NOW + MINUTE
CHECKED = replace(POLICY, checks=replace(POLICY.checks, timeout=HOUR))


def front(**changes: Any) -> Entry:
    """A front whose checks passed, and that tries its merge again later."""
    merging = entry(status=READY, id="1", base_tip="base-1", next_poll_at=LATER, **changes)
    return replace(merging, run=replace(merging.run, id=1))


def behind(position: int = 1, **changes: Any) -> Entry:
    """An entry behind the front."""
    return replace(entry(**changes), id=f"{position + 1}", number=position + 1, seq=position + 1, position=position)


def checking(**changes: Any) -> Entry:
    """A front whose checks have to report."""
    values = {"base_tip": "base-1", "polls": 1, "pending_checks": ("ci",), "next_poll_at": LATER, **changes}
    tested = entry(status=CHECKING, **values)
    return replace(tested, run=replace(tested.run, id=1))


def wait(*entries: Entry, queue: Queue = QUEUE, policy: Policy = POLICY, now: datetime = NOW) -> QueueWait | None:
    return wait_of(queue, entries, policy, rules("ci"), now)


def announced(queue: Queue, *entries: Entry, policy: Policy = POLICY) -> Queue:
    """The queue, after its blockers were announced to these entries."""
    notices = BlockerNotices.of(blockers_of(queue, policy, NOW), entries)
    return replace(queue, announced=notices.to_json())


@pytest.mark.parametrize("entries", [(front(),), (front(), behind()), (checking(),)])
def test_queue_whose_front_waits_is_idle_until_then(entries: tuple[Entry, ...]) -> None:
    """P7: nothing is to be read or stored before."""
    assert wait(*entries, policy=CHECKED) == QueueWait(LATER)


def test_queue_without_an_entry_is_idle_until_it_is_woken() -> None:
    """An enqueue wakes the queue."""
    assert wait() == QueueWait(None)


def test_queue_of_which_the_rules_are_not_cached_is_not_idle_while_its_front_is_checked() -> None:
    """P1: the rules say which checks count."""
    assert wait_of(QUEUE, (checking(),), CHECKED, None, NOW) is None
    assert wait_of(QUEUE, (front(),), CHECKED, None, NOW) == QueueWait(LATER), "a merge is tried again at its time"


@pytest.mark.parametrize(
    "changes",
    [
        {"next_poll_at": NOW},
        {"polls": 0, "next_poll_at": None, "status_since": NOW - 2 * HOUR},
        {"needs_refetch": True},
        {"newer_tip": "base-2"},
        {"github_failures": 1, "github_failing_since": NOW},
        {"github_failing_since": NOW},
        {"pending_checks": ()},
    ],
    ids=str,
)
def test_queue_whose_checked_front_has_changed_is_not_idle(changes: dict[str, Any]) -> None:
    """P2: a report, a lost webhook, lost consent, a newer base: its pass reads or stores that."""
    assert wait(checking(**changes), policy=CHECKED) is None


@pytest.mark.parametrize(
    "first",
    [
        entry(status=PENDING),
        entry(status=UPDATING, new_head="head-2"),
        replace(front(), run=replace(front().run, merge_requested_at=NOW)),
        replace(front(), run=NOT_BEGUN),
    ],
    ids=["not begun", "updated", "merge requested", "no run"],
)
def test_queue_whose_front_may_proceed_is_not_idle(first: Entry) -> None:
    """P2: whether GitHub answered a merge request, say, is known to a pass alone."""
    assert wait(first) is None


PAUSED = replace(QUEUE, pauses=(Pause(Reason.PAUSED_BY_HAND, "why", NOW - HOUR),))
RED = replace(QUEUE, red=RedBase("ci", "base-1", NOW - HOUR, 1, LATER))


@pytest.mark.parametrize(
    ("queue", "policy"),
    [
        (replace(QUEUE, errors=1), POLICY),
        (PAUSED, POLICY),
        (replace(QUEUE, pauses=(Pause(Reason.FROZEN, "why", NOW - HOUR, NOW),)), POLICY),
        (replace(announced(PAUSED, front()), pauses=()), POLICY),
        (announced(PAUSED, front()), POLICY),
        (RED, POLICY),
        (replace(QUEUE, red=RedBase("ci", "base-1", NOW - HOUR, 1, NOW, untested=True)), POLICY),
        (replace(QUEUE, stall=Stall(NOW - HOUR, "head-1", "ci")), POLICY),
        (QUEUE, WINDOW),
        (QUEUE, replace(POLICY, fault="line 1: broken")),
        (QUEUE, replace(POLICY, depth=1)),
    ],
    ids=[
        *("counted error", "paused", "pause over", "pause lifted", "joined while paused", "red base", "untested tip"),
        *("checks started", "freeze", "broken configuration", "lower limit"),
    ],
)
def test_queue_with_something_to_announce_is_not_idle(queue: Queue, policy: Policy) -> None:
    """P6: a pause, a freeze, a red base, another limit: each begins and ends with a notice, also for a front."""
    assert wait(front(), behind(), policy=policy, queue=queue) is None


@pytest.mark.parametrize(
    ("queue", "until"),
    [(PAUSED, None), (RED, LATER), (replace(QUEUE, stall=Stall(NOW, "head-1", "ci")), LATER)],
    ids=["paused", "red base", "checks not starting"],
)
def test_blocked_queue_is_idle_once_all_is_announced(queue: Queue, until: datetime | None) -> None:
    """P7: a blocker costs nothing but the polls of a red base."""
    entries = (checking(started_checks=()), behind())
    assert wait(*entries, queue=announced(queue, *entries), policy=CHECKED) == QueueWait(until)


def test_queue_whose_red_base_or_held_entry_is_due_is_not_idle() -> None:
    """P5: each wait has its limit, and ends with a notice."""
    entries = (front(), behind())
    assert wait(*entries, queue=announced(RED, *entries), now=LATER) is None
    held = (front(), behind(held_since=NOW))
    one = replace(POLICY, depth=1, timeouts=replace(POLICY.timeouts, hold=MINUTE / 2))
    assert wait(*held, policy=one) == QueueWait(NOW + MINUTE / 2), "before the front's own poll"
    assert wait(*held, policy=one, now=NOW + MINUTE / 2) is None


def test_queue_in_which_nothing_may_proceed_is_idle_until_the_first_instant_that_changes_that() -> None:
    """P5: the time limit of a held entry also counts behind a broken invariant, and an untested tip is polled."""
    entries = (front(), behind(held_since=NOW))
    one = replace(POLICY, depth=1, timeouts=replace(POLICY.timeouts, hold=MINUTE / 2))
    broken = replace(QUEUE, pauses=(Pause(Reason.INVARIANT_BROKEN, "why", NOW - HOUR),))
    untested = replace(QUEUE, red=RedBase("", "base-1", NOW - HOUR, 1, LATER, untested=True))
    assert wait(*entries, queue=announced(broken, *entries[:1]), policy=one) == QueueWait(NOW + MINUTE / 2)
    assert wait(queue=announced(untested)) == QueueWait(LATER)
    blocked = front(blocked_until=NOW + HOUR)
    assert wait(blocked, queue=untested) == QueueWait(LATER)
    assert wait(blocked) == QueueWait(NOW + HOUR)
    assert wait(blocked, *entries[1:], policy=one) == QueueWait(NOW + MINUTE / 2)


def test_queue_with_a_hotfix_that_preempts_the_front_is_not_idle() -> None:
    """The pass preempts the front."""
    assert wait(front(), behind(hotfix=True, preempts=True)) is None


def test_queue_with_a_broken_invariant_is_not_idle() -> None:
    """P3: its pass pauses it, with an alert."""
    assert wait(front(), behind(status=READY)) is None


QUEUES = st.sampled_from(
    [
        QUEUE,
        replace(QUEUE, pauses=(Pause(Reason.PAUSED_BY_HAND, "", NOW),)),
        replace(QUEUE, pauses=(Pause(Reason.FROZEN, "", NOW, NOW),)),
        replace(QUEUE, red=RedBase("ci", "tip", NOW, 0, NOW)),
        replace(QUEUE, stall=Stall(NOW, "head", "ci", None)),
        replace(QUEUE, errors=1),
        announced(replace(QUEUE, red=RedBase("ci", "tip", NOW, 0, LATER)), front()),
    ]
)
FRONTS = st.sampled_from(
    [
        front(),
        checking(),
        entry(),
        entry(status=UPDATING),
        front(hotfix=True),
        front(held_since=NOW - HOUR),
        front(blocked_since=NOW, blocked_until=LATER),
        front(needs_refetch=True),
    ]
)
POLICIES = st.sampled_from([CHECKED, replace(CHECKED, depth=2), replace(CHECKED, fault="a: [")])


@given(QUEUES, FRONTS, POLICIES, st.integers(0, 4), st.sampled_from([NOW, LATER]))
@settings(deadline=None)
def test_front_decides_only_where_entries_that_wait_behind_it_change_nothing(
    queue: Queue, first: Entry, policy: Policy, others: int, now: datetime
) -> None:
    """P3: a batch that reads fronts alone finds the wait that a pass would find."""
    entries = (first, *(behind(number + 1) for number in range(others)))
    if front_decides(queue, QueueFront(first, len(entries), others_wait=True), policy, now):
        alone = wait_of(queue, (first,), policy, rules("ci"), now)
        assert alone == wait_of(queue, entries, policy, rules("ci"), now)
    assert not front_decides(queue, QueueFront(first, len(entries), others_wait=False), policy, now)


def test_queue_in_which_the_run_of_an_agent_may_yield_is_not_idle() -> None:
    """How long a usual run takes is stored elsewhere; none yields to one that lands after it, or that is blocked."""
    arrived = round(NOW.timestamp() * 1000)
    agent = checking(author="x[bot]", rank=arrived + 9, share_delay=9)
    assert wait(agent, behind(rank=arrived + 10), policy=CHECKED) == QueueWait(LATER)
    assert wait(agent, behind(rank=8), policy=CHECKED) is None
    assert not front_decides(QUEUE, QueueFront(agent, 2, others_wait=True), CHECKED, NOW)
    assert front_decides(QUEUE, QueueFront(agent, 1, others_wait=True), CHECKED, NOW)
    for waits in ({"depends_on": (f"#{agent.number}",)}, {"blocked_until": LATER}):
        assert wait(agent, behind(rank=8, **waits), policy=CHECKED) is not None, waits


HOTFIX = {"hotfix": True, "preempts": True}


def test_front_is_the_first_entry_that_may_proceed() -> None:
    """An entry that has begun stays the front, unless a hotfix preempts it, or it may not proceed and another may."""
    cases: list[tuple[list[Blocker], list[dict[str, Any]], int | None]] = [
        # Nothing in the way: the front, any entry.
        ([], [{}, {}], 1),
        ([], [{"status": CHECKING}, {}], 1),
        # A hotfix interrupts what is checked or ready, not what has to settle, and no other hotfix.
        ([], [{"status": CHECKING}, HOTFIX], 2),
        ([], [{"status": READY}, {}, HOTFIX], 3),
        ([], [{"status": UPDATING}, HOTFIX], 1),
        ([], [{"status": READY, "merge_requested_at": NOW}, HOTFIX], 1),
        ([], [{"status": CHECKING, "hotfix": True}, HOTFIX], 1),
        ([], [{"status": CHECKING}, {"hotfix": True}], 1),
        ([], [{"status": CHECKING}, {"preempts": True}], 1),
        # A freeze: exempt entries proceed, even if another entry has begun; else none.
        ([FREEZE], [{}, {}], None),
        ([FREEZE], [{"status": CHECKING}, {}], None),
        ([FREEZE], [{"status": CHECKING}, {"freeze_exempt": True}], 2),
        ([FREEZE], [{"status": CHECKING, "freeze_exempt": True}, {"freeze_exempt": True}], 1),
        ([FREEZE], [{"status": CHECKING, "freeze_exempt": True}, HOTFIX], 1),
        ([FREEZE], [{"status": CHECKING, "freeze_exempt": True}, {**HOTFIX, "freeze_exempt": True}], 2),
        ([FREEZE], [{}, {"fixes_base": True}, {"freeze_exempt": True}], 3),
        (
            [FREEZE],
            [{"status": CHECKING}, {"freeze_exempt": True, "hotfix": True}, {"freeze_exempt": True, **HOTFIX}],
            2,
        ),
        # What is under way settles first, even then.
        ([FREEZE], [{"status": UPDATING}, {"freeze_exempt": True}], 1),
        ([HALT], [{"status": READY, "merge_requested_at": NOW}], 1),
        # A red base lets its fix through, and in a freeze only one that is exempt.
        ([BASE_RED], [{"status": CHECKING}, {"fixes_base": True}], 2),
        ([BASE_RED], [{}, {"freeze_exempt": True}], None),
        ([FREEZE, BASE_RED], [{}, {"fixes_base": True}], None),
        ([FREEZE, BASE_RED], [{}, {"fixes_base": True, "freeze_exempt": True}], 2),
        # A pause and broken rules exempt no entry.
        ([HALT], [{"freeze_exempt": True, "fixes_base": True, **HOTFIX}], None),
        ([Blocker(Reason.MISCONFIGURED, "line 1")], [{"freeze_exempt": True, "fixes_base": True}], None),
    ]
    for halts, entries, number in cases:
        assert front_of(line(*entries), halts) == number, (halts, entries, number)


def test_front_is_not_an_entry_that_is_blocked() -> None:
    """P5: IMQ lacks a permission to land it; the next entry proceeds, and IMQ tries it again when its time has come."""
    later = NOW + MINUTE
    entries = line({"blocked_until": later}, {}, {"blocked_until": later + MINUTE})
    assert [front_of(entries, [], now) for now in (NOW, later)] == [2, 1]
    assert front_of(entries[:1], []) is None


def expected(entries: Sequence[Entry], blockers: Sequence[Blocker]) -> tuple[int | None, bool]:
    """The number of the entry to work on by the rules alone, and whether it preempts the front."""
    front = entries[0]
    if front.status is UPDATING or front.run.merge_requested_at is not None:
        return front.number, False
    may = [each for each in entries if not (each.blocked_until or NOW) > NOW and all(b.exempts(each) for b in blockers)]
    stays = front in may and front.status in PROCESSING
    urgent = [each for each in may if each.hotfix and each.preempts]
    if stays and (front.hotfix or not urgent):
        return front.number, False
    chosen = next(iter(urgent if stays else may), None)
    return (None, False) if chosen is None else (chosen.number, front.status in PROCESSING)


MARKS = st.fixed_dictionaries(
    {name: st.booleans() for name in ("hotfix", "preempts", "fixes_base", "freeze_exempt")}
    | {"rank": st.integers(0, 1), "blocked_until": st.sampled_from((None, LATER))}
)
BEGUN = st.sampled_from(
    (*({"status": each} for each in (PENDING, UPDATING, CHECKING, READY)), {"status": READY, "merge_requested_at": NOW})
)


@settings(max_examples=150, deadline=None)
@given(st.lists(MARKS, min_size=1, max_size=4), BEGUN, st.sets(st.sampled_from((FREEZE, BASE_RED, HALT, NOT_STARTING))))
def test_queue_of_runs_of_one_member_is_worked_off_in_its_order(
    marks: list[dict[str, Any]], begun: dict[str, Any], halts: set[Blocker]
) -> None:
    """P3: the plan of size one: in order, hotfixes first, none twice; what began stays, but for an urgent hotfix."""
    ordered = sorted(marks[1:], key=lambda each: (not each["hotfix"], each["rank"]))
    entries = line({**marks[0], **begun}, *ordered)
    if begun["status"] is PENDING:
        entries = line(*sorted(marks, key=lambda each: (not each["hotfix"], each["rank"])))
    found = next_front(Members(tuple(entries), tuple(halts), None), NOW)
    preempts = isinstance(found, QueueChange)
    assert (front_of(entries, [*halts]), preempts) == expected(entries, [*halts])
    if isinstance(found, QueueChange):
        assert found.entries[0] == entries[0]


@pytest.mark.parametrize("fails", ["entry", "run", None])
def test_pause_for_refused_requests_ends_once_none_of_the_queue_fails(fails: str | None) -> None:
    """P6: a run of several members may still be refused while none of its members fails by itself."""
    refused = Pause(Reason.GITHUB_REFUSES, "why", NOW - HOUR)
    queue = announced(replace(QUEUE, pauses=(refused,)), front())
    members = [front(github_failing_since=NOW if fails == "entry" else None)]
    run = replace(NOT_BEGUN, id=2, github_failing_since=NOW if fails == "run" else None)
    found = next_members(queue, tuple(members), [run], POLICY, NOW)
    assert (isinstance(found, QueueChange) and found.pause == refused) is (fails is None)
