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

from bot.demo import report
from bot.demo.play import Play
from bot.demo.stage import LABEL, open_stage
from bot.demo.story import Story, tell
from bot.demo.table import Row, changed, render, rows_of
from bot.demo.verdict import Verdict

_LOOK_SECONDS = 0.1
_LIMIT_SECONDS = 90.0
"""Of real time at speed 1, far beyond what the story takes; slower stories get more."""
_PLAIN_WIDTH = 140
"""Columns where there is no terminal to ask."""


def run_demo(speed: float, seed: int, keep_open: bool, *, lag: float = 0.0) -> int:
    """Run the demo; its exit code: 0 when everything held, 1 if not, 130 when it was interrupted before the end.

    `speed` scales the sandbox's time, CI included; the bot lives in real time. `seed` decides order, pauses and names.
    `lag`: how old the state is that GitHub's reads show, in seconds of the sandbox's time.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PLAIN_WIDTH)
    try:
        return asyncio.run(perform(tell(seed), console, speed=speed, seed=seed, lag=lag, keep_open=keep_open))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("Interrupted.")
        return 130
    except Exception as error:
        console.print(Text(f"The demo failed: {error!r}", style="bold red"))
        for note in getattr(error, "__notes__", ()):
            console.print(Text(note))
        return 1


async def perform(
    story: Story, console: Console, *, speed: float, seed: int, lag: float = 0.0, keep_open: bool = False
) -> int:
    """Set the stage, play the story, print the end; the exit code."""
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    # SIGINT cancels by itself under `asyncio.run`; a platform's SIGTERM shall clean up as well.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    console.print(f"A local GitHub and the bot start (speed {speed:g}, seed {seed})...")
    async with open_stage(story, speed=speed, seed=seed) as stage:
        stage.server.lag.set(timedelta(seconds=lag))
        began = time.monotonic()
        play = Play(stage, story)
        in_time = await _watch(console, play, began + _LIMIT_SECONDS * max(1.0, 1 / speed))
        verdict = report.verdict_of(play)
        if not in_time:
            verdict = Verdict(("it was not finished in time", *verdict.problems))
        await report.show(console, play, verdict, timedelta(seconds=time.monotonic() - began))
        if verdict.problems:
            stage.bot.keeps_log = True
            console.print(Text(f"The bot's log: {stage.bot.log}"))
        if keep_open:
            await _stay(console, play)
        return verdict.exit_code


async def _watch(console: Console, play: Play, deadline: float) -> bool:
    """Play on and show what is to be seen, until it is over; whether that was before the deadline."""
    with ExitStack() as stack:
        live = None
        if console.is_terminal:
            live = stack.enter_context(Live(console=console, auto_refresh=False))
        before: list[Row] = []
        while True:
            play.go_on()
            rows = rows_of(play.seen(), play.queue, play.latest)
            _show(console, live, play, before, rows)
            before = rows
            if play.over:
                return True
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_LOOK_SECONDS / max(1.0, play.stage.speed))


def _show(console: Console, live: Live | None, play: Play, before: Sequence[Row], rows: Sequence[Row]) -> None:
    seconds = play.elapsed.total_seconds()
    if live is not None:
        live.update(render(rows, title=f"{play.stage.repository.full_name} after {seconds:.0f} s"), refresh=True)
        return
    for row in changed(before, rows):
        console.print(Text(f"{seconds:6.1f} s  {row.line}"), soft_wrap=True)


async def _stay(console: Console, play: Play) -> None:
    """Leave everything running until Ctrl-C, and say how to act on it."""
    stage = play.stage
    token = stage.server.user_token(play.story.maintainer)
    issues = f"{stage.server.url}/repos/{stage.repository.full_name}/issues"
    header = f"-H 'Authorization: Bearer {token}'"
    number = next((pull.number for pull in play.pulls.values() if pull.state == "open"), 1)
    lines = (
        "\nEverything stays up until Ctrl-C.",
        f"  the bot            {stage.bot.url}/readyz, log {stage.bot.log}",
        f"  the GitHub API     {stage.server.url}",
        f"  the repository     git clone {stage.repository.record.git.path}",
        f'  label one again    curl {header} {issues}/{number}/labels -d \'{{"labels": ["{LABEL}"]}}\'',
        f"  read its comment   curl {header} {issues}/{number}/comments",
        f"  what may be queued curl {header} '{stage.server.url}/repos/{stage.repository.full_name}/pulls?state=open'",
    )
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    try:
        while True:
            stage.bot.check()
            await asyncio.sleep(1)
    except asyncio.CancelledError:
        # Ctrl-C is how this is meant to end: what was cancelled is the waiting, not the demo.
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        task.uncancel()
        console.print("Closing.")
