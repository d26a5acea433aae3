"""Merge queues that test each pull request on top of all before it, re-implemented from their documented rules."""

from dataclasses import dataclass

from bot.cli.replay.simulation import Action, Cancel, Eject, Land, Start


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
