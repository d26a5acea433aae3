"""A queue of trains for tests, and a driver that gives runs outcomes as a list of bad members says."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from queue_engine.planner.trains.model import Member, NewRun, Plan, TrainRun, Trains
from queue_engine.planner.trains.plan import plan
from queue_engine.planner.trains.transitions import ejected, run_cancelled, run_failed, run_landed, run_passed

MINUTE = 60.0
USUAL = 10 * MINUTE


def trains(members: int, slots: int = 1) -> Trains:
    """Return a queue with so many members, numbered from 1."""
    return Trains(slots, USUAL, tuple(Member(number, 0.0) for number in range(1, members + 1)))


class Driver:
    """Carries out plans, and ends runs as a test says."""

    def __init__(self, state: Trains, bad: Iterable[int] = ()) -> None:
        """Begin with a queue, some of whose members make their runs fail."""
        self.trains = state
        self.bad = set(bad)
        self.now = 0.0
        self.landed: list[int] = []
        self.ejected: list[int] = []
        self.plans: list[Plan] = []
        self.started: list[NewRun] = []
        self._next = 0

    def settle(self) -> None:
        """Plan and carry out until a plan has nothing new."""
        for _ in range(500):
            made = plan(self.trains, self.now)
            self.plans.append(made)
            if made == Plan():
                return
            self._carry_out(made)
        raise AssertionError("plans do not come to rest")

    def _carry_out(self, made: Plan) -> None:
        if made.land is not None:
            assert made.land.extends_base
            self.landed += made.land.content
            self.trains = run_landed(self.trains, made.land)
        for each in made.eject:
            member = self.trains.member(each)
            assert member is not None
            self.ejected.append(each)
            self.trains = ejected(self.trains, member)
        for number in made.cancel:
            self.trains = run_cancelled(self.trains, self.run(number))
        for new in made.start:
            self._next += 1
            self.started.append(new)
            self.trains = self.trains.with_run(TrainRun(self._next, new.content, new.tested, self.now))

    def run(self, number: int) -> TrainRun:
        """Return an active run."""
        return next(each for each in self.trains.runs if each.id == number)

    def end(self, run: TrainRun, passed: bool) -> None:
        """End a run, and plan."""
        self.now += USUAL
        self.trains = run_passed(self.trains, run, self.now) if passed else run_failed(self.trains, run)
        self.settle()

    def finish(self, choose: Callable[[int], int] = lambda count: 0) -> None:
        """End runs by the truth, one after the other, until none is active."""
        self.settle()
        while self.trains.runs:
            run = self.trains.runs[choose(len(self.trains.runs))]
            self.end(run, not self.bad & set(run.content))

    def join(self, number: int, **figures: Any) -> None:
        """Queue another member, and plan."""
        self.trains = replace(self.trains, queue=(*self.trains.queue, Member(number, self.now, **figures)))
        self.settle()
