"""Print lines for people and JSON for programs, and stop with an exit code."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
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


def say_message(message: Any) -> None:
    """Print JSON as one line, for a program that reads lines."""
    click.echo(json.dumps(message))


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


Answer = Mapping[str, Any]


def state_word(answer: Answer) -> str:
    """Return one word: how it left its queue, or its state within."""
    if answer["state"] == "not_queued":
        return str(answer.get("outcome") or "not queued")
    return str(answer["state"])


def state_line(answer: Answer) -> str:
    """Return one line: state, position and the sentence. Two answers with the same line show no change."""
    entry = answer.get("entry")
    place = f" at position {entry['position'] + 1} for {answer['base_branch']}" if entry else ""
    sentence = answer["sentence"].replace("`", "")
    return f"{state_word(answer)}{place}: {sentence}"


def details(answer: Answer) -> Iterator[str]:
    """Yield the lines below it: why it waits, failing checks, progress, the estimate, and what to do next."""
    sentences = answer.get("sentences", ())
    yield from (f"  {sentence}" for sentence in sentences)
    if not sentences and answer.get("detail"):
        yield f"  {answer['detail']}"
    for each in answer.get("failing", ()):
        jobs = f" ({', '.join(each['jobs'])})" if each["jobs"] else ""
        yield f"  failing: {each['check']}{jobs}{' ' + each['url'] if each['url'] else ''}"
    entry = answer.get("entry") or {}
    train = entry.get("train") or {}
    if train.get("reported"):
        yield f"  reported: {train['reported']}"
    if entry.get("eta"):
        yield f"  lands: {estimate(entry['eta'])}"
    if not sentences and answer.get("next"):
        yield f"  next: {answer['next']['sentence']}"


def estimate(eta: Answer) -> str:
    """Format when an entry is likely to land, in local time."""
    earliest, latest = (datetime.fromisoformat(eta[name]).astimezone() for name in ("earliest", "latest"))
    return f"between {earliest:%H:%M} and {latest:%H:%M}"


def queue_lines(queue: Answer) -> Iterator[str]:
    """Yield a queue as a heading, its blockers, and a line for each entry."""
    held = f", {queue['held']} waiting for room" if queue["held"] else ""
    outside = f", {queue['not_ready']} not ready" if queue.get("not_ready") else ""
    yield f"{queue['repository']} {queue['base_branch']}: {queue['depth']} queued{held}{outside}"
    for halt in queue["blockers"]:
        until = f", until {datetime.fromisoformat(halt['until']).astimezone():%Y-%m-%d %H:%M}" if halt["until"] else ""
        yield f"  blocked: {halt['reason']}{' (' + halt['detail'] + ')' if halt['detail'] else ''}{until}"
    rows = [
        (
            str(entry["position"] + 1),
            f"#{entry['number']}",
            entry["status"],
            entry["title"],
            entry["author"],
            f"waits for {', '.join(entry['pending_checks'])}" if entry["pending_checks"] else "",
        )
        for entry in queue["entries"]
    ]
    yield from table(rows)


def table(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> Iterator[str]:
    """Align cells in columns; with `numbers` all but the first column at their right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    aligned = [str.ljust, *([str.rjust if numbers else str.ljust] * len(widths))]
    for row in rows:
        cells = (side(cell, width) for side, cell, width in zip(aligned, row, widths, strict=False))
        yield f"  {'  '.join(cells)}".rstrip()


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
