"""Print lines for people and JSON for programs, and stop with an exit code."""

import json
import os
import sys
from enum import IntEnum
from typing import Any, NoReturn

import click

from bot.logs.printable import on_one_line, printable


class ExitCode(IntEnum):
    """How a command ended. `docs/command-line.md` lists the same; a test compares both."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DEQUEUED = 3
    REFUSED = 4
    NOT_ALLOWED = 5
    UNREACHABLE = 6
    TIMED_OUT = 7
    BUSY = 8
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.DONE: "it landed; without `--wait` it is queued; the command printed what was asked for",
    ExitCode.FAILED: "it was ejected: a check failed, or it conflicts",
    ExitCode.USAGE: "the command cannot run here: wrong options, no clone, no pull request, other local commits",
    ExitCode.DEQUEUED: "it was dequeued: by a person, a push, a close, or another base branch",
    ExitCode.REFUSED: "IMQ refuses to queue it, and says why",
    ExitCode.NOT_ALLOWED: "not logged in, or not allowed here",
    ExitCode.UNREACHABLE: "IMQ did not answer, or could not",
    ExitCode.TIMED_OUT: "`--timeout` ended the wait; the pull request stays queued",
    ExitCode.BUSY: "the queue is full, or the caller made too many calls; try again later",
    ExitCode.INTERRUPTED: "Ctrl-C ended the wait; the pull request stays queued",
}


_COLORS = {
    "landed": "green",
    "failed": "red",
    "refused": "red",
    "cancelled": "yellow",
    "held": "yellow",
    "not_ready": "yellow",
    "checking": "cyan",
    "updating": "cyan",
    "ready": "green",
}


def say(text: str, *, err: bool = False) -> None:
    """Print lines without control characters."""
    click.echo(printable(text), err=err)


def say_json(answer: Any) -> None:
    """Print an answer of the API as it came."""
    say(json.dumps(answer, indent=2, ensure_ascii=False))


def stop(code: ExitCode, sentence: str | None = None) -> NoReturn:
    """Print why the command ends, if it is not done, and end it."""
    if sentence is not None:
        say(f"Error: {sentence}", err=True)
    sys.exit(int(code))


def say_line(line: str, word: str) -> None:
    """Print one line; on a terminal its word that names a state is coloured."""
    text = on_one_line(line)
    if word in _COLORS and _has_colors():
        text = text.replace(word, click.style(word, fg=_COLORS[word]), 1)
    click.echo(text)


def _has_colors() -> bool:
    """Whether people see colours: on a terminal, unless they set NO_COLOR (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
