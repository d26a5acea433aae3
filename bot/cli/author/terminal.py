"""Print lines for people and JSON for programs, and stop with an exit code."""

import json
import os
import sys
from enum import IntEnum
from typing import Any, NoReturn

import click

from bot.logs.printable import on_one_line, printable


class ExitCode(IntEnum):
    """How a command ended. `docs/command-line.md` has what each means; a test compares both."""

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
