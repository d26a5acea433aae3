"""The policies that are compared, by name; "-like" ones follow a product's documented rules, not its code."""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from benchmarks.scheduling.cells import DrawnTruth
from benchmarks.scheduling.tree import SpeculationTree
from bot.cli.replay.policies import Chain, TrainPolicy
from bot.cli.replay.replays import REFERENCE, RIVALS
from bot.cli.replay.simulation import Action, Cancel, Eject, Land, Policy, Start
from bot.cli.replay.truth import Truth

OURS, ORACLE = "IMQ", "oracle"

Make = Callable[[DrawnTruth], Policy]


class Oracle:
    """Knows every outcome: it ejects what is bad as it comes, and tests all good ones together, nested on what runs."""

    def __init__(self, slots: int, truth: Truth) -> None:
        """Read the truth, as no queue can."""
        self._slots, self._truth = slots, truth
        self._waiting: list[int] = []
        self._runs: list[tuple[int, tuple[int, ...]]] = []
        self._passed: dict[int, bool] = {}
        self._landed: set[int] = set()
        self._due: list[Action] = []

    def arrived(self, pull: int, now: float) -> None:
        """Eject it at once, or queue it last."""
        chosen = {each for _, content in self._runs for each in content} | set(self._waiting) | self._landed
        if self._truth.good((pull,), chosen):
            self._waiting.append(pull)
        else:
            self._due.append(Eject(pull))

    def started(self, run: int, content: tuple[int, ...], now: float) -> None:
        """Note the run."""
        self._runs.append((run, content))

    def finished(self, run: int, passed: bool, now: float) -> None:
        """Land from the front; a flake costs its members a run."""
        self._passed[run] = passed

    def action(self, now: float) -> Action | None:
        """Do what is due, then test all that waits in one run."""
        if self._due:
            return self._due.pop(0)
        for index, (run, content) in reversed(list(enumerate(self._runs))):
            if self._passed.get(run):
                self._due += [Cancel(other) for other, _ in self._runs[:index] if other not in self._passed]
                self._runs = [
                    (other, tuple(each for each in tested if each not in content))
                    for other, tested in self._runs[index + 1 :]
                ]
                self._landed |= set(content)
                return Land(run)
        while self._runs and self._passed.get(self._runs[-1][0]) is False:
            _, content = self._runs.pop()
            beneath = self._runs[-1][1] if self._runs else ()
            self._waiting = [*(each for each in content if each not in beneath), *self._waiting]
        active = sum(run not in self._passed for run, _ in self._runs)
        if not self._waiting or active >= self._slots:
            return None
        beneath = self._runs[-1][1] if self._runs else ()
        content, self._waiting = (*beneath, *self._waiting), []
        return Start(content)


def _base_rate(truth: DrawnTruth, pull: int) -> float:
    return 1 - truth.cell.bad


def _predicted(truth: DrawnTruth, pull: int, right: float) -> float:
    """Return what a predictor says that is right in this share of cases."""
    correct = Random(f"{truth.seed} predicts {pull}").random() < right
    return right if (pull in truth.bad) != correct else 1 - right


def _tree(truth: DrawnTruth, lands: Callable[[DrawnTruth, int], float]) -> Policy:
    return SpeculationTree(truth.slots, partial(lands, truth))


POLICIES: Mapping[str, Make] = {
    OURS: lambda truth: TrainPolicy(truth.slots, truth.minutes),
    ORACLE: lambda truth: Oracle(truth.slots, truth),
    "serial": RIVALS["serial"],
    "GitHub-like 5": lambda truth: Chain(truth.slots, window=5),
    REFERENCE: RIVALS[REFERENCE],
    "GitHub-like 100, later pass clears": lambda truth: Chain(truth.slots, window=100, later_clears=True),
    **RIVALS,
    "Uber-like, base rate": lambda truth: _tree(truth, _base_rate),
    "Uber-like, 97 %": lambda truth: _tree(truth, partial(_predicted, right=0.97)),
    "Uber-like, perfect": lambda truth: _tree(truth, partial(_predicted, right=1.0)),
}
