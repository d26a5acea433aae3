"""The policies that are compared, by name; "-like" ones follow a product's documented rules, not its code."""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from bot.cli.replay.chains import Chain
from bot.cli.replay.lanes import Bors, Oracle, Tide
from bot.cli.replay.simulation import Policy
from bot.cli.replay.trains import TrainPolicy
from bot.cli.replay.tree import SpeculationTree
from bot.cli.replay.truth import Truth

OURS, ORACLE, REFERENCE = "IMQ", "oracle", "GitHub-like 100"

Make = Callable[[Truth], Policy]


def _base_rate(truth: Truth, pull: int) -> float:
    return 1 - truth.cell.bad


def _predicted(truth: Truth, pull: int, right: float) -> float:
    """Return what a predictor says that is right in this share of cases."""
    correct = Random(f"{truth.seed} predicts {pull}").random() < right
    return right if (pull in truth.bad) != correct else 1 - right


def _tree(truth: Truth, lands: Callable[[Truth, int], float]) -> Policy:
    return SpeculationTree(truth.cell.slots, partial(lands, truth))


POLICIES: Mapping[str, Make] = {
    OURS: lambda truth: TrainPolicy(truth.cell.slots, truth.cell.minutes),
    ORACLE: lambda truth: Oracle(truth.cell.slots, truth),
    "serial": lambda truth: Chain(1, window=1),
    "GitHub-like 5": lambda truth: Chain(truth.cell.slots, window=5),
    REFERENCE: lambda truth: Chain(truth.cell.slots, window=100),
    "GitHub-like 100, later pass clears": lambda truth: Chain(truth.cell.slots, window=100, later_clears=True),
    "GitLab-like 20": lambda truth: Chain(truth.cell.slots, window=20),
    "Zuul-like": lambda truth: Chain(truth.cell.slots, window=20, adaptive=True),
    "bors-like": lambda truth: Bors(truth.cell.slots),
    "bors-like 8": lambda truth: Bors(truth.cell.slots, most=8),
    "Tide-like 15": lambda truth: Tide(truth.cell.slots),
    "Mergify-like": lambda truth: Chain(truth.cell.slots, window=5, group=5),
    "Trunk-like": lambda truth: Chain(truth.cell.slots, window=20, group=4, later_clears=True),
    "Uber-like, base rate": lambda truth: _tree(truth, _base_rate),
    "Uber-like, 97 %": lambda truth: _tree(truth, partial(_predicted, right=0.97)),
    "Uber-like, perfect": lambda truth: _tree(truth, partial(_predicted, right=1.0)),
}
