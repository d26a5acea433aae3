"""Transitions of entries: which are allowed, and what a queue never shows."""

from dataclasses import replace

import pytest

from queue_engine.domain.errors import InvariantError, TransitionError
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.run import CandidateTrigger, Run, RunMember, RunState
from queue_engine.executor.run_store import member_of
from queue_engine.rules.transitions import check_queue, check_transition
from tests.store.examples import NOW, SOON, changed, entry
from tests.unit.queue_engine.examples import HOUR

ALLOWED = {
    ("pending", "updating"),
    ("pending", "checking"),
    ("updating", "pending"),
    ("updating", "checking"),
    ("checking", "pending"),
    ("checking", "updating"),
    ("checking", "ready"),
    ("ready", "pending"),
    ("ready", "updating"),
    ("ready", "checking"),
    ("ready", "landed"),
} | {(waiting, left) for waiting in ("pending", "updating", "checking", "ready") for left in ("failed", "cancelled")}


def test_transition_of_every_pair_is_allowed_or_refused_as_designed() -> None:
    """Only the transitions of the design exist; staying as one is, is none."""
    for old in EntryStatus:
        for new in EntryStatus:
            if old is new or (old.value, new.value) in ALLOWED:
                check_transition(old, new)
            else:
                with pytest.raises(TransitionError, match=f"{old} does not lead to {new}"):
                    check_transition(old, new)


@pytest.mark.parametrize(
    ("state", "alone", "in_train"),
    [
        (None, EntryStatus.PENDING, EntryStatus.PENDING),
        (RunState.BUILDING, EntryStatus.UPDATING, EntryStatus.CHECKING),
        (RunState.TESTING, EntryStatus.CHECKING, EntryStatus.CHECKING),
        (RunState.PASSED, EntryStatus.READY, EntryStatus.READY),
        (RunState.LANDING, EntryStatus.READY, EntryStatus.READY),
        (RunState.ENDED, EntryStatus.PENDING, EntryStatus.PENDING),
    ],
)
def test_status_follows_from_the_run(state: RunState | None, alone: EntryStatus, in_train: EntryStatus) -> None:
    """Nothing else says how far an entry is."""
    assert replace(entry(), run=Run(state=state)).status is alone
    assert replace(entry(), run=Run(state=state, trigger=CandidateTrigger.PUSH)).status is in_train


def test_member_gets_the_status_of_its_run_one_step_at_a_time_with_new_counters() -> None:
    """Whatever state its run has when it joins: the timeline has each status, and since when."""
    waiting = changed(entry(), polls=3, github_failures=2, merge_refusals=1)
    member = RunMember(waiting.number, waiting.id, waiting.head_sha)
    run = Run(id=7, queue_id=1, state=RunState.PASSED, trigger=CandidateTrigger.PUSH, members=(member,))
    later = NOW + SOON
    first = member_of(waiting, (run,), later)
    assert first is not None
    assert (first.status, first.status_since, first.run.polls) == (EntryStatus.CHECKING, later, 0)
    assert (first.run.github_failures, first.run.merge_refusals) == (0, 1)
    second = member_of(first, (run,), later + SOON)
    assert second is not None
    assert (second.status, second.status_since, second.run.id) == (EntryStatus.READY, later + SOON, 7)
    assert member_of(second, (run,), later + HOUR) == second


def standing(*statuses: EntryStatus) -> list[Entry]:
    """A sound queue whose entries have these statuses, each with a run of its own."""
    return [
        changed(entry(100 + position), position=position, status=status, run=Run(id=1 + position))
        for position, status in enumerate(statuses)
    ]


PENDING = EntryStatus.PENDING


@pytest.mark.parametrize("front", [PENDING, EntryStatus.UPDATING, EntryStatus.CHECKING, EntryStatus.READY])
def test_queue_that_is_sound_passes(front: EntryStatus) -> None:
    """An empty queue, and one whose front is in any waiting status."""
    check_queue([])
    check_queue(standing(front, PENDING, PENDING))


@pytest.mark.parametrize("position", [0, 2, 3, -1])
def test_queue_with_wrong_position_is_broken(position: int) -> None:
    """Positions are 0..n-1 in order."""
    first, second, third = standing(PENDING, PENDING, PENDING)
    with pytest.raises(InvariantError, match="101 is at position"):
        check_queue([first, replace(second, position=position), third])


def test_queue_with_one_pull_request_twice_is_broken() -> None:
    """A pull request is queued at most once."""
    first, second = standing(PENDING, PENDING)
    with pytest.raises(InvariantError, match="more than once"):
        check_queue([first, replace(second, number=first.number)])


@pytest.mark.parametrize("status", [EntryStatus.UPDATING, EntryStatus.CHECKING, EntryStatus.READY])
def test_queue_processing_behind_the_front_is_broken(status: EntryStatus) -> None:
    """Only members of the active run are processed: an entry with a run of its own, or with none, breaks the queue."""
    for broken in (standing(PENDING, status), standing(EntryStatus.CHECKING, status)):
        with pytest.raises(InvariantError, match=f"101 is {status} at position 1"):
            check_queue(broken)
    with pytest.raises(InvariantError, match=f"100 is {status} at position 0"):
        check_queue([replace(each, run=replace(each.run, id=None)) for each in standing(status)])


def test_queue_processing_several_members_of_one_run_passes() -> None:
    """A run may have several members; who waits behind them has none."""
    first, second, third = standing(EntryStatus.CHECKING, EntryStatus.CHECKING, PENDING)
    check_queue([first, replace(second, run=first.run), third])


def test_queue_with_entries_of_another_is_broken() -> None:
    """A queue is one base branch."""
    first, second = standing(PENDING, PENDING)
    with pytest.raises(InvariantError, match="several queues"):
        check_queue([first, replace(second, queue_id=2)])
