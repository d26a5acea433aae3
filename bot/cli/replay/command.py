"""`imq replay`: what merge queues would have made of the history of a clone."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

import click

from bot.cli.console import ExitCode, Progress, echo, echo_json, json_option, page_option, stop

_FILE = click.Path(dir_okay=False, path_type=Path)


class Share(click.ParamType[float]):
    """A share, as `10%` or `0.1`, below nine in ten."""

    name = "SHARE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the option."""
        text = str(value)
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 0.9:
            self.fail("write a share from 0% to 90%, such as 10% or 0.1", param, ctx)
        return share


class Runs(click.ParamType[tuple[int, ...]]):
    """How many runs trains may have at once: one number or several, with commas between."""

    name = "N,N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Parse the option."""
        if isinstance(value, tuple):
            return value
        numbers = str(value).split(",")
        if not all(each.strip().isdecimal() and 1 <= int(each) <= 16 for each in numbers):
            self.fail("write numbers from 1 to 16 with commas between, such as 1,2,4", param, ctx)
        return tuple(sorted({int(each) for each in numbers}))


class _Amount(click.FloatRange):
    """A finite number of minutes or dollars."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the option."""
        amount = float(super().convert(value, param, ctx))
        if not isfinite(amount):
            self.fail("write a number, such as 20", param, ctx)
        return amount


_MINUTES = _Amount(min=0.1, max=10_000)


@click.command()
@click.argument("range_", metavar="[RANGE]", required=False)
@click.option("--timeline", type=_FILE, help="IMQ's timeline, as `imq export --timeline` writes it.")
@click.option("--checks", type=_FILE, help="Workflow runs, as `gh run list --json` or GitHub's API lists them.")
@click.option("--ci-time", metavar="MINUTES", type=_MINUTES, help="How long a CI run takes.")
@click.option("--failures", type=Share(), help="Share of pull requests whose checks fail.")
@click.option("--flakes", type=Share(), help="Share of runs that fail although their tree is good.")
@click.option("--conflicts", type=Share(), help="Chance that neighbours that change one file break together.")
@click.option("--minutes", metavar="MINUTES", type=_MINUTES, help="Minutes of all jobs of a CI run.")
@click.option("--price", metavar="DOLLARS", type=_Amount(min=0, max=1000), help="Price of a minute.")
@click.option("--runs", type=Runs(), default=(1, 2, 4), help="Runs at once of trains, such as 1,2,4 (the default).")
@click.option("--all", "every", is_flag=True, help="Also replay GitLab-like, Zuul-like, bors-like and other queues.")
@click.option("--pushes", is_flag=True, help="Count direct pushes as pull requests, too.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(2, 100), default=5, show_default=True, help="How many seeds.")
@json_option
@page_option
def replay(  # noqa: PLR0913
    range_: str | None,
    timeline: Path | None,
    checks: Path | None,
    runs: tuple[int, ...],
    every: bool,
    pushes: bool,
    seed: int,
    seeds: int,
    as_json: bool,
    page: Path | None,
    **given: float | None,
) -> None:
    """Simulate merge queues on the history of a clone: waits, CI runs and what they cost.

    It needs git alone. RANGE is git's, such as `v1.0..main`; the default is the last 90 days of HEAD. What the history
    does not show is assumed, and the output says so. The same seed gives the same answer.
    """
    # The planner, and what it needs, takes longer to import than the help takes to print.
    from bot.cli.clone.history import HistoryError
    from bot.cli.clone.report_page import write_page
    from bot.cli.replay.history_files import FileError
    from bot.cli.replay.page import replay_page
    from bot.cli.replay.report import read

    try:
        with _announced("Reading the history…"):
            found = read(range_, timeline, checks, given, pushes=pushes)
        plots = page is not None
        with Progress(found.simulations(runs, seeds, every=every, plots=plots)) as progress:
            found.simulate(runs, range(seed, seed + seeds), progress.step, every=every, plots=plots)
    except (HistoryError, FileError) as error:
        stop(ExitCode.USAGE, str(error))
    except KeyboardInterrupt:
        stop(ExitCode.INTERRUPTED, "Stopped.")
    if page is not None:
        write_page(page, replay_page(found))
    if as_json:
        echo_json(found.as_json())
    else:
        echo("\n".join(found.lines()))


@contextmanager
def _announced(text: str) -> Iterator[None]:
    """Show what is being done, on the error stream of a terminal, while it takes long."""
    with Progress(1) as progress:
        progress.announce(text)
        yield
