"""The planner that the bot runs, as a policy."""

from dataclasses import replace

from bot.cli.replay.simulation import Action, Cancel, Eject, Land, Start
from queue_engine.planner.trains.model import Member, NewRun, TrainRun, Trains
from queue_engine.planner.trains.plan import plan
from queue_engine.planner.trains.transitions import ejected, run_cancelled, run_failed, run_landed, run_passed

_DURATIONS_KEPT = 20


class TrainPolicy:
    """IMQ's policy."""

    def __init__(self, slots: int, minutes: float, *, learns: bool = False) -> None:
        """Begin with an empty queue whose runs usually take so many minutes; `learns`: until some have ended."""
        self.trains = Trains(slots, minutes)
        self._learns = learns
        self._durations: list[float] = []
        self._due: list[Action | NewRun] = []
        self._starting: NewRun | None = None

    def arrived(self, pull: int, now: float) -> None:
        """Queue it last."""
        self.trains = replace(self.trains, queue=(*self.trains.queue, Member(pull, now)))

    def started(self, run: int, content: tuple[int, ...], now: float) -> None:
        """Keep the run."""
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
        made = plan(self.trains, now)
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
                self.trains = run_cancelled(trains, found)
