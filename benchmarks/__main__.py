"""`python -m benchmarks`: run the measures and print one table.

Exit code 1 when a goal was missed or a measure failed, 130 when it was interrupted (Ctrl-C).
"""

import asyncio
import logging
import os
import platform
import time
import traceback
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from pathlib import Path

import click
import structlog
from rich.console import Console

from benchmarks.agents import agents_row
from benchmarks.burst import burst_row
from benchmarks.company import company_rows
from benchmarks.fair_share import fair_share_row
from benchmarks.fairness import fairness_rows
from benchmarks.footprint import footprint_rows
from benchmarks.history import history_rows
from benchmarks.idle import idle_rows
from benchmarks.jobs import jobs_rows
from benchmarks.kills import kills_row
from benchmarks.merging import requests_rows, ten_row
from benchmarks.pages import pages_rows
from benchmarks.planning import planning_row
from benchmarks.proofs import record_rows
from benchmarks.reaction import reaction_row
from benchmarks.rebases import rebases_row
from benchmarks.sizes import Size
from benchmarks.stage import READS_LAG
from benchmarks.strangers import strangers_row
from benchmarks.table import Row, save, show
from benchmarks.train_share import train_share_row
from benchmarks.trains import trains_rows
from benchmarks.workers import workers_rows

Measure = Callable[[Size, int], Coroutine[None, None, list[Row]]]
"""Takes a measure of this size with this seed of every random choice."""

MEASURES: dict[str, Measure] = {
    "reaction": reaction_row,
    "requests": requests_rows,
    "ten": ten_row,
    "kills": kills_row,
    "idle": idle_rows,
    "footprint": footprint_rows,
    "workers": workers_rows,
    "fairness": fairness_rows,
    "fair-share": fair_share_row,
    "agents": agents_row,
    "train-share": train_share_row,
    "rebases": rebases_row,
    "trains": trains_rows,
    "planning": planning_row,
    "strangers": strangers_row,
    "company": company_rows,
    "burst": burst_row,
    "jobs": jobs_rows,
    "pages": pages_rows,
    "record": record_rows,
    "history": history_rows,
}
_INTERRUPTED = 130


@click.command()
@click.option("--quick", is_flag=True, help="Small figures: does it run, not how good is it.")
@click.option("--seed", default=1, show_default=True, help="Of every random choice.")
@click.option("--lag", default=0.0, show_default=True, help="Seconds: the state that GitHub's reads show is this old.")
@click.option("--landings", default=96, show_default=True, help="With how many pull requests trains are timed.")
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write the rows here as well.")
@click.option(
    "--only", multiple=True, type=click.Choice(tuple(MEASURES)), help="Run this measure alone; may be repeated."
)
def main(quick: bool, seed: int, lag: float, landings: int, file: Path | None, only: tuple[str, ...]) -> None:
    """Measure IMQ against its goals and references.

    A measure that fails is a row of the table. The file is written again after each measure, so that it has what was
    measured however this ends.
    """
    console, errors = Console(width=None if Console().is_terminal else 200), Console(stderr=True)
    # What the bot has to say would stand between the lines of the table; its processes write to files.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    logging.disable(logging.WARNING)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    READS_LAG.set(timedelta(seconds=lag))
    size, start = Size.QUICK if quick else Size.FULL, time.monotonic()
    measures: dict[str, Measure] = {**MEASURES, "trains": partial(trains_rows, landings=landings)}
    rows, left = list[Row](), list(only or MEASURES)
    about: dict[str, object] = {"seed": seed, "lag": lag, "quick": quick, "cores": cores}

    def keep() -> None:
        if file is not None:
            save(file, rows, {**about, "seconds": round(time.monotonic() - start, 1), "left": left})

    try:
        keep()
    except OSError as error:
        raise click.FileError(str(file), error.strerror or str(error)) from error
    try:
        while left:
            errors.print(f"measuring {left[0]} ...", style="dim")
            rows += _rows(left[0], measures[left[0]], size, seed)
            del left[0]
            keep()
    except KeyboardInterrupt:
        errors.print(f"interrupted; not measured: {', '.join(left)}", style="bold red")
    took = time.monotonic() - start
    words = (
        f"seed {seed}, {cores} cores, Python {platform.python_version()}, {took:.0f} s"
        + (f", reads {lag:g} s late" if lag else "")
        + (", QUICK" * quick)
        + (", INTERRUPTED" * bool(left))
    )
    show(console, rows, f"IMQ measured ({words})")
    if left:
        raise SystemExit(_INTERRUPTED)
    if any(row.met is False for row in rows):
        raise SystemExit(1)


def _rows(name: str, measure: Measure, size: Size, seed: int) -> list[Row]:
    """Return the rows of a measure, or one that says why it failed; its traceback goes to standard error."""
    try:
        return asyncio.run(measure(size, seed))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a measure may end with SystemExit or CancelledError as well
        traceback.print_exc()
        return [Row.failed(name, error)]


if __name__ == "__main__":
    main()
