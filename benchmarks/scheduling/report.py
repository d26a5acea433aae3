"""Write what was measured into `docs/scheduling.md`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from benchmarks.scheduling.cells import Cell, DrawnTruth
from benchmarks.scheduling.goals import Goal, Sample
from benchmarks.scheduling.grid import UNLIMITED, Measured, mean_ratio, measure
from benchmarks.scheduling.policies import ORACLE, OURS, POLICIES
from benchmarks.scheduling.scenarios import runs_per_landing
from bot.cli.replay.replays import REFERENCE
from bot.cli.replay.simulation import Simulation


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def goals_table(fresh: Sequence[Goal], tuning: Sequence[Goal]) -> str:
    """Return the goals with the values of fresh and of tuning seeds."""
    return table(
        ("goal", "must", "ambitious", "fresh seeds", "tuning seeds", "reached"),
        (
            (
                each.name,
                f"{'≤' if each.at_most else '≥'} {each.must:g}",
                f"{'≤' if each.at_most else '≥'} {each.ambitious:g}",
                figure(each.value),
                figure(before.value),
                each.verdict,
            )
            for each, before in zip(fresh, tuning, strict=True)
        ),
    )


def policies_table(measured: Iterable[tuple[str, Measured]]) -> str:
    """Return one row for each policy of a cell."""
    return table(
        (
            "policy",
            "p50 min",
            "p95 min",
            "rejected p95",
            "landed per hour",
            "runs per landing",
            "innocents",
            "red base",
        ),
        (
            (
                name,
                f"{each.minutes(0.5):.0f}",
                f"{each.minutes(0.95):.0f}",
                f"{each.rejected(0.95):.0f}",
                f"{each.per_hour:.1f}",
                f"{each.runs_per_landing:.2f}",
                str(each.outcome.innocents),
                str(each.outcome.red),
            )
            for name, each in measured
        ),
    )


def costs_table(members: int, slots: Sequence[int], shares: Sequence[float], seeds: Sequence[int]) -> str:
    """Return runs for each landing by the share of members that are ejected, beside landings one by one."""
    rows = []
    for pairs, share in product((False, True), shares):
        costs = [runs_per_landing(members, each, share, seeds, pairs=pairs) for each in slots]
        found = f"{share:.0%}, {'each of a red pair' if pairs else 'red alone'}"
        rows.append((found, f"{costs[0][1]:.2f}", *(f"{trains:.2f}" for trains, _ in costs)))
    return table(("ejected", "one by one", *(f"C {each}" for each in slots)), rows)


def slots_table(cell: Cell, slots: Sequence[int], seeds: Sequence[int], pulls: int) -> str:
    """Return what fewer runs at once cost in waits, and save in runs."""
    rows = []
    for each in slots:
        ours = [measure(OURS, replace(cell, slots=each), seed, pulls) for seed in seeds]
        oracles = [measure(ORACLE, cell, seed, pulls) for seed in seeds]
        landed = sum(len(found.outcome.order) for found in ours)
        waits = mean_ratio((a.minutes(0.95), b.minutes(0.95)) for a, b in zip(ours, oracles, strict=True))
        runs, innocents = (sum(getattr(found.outcome, name) for found in ours) for name in ("runs", "innocents"))
        rows.append((f"C {each}", f"{runs / landed:.2f}", f"{100 * innocents / landed:.1f}", f"{waits:.1f}"))
    return table(
        ("runs at once", "runs per landing", "innocents per 100", f"p95 over the oracle's at C {cell.slots}"), rows
    )


class _Outcomes(Simulation):
    """A simulation that counts what came of each run."""

    def __init__(self, policy: str, cell: Cell, seed: int, pulls: int) -> None:
        truth = DrawnTruth(cell, seed)
        super().__init__(truth, POLICIES[policy](truth), pulls)
        self._good: dict[int, bool] = {}
        self._ended: set[int] = set()
        self._landed: set[int] = set()

    def _happen(self, kind: str, number: int) -> bool:
        if kind == "end" and number in self._active:
            self._ended.add(number)
        return super()._happen(kind, number)

    def _start(self, content: tuple[int, ...]) -> None:
        super()._start(content)
        self._good[self._order] = self.truth.good(content, self._landed_set)

    def _land(self, number: int) -> None:
        super()._land(number)
        self._landed.add(number)

    def counted(self) -> Counter[str]:
        """Simulate, and return how many runs had each outcome."""
        self.run()
        return Counter(self._outcome(number) for number in self._runs)

    def _outcome(self, number: int) -> str:
        run = self._runs[number]
        if number not in self._ended:
            return "cancelled: its outcome was known, or what lies beneath it failed"
        if run.passes:
            return "passed, and landed" if number in self._landed else "passed, and landed with another run"
        if self._good[number]:
            return "flaked"
        return "failed: a bad one alone" if len(run.content) == 1 else "failed: a bad one among others"


def runs_table(cell: Cell, seeds: Sequence[int], pulls: int) -> str:
    """Return what came of the runs, for each landing, of ours and of the oracle."""
    counts = dict[str, Counter[str]]()
    for policy in (OURS, ORACLE):
        found = (_Outcomes(policy, cell, seed, pulls) for seed in seeds)
        counts[policy] = sum(((each.counted() + Counter(landed=len(each.outcome.order))) for each in found), Counter())
    landed = {policy: count.pop("landed") for policy, count in counts.items()}
    rows = [(name, *(f"{counts[each][name] / landed[each]:.2f}" for each in counts)) for name in sorted(counts[OURS])]
    rows.append(("all", *(f"{counts[each].total() / landed[each]:.2f}" for each in counts)))
    return table(("what came of a run", *(f"{policy}: runs per landing" for policy in counts)), rows)


def losses_table(found: Sequence[Sample]) -> str:
    """Return the cells in which the reference was faster for the slowest pull requests."""
    lost = [(ours, other) for ours, _, other in found if 0 < other.minutes(0.95) < ours.minutes(0.95)]
    lost.sort(key=lambda pair: pair[1].minutes(0.95) / pair[0].minutes(0.95))
    return table(
        ("cell", "IMQ p95 min", f"{REFERENCE} p95 min", "ratio"),
        (
            (
                cell_name(ours.cell),
                f"{ours.minutes(0.95):.0f}",
                f"{other.minutes(0.95):.0f}",
                f"{other.minutes(0.95) / ours.minutes(0.95):.2f}",
            )
            for ours, other in lost
        ),
    )


def cell_name(cell: Cell) -> str:
    """Return a cell in words."""
    slots = "unlimited" if cell.slots == UNLIMITED else str(cell.slots)
    words = [f"{cell.per_hour:g} per hour", f"CI {cell.minutes:g} min", f"p {100 * cell.bad:g} %"]
    words += [f"f {100 * cell.flakes:g} %", f"C {slots}"]
    return ", ".join(words + ([f"conflicts {cell.conflicts:g}"] if cell.conflicts else []))


def figure(value: float) -> str:
    """Return a figure of a table."""
    return f"{value:.0f}" if value == int(value) or value >= 100 else f"{value:.2f}"
