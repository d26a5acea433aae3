"""Print lines, tables and JSON, define the options that commands share, and end a command with its code."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
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


class CommandRefused(click.ClickException):
    """A command cannot run. The message says why in one sentence, with the way out."""

    exit_code = 2


def echo(text: str, *, err: bool = False) -> None:
    """Print text without control characters; all commands print by this."""
    click.echo(printable(text), err=err)


def echo_json(data: Any) -> None:
    """Print data as JSON for programs."""
    echo(json.dumps(data, indent=2, ensure_ascii=False))


def stop(code: ExitCode, sentence: str | None = None) -> NoReturn:
    """Print why the command ends, if it is not done, and end it."""
    if sentence is not None:
        echo(f"Error: {sentence}", err=True)
    sys.exit(int(code))


def table(rows: Iterable[Sequence[str]], *, numbers: bool = False) -> Iterator[str]:
    """Align cells in columns; with `numbers` all but the first column at their right."""
    lines = [tuple(map(on_one_line, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [str.ljust, *([str.rjust if numbers else str.ljust] * len(widths))]
    for row in lines:
        yield "  ".join(side(cell, width) for side, cell, width in zip(aligned, row, widths, strict=False)).rstrip()


def columns(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table with a heading."""
    return "\n".join(table((titles, *rows)))


def instant(at: datetime | None) -> str:
    """Format an instant to the second, in UTC; a dash for None."""
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


class RepositoryName(click.ParamType[str]):
    """A repository's name with its owner."""

    name = "OWNER/REPO"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name as it was typed. Raises BadParameter for one without an owner."""
        owner, _, repository = value.partition("/")
        if not owner or not repository or "/" in repository:
            self.fail("write OWNER/REPO, such as acme/rocket", param, ctx)
        return value


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
page_option = click.option(
    "--html", "page", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Also write a page."
)


class Progress:
    """A bar on the error stream, if that is a terminal."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._shown = total, 0, sys.stderr.isatty()

    def __enter__(self) -> "Progress":
        """Show nothing yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        self.clear()

    def step(self) -> None:
        """Count one landing; draw the bar for every hundredth part."""
        self._done += 1
        if self._shown and (self._done % max(1, self._total // 100) == 0):
            part = self._done / self._total
            click.echo(f"\r[{'#' * int(30 * part):30}] {part:4.0%} of {self._total:,}", nl=False, err=True)

    def announce(self, text: str) -> None:
        """Show what is being done, until it is cleared."""
        if self._shown:
            click.echo(text, nl=False, err=True)

    def clear(self) -> None:
        """Remove the bar, so that a line can take its place."""
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)
