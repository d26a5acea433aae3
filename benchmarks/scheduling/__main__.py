"""`python -m benchmarks.scheduling`: compare policies, write `docs/scheduling.md`.

Exit code 1: a goal was missed that its bound leaves room for. Each missed goal is printed with its bound.
"""

import time
from pathlib import Path

import click

from benchmarks.scheduling.cells import Cell
from benchmarks.scheduling.goals import FLAKY, FRESH_SEEDS, TUNING_SEEDS, goals, samples
from benchmarks.scheduling.grid import cells, extra_cells, measure
from benchmarks.scheduling.policies import POLICIES
from benchmarks.scheduling.report import (
    cell_name,
    costs_table,
    goals_table,
    losses_table,
    policies_table,
    runs_table,
    slots_table,
)

_DOCUMENT = Path(__file__).parents[2] / "docs" / "scheduling.md"
_COSTS = (
    "CI runs per landing where 40 pull requests are queued at once, mean of 20 queues. One by one, a failed check runs "
    "a second time, as IMQ has it. At the start IMQ knows nothing of the share that fails."
)
_OF_RUNS = range(101, 125)
"""The seeds of `flaky.toml`."""
_START = "<!-- measured: make bench-scheduling -->"


@click.command()
@click.option("--full", is_flag=True, help="The whole grid with conflicts; hours instead of minutes.")
@click.option("--pulls", default=500, show_default=True, help="Pull requests in each simulation.")
@click.option("--scenarios", default=5000, show_default=True, help="Short queues with pairs and triples that are red.")
@click.option("--write/--no-write", default=True, show_default=True, help="Write the tables into docs/scheduling.md.")
def main(full: bool, pulls: int, scenarios: int, write: bool) -> None:
    """Measure the planner of trains against an oracle and the rules of other merge queues."""
    start = time.monotonic()
    grid = list(cells(full))
    fresh = samples(grid, FRESH_SEEDS, pulls)
    reached = goals(fresh, FRESH_SEEDS, pulls, scenarios)
    before = goals(samples(grid, TUNING_SEEDS, pulls), TUNING_SEEDS, pulls, scenarios)
    teams = {
        "a busy team": Cell(10, 30, 0.1, 0.02, 4),
        "a monorepo": Cell(40, 10, 0.1, 0.0, 16),
        "few pull requests, and CI that flakes": FLAKY,
        **extra_cells(),
    }
    parts = [
        f"{len(grid)} feasible cells of the grid{' (full)' if full else ''}, {pulls} pull requests each.",
        goals_table(reached, before),
        "### What trains cost",
        _COSTS,
        costs_table(40, (1, 2, 4, 8), (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5), range(20)),
        "The same with 150 pull requests:",
        costs_table(150, (1, 2, 4, 8), (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5), range(5)),
    ]
    parts += ["### Fewer runs at once, and CI that flakes", f"{cell_name(FLAKY)}."]
    parts.append(slots_table(FLAKY, (1, 2, 3, 4), FRESH_SEEDS, pulls))
    parts += ["### What comes of the runs", f"{cell_name(FLAKY)}, {len(_OF_RUNS)} seeds."]
    parts.append(runs_table(FLAKY, _OF_RUNS, pulls))
    for name, cell in teams.items():
        rows = ((policy, measure(policy, cell, FRESH_SEEDS[0], pulls)) for policy in POLICIES)
        parts += [f"### {name[:1].upper()}{name[1:]}", f"{cell_name(cell)}.", policies_table(rows)]
    parts += ["### Cells that IMQ loses", losses_table(fresh)]
    text = "\n\n".join(parts)
    click.echo(text)
    click.echo(f"took {time.monotonic() - start:.0f} s", err=True)
    if write:
        text_before, _, _ = _DOCUMENT.read_text(encoding="utf-8").partition(_START)
        _DOCUMENT.write_text(f"{text_before}{_START}\n\n{text}\n", encoding="utf-8")
    for each in (missed := [each for each in reached if each.missed]):
        click.echo(f"{each.name}: {each.value:.2f} for {each.must:g}, {each.verdict}", err=True)
    if any(each.possible for each in missed):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
