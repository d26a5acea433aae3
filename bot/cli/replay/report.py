"""The replay of one history: what is known and assumed of the team, the rows of each policy, as text and as JSON."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.cli.clone.audit import counted
from bot.cli.clone.history import History, HistoryError
from bot.cli.clone.landings import Kind
from bot.cli.console import table
from bot.cli.replay import estimates
from bot.cli.replay.arrivals import RECENT_DAYS, Arrival, LandingHistory, of_timeline, read_landings
from bot.cli.replay.estimates import Estimate
from bot.cli.replay.history_files import Checks, Timeline, read_checks, read_timeline
from bot.cli.replay.replays import (
    MEASURES,
    VARIANTS,
    Figure,
    Row,
    Team,
    TimelineReplay,
    Variant,
    answer_variants,
    as_it_was,
    compare,
    policies,
    repeat,
)
from bot.logs.printable import on_one_line
from queue_engine.rules.job_rates import LINUX

_ASSUMED = {"ci_time": 20.0, "failures": 0.1, "flakes": 0.02, "conflicts": 0.034, "price": LINUX}
"""The share of failures is what the planner begins with; that of conflicts is Uber's, for pairs near each other. The
price is that of GitHub's Linux runners with two cores (GitHub's documents, "Actions runner pricing")."""
_SIGMA = 0.3
_DEVIATIONS = 1.96
_MOST_SEEDS = 3
"""Of the plots."""
NAMES = {
    "arrivals": "pull requests a day",
    "ci_time": "CI time",
    "failures": "pull requests that fail",
    "flakes": "runs that flake",
    "conflicts": "neighbours that break together",
    "minutes": "CI minutes of a run",
    "price": "price of a minute",
}
HEADS = ("", "wait p50", "wait p95", "runs", "CI minutes", "cost", "landed", "ejected", "good ejected")


@dataclass(slots=True)
class Replay:
    """A history, and what came of its replay."""

    history: str
    """What was read, in words."""
    arrivals: Sequence[Arrival]
    estimates: Mapping[str, Estimate]
    team: Team
    timeline: Timeline | None = None
    checks: Checks | None = None
    notes: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    variants: Sequence[Variant] = ()
    repeated: TimelineReplay | None = None
    seeds: Sequence[int] = ()

    def simulations(self, runs: Sequence[int], seeds: int, *, every: bool, plots: bool) -> int:
        """Return how many simulations there will be."""
        return seeds * len(policies(runs, every=every)) + plots * VARIANTS * min(seeds, _MOST_SEEDS)

    def simulate(
        self, runs: Sequence[int], seeds: Sequence[int], step: Callable[[], None], *, every: bool, plots: bool
    ) -> None:
        """Fill in what comes of it. `step` is called after each simulation."""
        self.seeds = seeds
        compared = compare(self.arrivals, self.team, policies(runs, every=every), seeds, step)
        self.rows = [self._as_it_was(), *compared]
        if self.timeline is not None and self.timeline.trains:
            self.repeated = repeat(self.timeline, self.arrivals)
        if plots:
            self.variants = answer_variants(self.arrivals, self.team, max(runs), seeds[:_MOST_SEEDS], step)

    def _as_it_was(self) -> Row:
        if self.timeline is not None:
            return as_it_was(self.timeline, self.team)
        figures: dict[str, Figure | None] = dict.fromkeys(MEASURES)
        figures["landed"] = Figure(float(len(self.arrivals)), 0.0)
        if self.checks is not None and self.checks.queued:
            minutes = self.checks.queued_minutes
            figures["runs"] = Figure(float(self.checks.queued), 0.0)
            figures["minutes"], figures["cost"] = Figure(minutes, 0.0), Figure(minutes * self.team.price, 0.0)
        return Row("as it was", figures)

    def as_json(self) -> dict[str, Any]:
        """Return what programs read. Times are in minutes, the cost in dollars."""
        return {
            "history": self.history,
            "pull_requests": len(self.arrivals),
            "estimates": {
                name: {"value": each.value, "low": each.low, "high": each.high, "source": each.source}
                for name, each in self.estimates.items()
            },
            "seeds": list(self.seeds),
            "policies": [_row_as_json(each) for each in self.rows],
            "what_if": [
                {"figure": each.figure, "value": each.value, "policies": [_row_as_json(row) for row in each.rows]}
                for each in self.variants
            ],
            "timeline": None
            if self.repeated is None
            else {
                "runs": self.repeated.runs,
                "same_runs": self.repeated.same_runs,
                "same_order": self.repeated.landed == self.repeated.landed_again,
            },
            "notes": self.notes,
        }

    def lines(self) -> Iterator[str]:
        """Yield the report for people."""
        yield f"{on_one_line(self.history)}"
        yield ""
        assumed = table((NAMES[name], shown(name, each), each.source) for name, each in self.estimates.items())
        yield from (f"  {line}" for line in assumed)
        yield ""
        yield from (f"  {line}" for line in table([HEADS, *(cells(each) for each in self.rows)], numbers=True))
        yield ""
        yield from self.sentences()

    def sentences(self) -> Iterator[str]:
        """Yield what a reader has to know of the figures."""
        yield f"± is the standard deviation over {len(self.seeds)} seeds, with the errors of the estimates in it."
        if self.repeated is not None:
            found = self.repeated
            order = "in the same order" if found.landed == found.landed_again else "in another order"
            yield (
                f"Planned again with the recorded outcomes, {found.same_runs} of {found.runs} runs are the same, and "
                f"pull requests land {order}."
            )
        yield from self.notes


def _row_as_json(row: Row) -> dict[str, Any]:
    figures = {
        name: None if each is None else {"value": each.value, "error": each.error} for name, each in row.figures.items()
    }
    return {"policy": row.policy, **figures}


def cells(row: Row) -> tuple[str, ...]:
    return (row.policy, *(_cell(name, row.figures[name]) for name in MEASURES))


def _cell(name: str, figure: Figure | None) -> str:
    if figure is None:
        return "-"
    if name in {"p50", "p95"}:
        unit, factor = _unit(figure.value)
        digits = 0 if unit == "min" else 1
        error = f" ± {figure.error / factor:.{digits}f}" if figure.error else ""
        return f"{figure.value / factor:.{digits}f}{error} {unit}"
    sign = "$" if name == "cost" else ""
    error = f" ± {figure.error:,.0f}" if figure.error else ""
    return f"{sign}{figure.value:,.0f}{error}"


def _unit(minutes: float) -> tuple[str, float]:
    return ("min", 1) if minutes < 120 else ("h", 60) if minutes < 4320 else ("d", 1440)


def shown(name: str, estimate: Estimate) -> str:
    """Return an estimate as text, with its interval."""

    def text(value: float) -> str:
        if name in {"failures", "flakes", "conflicts"}:
            return f"{100 * value:.3g} %"
        if name == "price":
            return f"${value:g}"
        return f"{value:.3g}" if name == "arrivals" else f"{value:.3g} min"

    interval = "" if estimate.assumed else f" ({text(estimate.low)} to {text(estimate.high)})"
    return f"{text(estimate.value)}{interval}"


def read(
    range_: str | None,
    timeline_file: Path | None,
    checks_file: Path | None,
    given: Mapping[str, float | None],
    *,
    pushes: bool,
) -> Replay:
    """Read the clone of the current folder, and the files. Raises HistoryError and FileError."""
    timeline = None if timeline_file is None else read_timeline(timeline_file)
    checks = None if checks_file is None else read_checks(checks_file)
    with History() as history:
        landed = _landed(history, range_, pushes=pushes, needed=timeline is None)
    if timeline is not None:
        arrivals = of_timeline(timeline, () if landed is None else landed.arrivals)
        words = f"IMQ's timeline of {timeline.queue}"
    else:
        assert landed is not None
        arrivals, words = list(landed.arrivals), range_ or f"HEAD, the last {RECENT_DAYS} days"
    days = (arrivals[-1].at - arrivals[0].at) / 1440
    # What broke together is among the failures that a timeline has.
    among = estimates.fixed(0.0, "among the failures of the timeline; --conflicts adds more")
    recorded = {} if timeline is None else {"conflicts": among, **timeline.estimates()}
    measured = {**({} if checks is None else checks.estimates()), **recorded}
    found = _estimates(measured, given)
    per_day = estimates.rate(len(arrivals), days, f"{counted(len(arrivals), 'pull request')} in {days:,.1f} days")
    return Replay(
        f"{words}: {counted(len(arrivals), 'pull request')} in {days:,.1f} days.",
        arrivals,
        {**({} if per_day is None else {"arrivals": per_day}), **found},
        _team(found, given, timeline, checks),
        timeline,
        checks,
        list(_notes(landed, timeline, checks, pushes=pushes)),
    )


def _landed(history: History, range_: str | None, *, pushes: bool, needed: bool) -> LandingHistory | None:
    """Return the landings of the clone; None where there are too few, and a timeline has more."""
    try:
        return read_landings(history, range_, pushes=pushes)
    except HistoryError:
        if needed or range_ is not None:
            raise
        return None


def _estimates(measured: Mapping[str, Estimate], given: Mapping[str, float | None]) -> dict[str, Estimate]:
    """Return each figure: what was given, or what was measured, or what is assumed."""
    found: dict[str, Estimate] = {}
    for name in ("ci_time", "failures", "flakes", "conflicts", "minutes", "price"):
        value, option = given.get(name), f"--{name.replace('_', '-')}"
        if value is not None:
            found[name] = estimates.fixed(value, f"given by {option}")
        elif name == "minutes" and given.get("ci_time") is not None:
            found[name] = estimates.fixed(found["ci_time"].value, "as if a run had one job; --minutes gives it")
        elif name in measured:
            found[name] = measured[name]
        elif name == "minutes":
            found[name] = estimates.fixed(found["ci_time"].value, "as if a run had one job; --minutes gives it")
        else:
            found[name] = estimates.fixed(_ASSUMED[name], f"assumed; {option} gives it")
    return found


def _team(
    found: Mapping[str, Estimate], given: Mapping[str, float | None], timeline: Timeline | None, checks: Checks | None
) -> Team:
    """Return the team. The failures of a timeline are those of its own pull requests, unless others are given."""
    durations = timeline.ci_times if timeline is not None else checks.ci_times if checks is not None else ()
    recorded = timeline is not None and given.get("failures") is None
    return Team(
        ci_time=found["ci_time"].value,
        sigma=estimates.spread(durations) or _SIGMA,
        failures=None if recorded else found["failures"].value,
        flakes=found["flakes"].value,
        conflicts=found["conflicts"].value,
        minutes=found["minutes"].value,
        price=found["price"].value,
        errors={
            name: (each.high - each.low) / 2 / _DEVIATIONS
            for name, each in found.items()
            if not each.assumed and not (recorded and name == "failures")
        },
    )


def _notes(
    landed: LandingHistory | None, timeline: Timeline | None, checks: Checks | None, *, pushes: bool
) -> Iterator[str]:
    if timeline is None:
        assert landed is not None
        kinds = ", ".join(f"{landed.kinds[each]:,} {each.value}" for each in (Kind.MERGE, Kind.SQUASH, Kind.REBASE))
        pushed = "counted too" if pushes else "left out; --pushes counts them"
        yield f"Commits: {kinds}. {landed.kinds[Kind.PUSH]:,} without a pull request, {pushed}."
        yield (
            "A pull request counts as queued when somebody merged it. git shows neither those that failed nor how long "
            "the others waited: those that fail are added, and --timeline knows both."
        )
    elif timeline.others:
        yield f"{counted(timeline.others, 'other queue')} of the file left out."
    if checks is not None and not checks.queued:
        yield "No workflow run tested a candidate of a merge queue: the file does not show how many would fail there."
    yield "One by one and the queues named -like follow documented rules, without reruns of failed checks."
