"""The policies that a replay compares: IMQ's, and other merge queues, re-implemented from their documented rules."""

from dataclasses import dataclass, replace

from bot.cli.replay.simulation import Action, Cancel, Eject, Land, Start, Wait
from queue_engine.domain.policy import MOST_MEMBERS
from queue_engine.planner.trains.model import Member, NewRun, TrainRun, Trains
from queue_engine.planner.trains.plan import incomplete, plan
from queue_engine.planner.trains.transitions import ejected, run_cancelled, run_failed, run_landed, run_passed

_DURATIONS_KEPT = 20


class TrainPolicy:
    """IMQ's policy."""

    def __init__(
        self,
        slots: int,
        minutes: float,
        *,
        learns: bool = False,
        most: int = MOST_MEMBERS,
        fill_minutes: float | None = None,
    ) -> None:
        """Begin with an empty queue whose runs usually take so many minutes; `learns`: until some have ended.

        `most` and `fill_minutes` are the configuration's `trains.max_size` and `trains.fill_wait`.
        """
        self.trains = Trains(slots, minutes, most=most, fills=fill_minutes is not None)
        self._learns = learns
        self._fill_minutes = fill_minutes
        self._durations: list[float] = []
        self._due: list[Action | NewRun] = []
        self._yielding: tuple[int, ...] = ()
        self._starting: NewRun | None = None

    def arrived(self, pull: int, now: float) -> None:
        """Queue it last."""
        self.trains = replace(self.trains, queue=(*self.trains.queue, Member(pull, now)))
        if self._fill_minutes:
            self._due.append(Wait(now + self._fill_minutes))

    def started(self, run: int, content: tuple[int, ...], now: float) -> None:
        assert self._starting is not None
        assert self._starting.content == content
        self.trains = self.trains.with_run(TrainRun(run, content, self._starting.tested, now))

    def finished(self, run: int, passed: bool, now: float) -> None:
        """Apply the outcome."""
        (found,) = (each for each in self.trains.runs if each.id == run)
        self.trains = run_passed(self.trains, found, now) if passed else run_failed(self.trains, found)
        if passed and self._learns:
            # As the bot has it (`Memory.with_duration`): the median of the last runs that passed.
            self._durations = [*self._durations, now - found.started][-_DURATIONS_KEPT:]
            usual = sorted(self._durations)[len(self._durations) // 2]
            self.trains = replace(self.trains, usual_seconds=max(usual, 1 / 60))

    def action(self, now: float) -> Action | None:
        """Carry out a plan, one action at a time, then plan again."""
        if not self._due:
            self._plan(now)
        if not self._due:
            return None
        action = self._due.pop(0)
        if isinstance(action, NewRun):
            self._starting = action
            return Start(action.content)
        self._apply(action)
        return action

    def _plan(self, now: float) -> None:
        waiting = incomplete(self.trains) if self._fill_minutes else ()
        if waiting and waiting[0].since + (self._fill_minutes or 0) <= now:
            waiting = ()
        queue = tuple(each for each in self.trains.queue if each not in waiting)
        made = plan(replace(self.trains, queue=queue), now)
        self._yielding = made.yields
        if made.land is not None:
            self._due.append(Land(made.land.id))
        self._due += [Eject(each) for each in made.eject]
        self._due += [Cancel(each) for each in made.cancel]
        self._due += made.start

    def _apply(self, action: Action) -> None:
        trains = self.trains
        match action:
            case Land(run):
                (passed,) = (each for each in trains.passed if each.id == run)
                self.trains = run_landed(trains, passed)
            case Eject(pull):
                member = trains.member(pull)
                assert member is not None
                self.trains = ejected(trains, member)
            case Cancel(run):
                (found,) = (each for each in trains.runs if each.id == run)
                self.trains = run_cancelled(trains, found, yields=run in self._yielding)


class Bors:
    """All that wait are one batch; a batch that fails is halved, and its halves are tested one after the other."""

    def __init__(self, slots: int, *, most: int = 10_000) -> None:
        """Set how many a batch may hold."""
        self._most = most
        self._waiting: list[int] = []
        self._batches: list[list[int]] = []
        self._testing: list[int] = []
        self._run: int | None = None
        self._due: list[Action] = []

    def arrived(self, pull: int, now: float) -> None:
        """Let it wait for the next batch."""
        self._waiting.append(pull)

    def started(self, run: int, content: tuple[int, ...], now: float) -> None:
        """Note the batch's run."""
        self._run = run

    def finished(self, run: int, passed: bool, now: float) -> None:
        """Land, halve or eject."""
        self._run = None
        if passed:
            self._due.append(Land(run))
        elif len(self._testing) == 1:
            self._due.append(Eject(self._testing[0]))
        else:
            half = len(self._testing) // 2
            self._batches = [self._testing[:half], self._testing[half:], *self._batches]

    def action(self, now: float) -> Action | None:
        """Do what is due, then test the next batch."""
        if self._due:
            return self._due.pop(0)
        if self._run is not None:
            return None
        if self._batches:
            self._testing = self._batches.pop(0)
        elif self._waiting:
            self._testing, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        else:
            return None
        return Start(tuple(self._testing))


class Tide:
    """A batch of the first 15 beside a run of the first alone: the batch lands if it passes, else the first decides."""

    def __init__(self, slots: int, *, most: int = 15) -> None:
        """Set how many a batch may hold; with one slot there are no batches."""
        self._most = most if slots > 1 else 1
        self._waiting: list[int] = []
        self._runs: dict[int, tuple[int, ...]] = {}
        self._outcomes: dict[tuple[int, ...], tuple[int, bool]] = {}
        self._due: list[Action] = []

    def arrived(self, pull: int, now: float) -> None:
        """Queue it last."""
        self._waiting.append(pull)

    def started(self, run: int, content: tuple[int, ...], now: float) -> None:
        """Note the run."""
        self._runs[run] = content

    def finished(self, run: int, passed: bool, now: float) -> None:
        """Land the batch, or the first when the batch has failed."""
        content = self._runs.pop(run)
        if passed and (len(content) > 1 or not self._runs):
            self._land(run, content)
        elif len(content) == 1 and not passed:
            self._due.append(Eject(content[0]))
            self._waiting.remove(content[0])
            self._cancel()
        else:
            self._outcomes[content] = run, passed
            if not self._runs:
                self._decide()

    def _decide(self) -> None:
        for content, (run, passed) in sorted(self._outcomes.items(), key=lambda item: -len(item[0])):
            if passed:
                self._land(run, content)
                return
        self._outcomes.clear()

    def _land(self, run: int, content: tuple[int, ...]) -> None:
        self._due.append(Land(run))
        self._waiting = [each for each in self._waiting if each not in content]
        self._cancel()

    def _cancel(self) -> None:
        self._due += [Cancel(run) for run in self._runs]
        self._runs.clear()
        self._outcomes.clear()

    def action(self, now: float) -> Action | None:
        """Do what is due, then test the first, and a batch."""
        if self._due:
            return self._due.pop(0)
        if not self._waiting:
            return None
        first, batch = tuple(self._waiting[:1]), tuple(self._waiting[: self._most])
        known = {*self._runs.values(), *self._outcomes}
        if not known:
            return Start(first)
        if first in known and len(known) == 1 and len(batch) > 1 and self._runs:
            return Start(batch)
        return None


@dataclass(slots=True)
class _Car:
    """A group of pull requests and the run that tests it on top of all groups before."""

    group: tuple[int, ...]
    content: tuple[int, ...]
    run: int
    passed: bool | None = None


class Chain:
    """A window of speculative runs, each nested on all before it.

    The first failing group whose predecessors have landed is at fault: a single pull request is ejected, a group is
    split. All runs behind it start again. GitHub: windows of 5 and 100. GitLab: 20. Zuul: a window that moves.
    """

    def __init__(
        self, slots: int, *, window: int = 100, group: int = 1, later_clears: bool = False, adaptive: bool = False
    ) -> None:
        """Set the rules.

        Args:
            slots: Runs that may be active at once.
            window: Groups that are tested at once, at most.
            group: Pull requests that one run tests.
            later_clears: A later run that passes lands all before it, whatever their own runs said.
            adaptive: Zuul's window: one more with each landing, half with each failure, at least three.
        """
        self._slots, self._window, self._group = slots, window, group
        self._later_clears, self._adaptive = later_clears, adaptive
        self._waiting: list[int] = []
        self._split: list[tuple[int, ...]] = []
        self._cars: list[_Car] = []
        self._starting: tuple[int, ...] = ()
        self._due: list[Action] = []

    def arrived(self, pull: int, now: float) -> None:
        """Queue it last."""
        self._waiting.append(pull)

    def started(self, run: int, content: tuple[int, ...], now: float) -> None:
        """Couple the group's run to the chain."""
        self._cars.append(_Car(self._starting, content, run))

    def finished(self, run: int, passed: bool, now: float) -> None:
        """Note the outcome."""
        for car in self._cars:
            if car.run == run:
                car.passed = passed

    def action(self, now: float) -> Action | None:
        """Land from the front, throw out what fails there, fill the window."""
        if self._due:
            return self._due.pop(0)
        if self._cars and self._cars[0].passed:
            return self._land(0)
        if self._later_clears:
            for index, car in enumerate(self._cars):
                if car.passed is None:
                    break
                if car.passed:
                    return self._land(index)
        if self._cars and self._cars[0].passed is False:
            if self._later_clears and any(car.passed is None for car in self._cars[1:2]):
                return self._start()
            return self._fail()
        return self._start()

    def _land(self, index: int) -> Action:
        landed = [pull for car in self._cars[: index + 1] for pull in car.group]
        run = self._cars[index].run
        self._due += [Cancel(car.run) for car in self._cars[:index] if car.passed is None]
        del self._cars[: index + 1]
        for car in self._cars:
            car.content = car.content[len(landed) :]
        if self._adaptive:
            self._window += 1
        return Land(run)

    def _fail(self) -> Action | None:
        failed, *behind = self._cars
        self._cars = []
        self._due += [Cancel(car.run) for car in behind if car.passed is None]
        if self._adaptive:
            self._window = max(3, self._window // 2)
        groups = [car.group for car in behind]
        if len(failed.group) == 1:
            self._due.append(Eject(failed.group[0]))
            self._split = groups + self._split if self._group > 1 else self._split
        else:
            half = len(failed.group) // 2
            self._split = [failed.group[:half], failed.group[half:], *groups, *self._split]
        if self._group == 1:
            self._waiting = [pull for group in groups for pull in group] + self._waiting
        return self._due.pop(0) if self._due else self._start()

    def _start(self) -> Action | None:
        active = sum(car.passed is None for car in self._cars)
        if active >= self._slots or len(self._cars) >= self._window:
            return None
        if self._split:
            self._starting = self._split.pop(0)
        elif self._waiting:
            self._starting = tuple(self._waiting[: self._group])
            del self._waiting[: self._group]
        else:
            return None
        beneath = self._cars[-1].content if self._cars else ()
        return Start((*beneath, *self._starting))
