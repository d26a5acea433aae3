"""Run the demo from its start to its verdict, for `imq demo`."""

import asyncio
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta

from rich.console import Console
from rich.live import Live
from rich.text import Text

from imq_demo import report
from imq_demo.environment import BASE, LABEL, open_environment, wait_for_interrupt
from imq_demo.observe import contradictions_left
from imq_demo.scenario import Scenario, plan
from imq_demo.scenario_runner import ScenarioRunner
from imq_demo.table import Row, changed, render, rows_of
from imq_demo.trains.run import run_trains
from imq_demo.verdict import Verdict

_POLL_SECONDS = 0.1
_LIMIT_SECONDS = 600.0
"""Of real time at speed 1, far more than the scenario takes; lower speeds get more."""
_PLAIN_WIDTH = 140
"""Columns without a terminal."""


def run_demo(
    speed: float,
    seed: int,
    keep_open: bool,
    *,
    lag: float = 0.0,
    trains: bool = False,
    failing: float = 0.1,
    pairs: bool = False,
) -> int:
    """Run the demo, and return its exit code: 0 if all promises held, 1 if not, 130 if it was interrupted.

    `speed` scales the emulator's time, CI included; the bot lives in real time. `seed` decides order, pauses and names.
    `lag`: how old the state is that GitHub's reads show, in seconds of the emulator's time. `trains`: compare landings
    in sequence and in trains instead. `failing`, `pairs`: the share that leaves there, and whether in pairs.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PLAIN_WIDTH)
    try:
        if trains:
            return asyncio.run(
                run_trains(console, speed=speed, seed=seed, lag=lag, failing=failing, pairs=pairs, keep_open=keep_open)
            )
        return asyncio.run(run_scenario(plan(seed), console, speed=speed, seed=seed, lag=lag, keep_open=keep_open))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("Interrupted.")
        return 130
    except Exception as error:
        console.print(Text(f"The demo failed: {error!r}", style="bold red"))
        for note in getattr(error, "__notes__", ()):
            console.print(Text(note))
        return 1


async def run_scenario(
    scenario: Scenario, console: Console, *, speed: float, seed: int, lag: float = 0.0, keep_open: bool = False
) -> int:
    """Set up the environment, perform the scenario, and print the result; return the exit code."""
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    # SIGINT cancels by itself under `asyncio.run`; a platform's SIGTERM shall clean up as well.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    console.print(f"A local GitHub and the bot start (speed {speed:g}, seed {seed})...")
    async with open_environment(scenario, speed=speed, seed=seed) as environment:
        environment.server.lag.set(timedelta(seconds=lag))
        console.print(Text(f"IMQ's pages: {environment.bot.url}/"))
        began = time.monotonic()
        runner = ScenarioRunner(environment, scenario)
        in_time = await _watch(console, runner, began + _LIMIT_SECONDS * max(1.0, 1 / speed))
        url = f"sqlite:///{environment.database}"
        left = await contradictions_left(url, environment.github, environment.app)
        verdict = Verdict((*report.verdict_of(runner).problems, *left))
        if not in_time:
            verdict = Verdict(("it was not finished in time", *verdict.problems))
        await report.show(console, runner, verdict, timedelta(seconds=time.monotonic() - began))
        if verdict.problems:
            environment.bot.keeps_log = True
            console.print(Text(f"The bot's log: {environment.bot.log}"))
        if keep_open:
            await _keep_open(console, runner)
        return verdict.exit_code


async def _watch(console: Console, runner: ScenarioRunner, deadline: float) -> bool:
    """Perform the scenario and show its progress; return whether it finished before the deadline."""
    with ExitStack() as stack:
        live = None
        if console.is_terminal:
            live = stack.enter_context(Live(console=console, auto_refresh=False))
        before: list[Row] = []
        while True:
            runner.advance()
            rows = rows_of(runner.observed(), runner.queue, runner.latest)
            _show(console, live, runner, before, rows)
            before = rows
            if runner.finished:
                return True
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS / max(1.0, runner.environment.speed))


def _show(
    console: Console, live: Live | None, runner: ScenarioRunner, before: Sequence[Row], rows: Sequence[Row]
) -> None:
    seconds = runner.elapsed.total_seconds()
    if live is not None:
        live.update(
            render(rows, title=f"{runner.environment.repository.full_name} after {seconds:.0f} s"), refresh=True
        )
        return
    for row in changed(before, rows):
        console.print(Text(f"{seconds:6.1f} s  {row.line}"), soft_wrap=True)


async def _keep_open(console: Console, runner: ScenarioRunner) -> None:
    """Keep everything running until Ctrl-C, and print how to use it."""
    environment = runner.environment
    login = runner.scenario.maintainer
    token = environment.server.user_token(login)
    repository = f"{environment.server.url}/repos/{environment.repository.full_name}"
    issues = f"{repository}/issues"
    header = f"-H 'Authorization: Bearer {token}'"
    number = next((pull.number for pull in runner.pulls.values() if pull.state == "open"), 1)
    lines = (
        f"  the pages          {environment.bot.url}/, where you log in as {login}, or as anybody",
        f"  the command line   imq login {environment.bot.url}; in a clone then imq status, imq why, imq land --wait",
        f"  the bot            {environment.bot.url}/readyz, log {environment.bot.log}",
        f"  the GitHub API     {environment.server.url}",
        f"  the repository     git clone {environment.server.clone_url(environment.repository.full_name, login)}",
        f"  open one of yours  push a branch, then curl {header} {repository}/pulls "
        f'-d \'{{"title": "Mine", "head": "BRANCH", "base": "{BASE}"}}\'',
        f'  label one again    curl {header} {issues}/{number}/labels -d \'{{"labels": ["{LABEL}"]}}\'',
        f"  read its comment   curl {header} {issues}/{number}/comments",
        f"  what may be queued curl {header} '{repository}/pulls?state=open'",
    )
    await wait_for_interrupt(console, lines, [environment.bot])
