"""Comparison of policies on the arrivals of a clone or a timeline, over several seeds."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from statistics import fmean

from bot.cli.replay import estimates
from bot.cli.replay.arrivals import Arrival
from bot.cli.replay.history_files import Timeline
from bot.cli.replay.policies import Bors, Chain, Tide, TrainPolicy
from bot.cli.replay.simulation import Policy, Simulation, quantile
from bot.cli.replay.truth import CONCURRENT, Truth

ONE_BY_ONE, GITHUB = "one by one", "GitHub-like"
SHARES = ("failures", "flakes", "conflicts")
_MOST_SHARE = 0.95
_NEAR = 30.0
"""Minutes: a pull request that fails arrives so close to one that landed."""
_NEVER = 1e9
_PASS = 10 / 60
"""Minutes within which a pass of the bot takes account of an arrival."""
_FIRST_MINUTES = 10.0
"""How long the bot reckons a run to take before one has ended."""


@dataclass(frozen=True, slots=True)
class Team:
    """What a replay assumes of the team beside its arrivals."""

    ci_time: float
    sigma: float
    failures: float | None
    """The share of arrivals whose checks fail; None: those of the arrivals that the timeline knows."""
    flakes: float
    conflicts: float
    """The chance that two pull requests break together that were queued one after the other and change one file."""
    minutes: float
    """Minutes of all jobs of a run."""
    price: float
    """Of a minute."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Standard deviations of the estimates among these."""

    def drawn(self, seed: int) -> "Team":
        """Return a team as it may be in truth, by the errors of its estimates."""
        dice = Random(f"{seed} team")
        drawn = {name: dice.gauss(getattr(self, name), error) for name, error in sorted(self.errors.items())}
        shares = {name: min(_MOST_SHARE, max(0.0, each)) for name, each in drawn.items() if name in SHARES}
        times = {name: max(getattr(self, name) / 10, each) for name, each in drawn.items() if name not in SHARES}
        return replace(self, **shares, **times, errors={})

    def given(self, **values: float) -> "Team":
        """Return the team with other figures, which have no error."""
        errors = {name: each for name, each in self.errors.items() if name not in values}
        return replace(self, **values, errors=errors)


@dataclass(frozen=True, slots=True)
class Figure:
    """The mean over the seeds, and the standard deviation between them."""

    value: float
    error: float


MEASURES = ("p50", "p95", "runs", "minutes", "cost", "landed", "ejected", "innocents")


@dataclass(frozen=True, slots=True)
class Row:
    """One policy. Waits and CI are in minutes; None where nothing recorded it."""

    policy: str
    figures: Mapping[str, Figure | None]


class ReplayTruth(Truth):
    """The truth of one seed: the arrivals as they were, and pull requests beside them whose checks fail."""

    def __init__(self, arrivals: Sequence[Arrival], team: Team, slots: int, seed: int) -> None:
        """Choose what fails."""
        if team.failures is not None:
            arrivals = _with_failing(arrivals, team.failures, Random(f"{seed} failing"))
        super().__init__(seed, slots, team.ci_time, team.sigma, team.flakes, team.conflicts)
        self.pulls = arrivals
        self.bad = {position for position, each in enumerate(arrivals) if each.bad}

    def arrivals(self, count: int) -> list[float]:
        """Return when they arrived, from the first one on."""
        return [each.at - self.pulls[0].at for each in self.pulls[:count]]

    def arrive(self, pull: int, waiting: Container[int]) -> None:
        """Decide which of those just before it that change one file break with it."""
        for other in range(max(0, pull - CONCURRENT), pull):
            if other in waiting and self.pulls[other].files & self.pulls[pull].files:
                self.may_break(other, pull)


def _with_failing(arrivals: Sequence[Arrival], failures: float, dice: Random) -> list[Arrival]:
    """Return the arrivals that landed, with so many beside them that fail: these come when the others do."""
    landed = [each for each in arrivals if not each.bad]
    failing = [
        Arrival(dice.choice(landed).at + dice.uniform(-_NEAR, _NEAR), None, bad=True)
        for _ in range(round(len(landed) * failures / (1 - failures)))
    ]
    return sorted([*landed, *failing], key=lambda each: each.at)


REFERENCE = "GitHub-like 100"
RIVALS: Mapping[str, Callable[[Truth], Policy]] = {
    "serial": lambda truth: Chain(1, window=1),
    REFERENCE: lambda truth: Chain(truth.slots, window=100),
    "GitLab-like 20": lambda truth: Chain(truth.slots, window=20),
    "Zuul-like": lambda truth: Chain(truth.slots, window=20, adaptive=True),
    "bors-like": lambda truth: Bors(truth.slots),
    "bors-like 8": lambda truth: Bors(truth.slots, most=8),
    "Tide-like 15": lambda truth: Tide(truth.slots),
    "Mergify-like": lambda truth: Chain(truth.slots, window=5, group=5),
    "Trunk-like": lambda truth: Chain(truth.slots, window=20, group=4, later_clears=True),
}
"""Policies other than IMQ's, by name; "-like" ones follow a product's documented rules, not its code."""


def policies(runs: Sequence[int], *, every: bool) -> Mapping[str, tuple[int, Callable[[Truth], Policy]]]:
    """Return the policies to compare, each with its runs at once. GitHub-like has as many as the largest trains."""
    most = max(runs)
    found: dict[str, tuple[int, Callable[[Truth], Policy]]] = {
        ONE_BY_ONE: (1, RIVALS["serial"]),
        f"{GITHUB}, {_runs(most)}": (most, RIVALS[REFERENCE]),
    }
    if every:
        others = (each for each in RIVALS if each not in {"serial", REFERENCE})
        found |= {f"{each}, {_runs(most)}": (most, RIVALS[each]) for each in others}
    return found | {f"trains, {_runs(each)}": (each, _trained) for each in runs}


def _trained(truth: Truth) -> Policy:
    return TrainPolicy(truth.slots, truth.minutes, learns=True)


def _runs(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"


def compare(
    arrivals: Sequence[Arrival],
    team: Team,
    wanted: Mapping[str, tuple[int, Callable[[Truth], Policy]]],
    seeds: Sequence[int],
    step: Callable[[], None] = lambda: None,
) -> list[Row]:
    """Simulate each policy with each seed. `step` is called after each simulation."""
    rows = []
    for name, (slots, make) in wanted.items():
        found: dict[str, list[float]] = defaultdict(list)
        for seed in seeds:
            drawn = team.drawn(seed)
            truth = ReplayTruth(arrivals, drawn, slots, seed)
            outcome = Simulation(truth, make(truth), len(truth.pulls), warm=0).run()
            minutes = outcome.minutes * drawn.minutes / drawn.ci_time
            waits = outcome.landed_after
            values = (quantile(waits, 0.5), quantile(waits, 0.95), outcome.runs, minutes, minutes * team.price)
            counts = (outcome.landed, len(outcome.rejected_after), outcome.innocents)
            for measure, value in zip(MEASURES, (*values, *counts), strict=True):
                found[measure].append(value)
            step()
        rows.append(Row(name, {each: Figure(fmean(of), estimates.deviation(of)) for each, of in found.items()}))
    return rows


def as_it_was(timeline: Timeline, team: Team) -> Row:
    """Return what IMQ's timeline recorded."""
    waits = [each.until - each.since for each in timeline.landed]
    minutes = sum(each.end - each.start for each in timeline.runs) * team.minutes / team.ci_time
    cost = minutes * team.price
    if timeline.spent is not None:
        minutes, recorded = timeline.spent
        cost = recorded or minutes * team.price
    values = (quantile(waits, 0.5), quantile(waits, 0.95), len(timeline.runs), minutes, cost)
    counts = (len(timeline.landed), sum(each.by_checks for each in timeline.entries))
    figures: dict[str, Figure | None] = dict.fromkeys(MEASURES)
    figures |= {name: Figure(each, 0.0) for name, each in zip(MEASURES, (*values, *counts), strict=False)}
    return Row("as it was", figures)


@dataclass(frozen=True, slots=True)
class Variant:
    """An answer to "what if": the rows of some policies at one value of a figure."""

    figure: str
    value: float
    rows: Sequence[Row]


_FAILURES = (0.02, 0.05, 0.1, 0.2, 0.3)
_TIMES = (0.5, 1.0, 1.5, 2.0, 3.0)
_RUNS = (1, 2, 4, 8)
_ANSWERED = 400
"""The newest arrivals, which answer "what if": more of them would take minutes."""
VARIANTS = 3 * (len(_FAILURES) + len(_TIMES)) + 2 * len(_RUNS)
"""Simulations of each seed."""


def answer_variants(
    arrivals: Sequence[Arrival], team: Team, runs: int, seeds: Sequence[int], step: Callable[[], None]
) -> list[Variant]:
    """Answer "what if" for failure share, CI time and runs at once."""
    newest, wanted = arrivals[-_ANSWERED:], policies([runs], every=False)
    teams = [("failures", share, team.given(failures=share)) for share in _FAILURES]
    teams += [
        ("ci_time", team.ci_time * each, team.given(ci_time=team.ci_time * each, minutes=team.minutes * each))
        for each in _TIMES
    ]
    found = [Variant(name, value, compare(newest, each, wanted, seeds, step)) for name, value, each in teams]
    for number in _RUNS:
        several = {name: each for name, each in policies([number], every=False).items() if name != ONE_BY_ONE}
        found.append(Variant("runs", number, compare(newest, team, several, seeds, step)))
    return found


# What happened, planned again.


@dataclass(frozen=True, slots=True)
class TimelineReplay:
    """How much of a timeline the planner repeats when it meets the same arrivals and the same outcomes."""

    runs: int
    same_runs: int
    landed: tuple[int, ...]
    """Pull requests in the order in which they landed."""
    landed_again: tuple[int, ...]
    """The same as planned again."""


class _Repeated(Truth):
    """Gives each run the outcome and the duration that the timeline has for its members."""

    def __init__(self, timeline: Timeline, arrivals: Sequence[Arrival]) -> None:
        super().__init__(0, timeline.slots, _FIRST_MINUTES)
        starts = [each.start for each in timeline.runs]
        self.times = [_rounded(_at_pass(each.at, starts) - arrivals[0].at) for each in arrivals]
        self.numbers = [each.number or 0 for each in arrivals]
        self._left = list(timeline.runs)
        self.same = 0

    def arrivals(self, count: int) -> list[float]:
        return self.times[:count]

    def arrive(self, pull: int, waiting: Container[int]) -> None:
        """Know nothing: outcomes are recorded."""

    def outcome(self, content: Sequence[int], landed: set[int]) -> tuple[bool, float]:
        members = tuple(self.numbers[each] for each in content)
        found = next((each for each in self._left if each.members == members), None)
        if found is None:
            return False, _NEVER
        self._left.remove(found)
        self.same += 1
        return bool(found.passed), _NEVER if found.passed is None else _rounded(found.end - found.start)


def _rounded(minutes: float) -> float:
    """Return a time whose sums are exact, so that what ended at one instant does so again."""
    return round(minutes * 4096) / 4096


def _at_pass(at: float, starts: Sequence[float]) -> float:
    """Return when the pass began that took account of an arrival: it read GitHub before."""
    position = bisect_right(starts, at)
    return starts[position] if position < len(starts) and starts[position] - at <= _PASS else at


def repeat(timeline: Timeline, arrivals: Sequence[Arrival]) -> TimelineReplay:
    """Plan again what a timeline recorded: with its arrivals, its outcomes and as many runs at once."""
    truth = _Repeated(timeline, arrivals)
    planned = Simulation(truth, TrainPolicy(timeline.slots, _FIRST_MINUTES, learns=True), len(arrivals), warm=0).run()
    recorded = sorted(timeline.landed, key=lambda each: each.until)
    again = tuple(truth.numbers[each] for each in planned.order)
    return TimelineReplay(len(timeline.runs), truth.same, tuple(each.number for each in recorded), again)
