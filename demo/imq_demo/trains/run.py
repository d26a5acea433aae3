"""Run the comparison from its start to its verdict, for `imq demo --trains`."""

import asyncio
import signal
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import chain, pairwise

from rich.console import Console
from rich.table import Table
from rich.text import Text

from imq_demo.environment import wait_for_interrupt
from imq_demo.trains.figures import Figures, problems
from imq_demo.trains.landing import LandingMode, ModeRun, open_mode
from imq_demo.trains.train_changes import TrainChange, changes_of

MODES = (LandingMode(0), LandingMode(1), LandingMode(4))
_COUNT = 24
_LIMIT_SECONDS = 600.0
_REPORT_SECONDS = 10.0


async def run_trains(
    console: Console,
    *,
    speed: float,
    seed: int,
    lag: float = 0.0,
    failing: float = 0.1,
    pairs: bool = False,
    keep_open: bool = False,
) -> int:
    """Land the pull requests in three modes side by side, print the figures, and return the exit code.

    `failing`: the share that is to leave; `pairs`: each of them fails together with another one, and not alone.
    """
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    changes = changes_of(_COUNT, failing, seed, pairs=pairs)
    console.print(f"Three local GitHubs and three bots start (speed {speed:g}, seed {seed})...")
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(open_mode(each, changes, speed=speed, seed=seed, lag=lag)) for each in MODES
        ]
        for each in opened:
            console.print(Text(f"The queue of {each.mode.name}: {each.page}"), soft_wrap=True)
        deadline = time.monotonic() + _LIMIT_SECONDS * max(1.0, 1 / speed)
        console.print(f"{_COUNT} pull requests pass alone; {failing_words(changes)}.")
        in_time = await _land(console, opened, deadline)
        found = [each.figures() for each in opened]
        console.print(figures_table(found))
        console.print(Text(sooner_words(found)))
        left = [await each.contradictions() for each in opened]
        faults = (*(() if in_time else ("it was not finished in time",)), *problems(found), *chain(*left))
        for each in opened if faults else ():
            each.parts.bot.keeps_log = True
            console.print(Text(f"The bot's log ({each.mode.name}): {each.parts.bot.log}"))
        code = _show_verdict(console, found, faults)
        if keep_open:
            await wait_for_interrupt(console, keep_open_lines(opened), [each.parts.bot for each in opened])
        return code


def failing_words(changes: Sequence[TrainChange]) -> str:
    """Say which pull requests are to leave."""
    if paired := sum(change.partner is not None for change in changes):
        return f"{paired // 2} pairs of them fail together"
    return f"{sum(change.bad for change in changes)} of them fail on the base that has moved since"


def saved_words(found: Sequence[Figures]) -> str:
    """Say how many CI runs trains took beside landings one by one, the first of these figures."""
    first, *trains = found
    return ", ".join(
        f"{each.name} {abs(first.runs - each.runs)} CI runs {'fewer' if each.runs <= first.runs else 'more'}"
        for each in trains
    )


def sooner_words(found: Sequence[Figures]) -> str:
    """Say how much sooner each mode ended than the one before it."""
    pairs = ((each, before, round(before.seconds - each.seconds)) for before, each in pairwise(found))
    return (
        "; ".join(
            f"{each.name} ended {abs(gained)} s {'sooner' if gained >= 0 else 'later'} than {before.name}"
            for each, before, gained in pairs
        ).capitalize()
        + "."
    )


def keep_open_lines(opened: Sequence[ModeRun]) -> list[str]:
    """Say where to look at each mode."""
    lines = []
    for each in opened:
        clone_url = each.parts.server.clone_url(each.parts.repository.full_name, each.maintainer)
        lines += [
            f"  {each.mode.name}",
            f"    the queue          {each.page}, where you log in as {each.maintainer}, or as anybody",
            f"    what trains saved  {each.page}/statistics",
            f"    the bot's log      {each.parts.bot.log}",
            f"    the repository     git clone {clone_url}",
        ]
    return lines


def figures_table(found: Sequence[Figures]) -> Table:
    """Return the modes side by side."""
    table = Table(
        "", *(each.name for each in found), title=f"{_COUNT} pull requests, {len(found)} modes", title_justify="left"
    )
    lines = (
        ("landed / ejected", [f"{len(each.landed)} / {each.ejected}" for each in found]),
        ("CI runs", [str(each.runs) for each in found]),
        ("CI runs per landing", [f"{each.runs_per_landing:.2f}" for each in found]),
        ("time in queue, median", [f"{each.waited[0]:.0f} s" for each in found]),
        ("time in queue, longest", [f"{each.waited[1]:.0f} s" for each in found]),
        ("all done after", [f"{each.seconds:.0f} s" for each in found]),
        ("requests to GitHub per landing", [f"{each.requests_per_landing:.1f}" for each in found]),
        ("red base", [str(each.red) for each in found]),
    )
    for name, cells in lines:
        table.add_row(name, *cells)
    return table


async def _land(console: Console, opened: Sequence[ModeRun], deadline: float) -> bool:
    """Queue all pull requests in every mode, and report progress until all modes are done."""
    await asyncio.gather(*(each.open_all(deadline) for each in opened))
    waiting = asyncio.gather(*(each.wait(deadline) for each in opened))
    try:
        while not waiting.done():
            await asyncio.wait((waiting,), timeout=_REPORT_SECONDS)
            console.print(Text(", ".join(f"{each.mode.name}: {each.resolved} of {len(each.pulls)}" for each in opened)))
        return all(waiting.result())
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


def _show_verdict(console: Console, found: Sequence[Figures], faults: Sequence[str]) -> int:
    if faults:
        console.print(Text("Verdict: not as promised.", style="bold red"))
        for fault in faults:
            console.print(Text(f"  - {fault}"))
        return 1
    text = "Verdict: red base 0; a run tested each tree that landed, and every good pull request landed; "
    text += f"{saved_words(found)}."
    console.print(Text(text, style="bold green"))
    return 0
