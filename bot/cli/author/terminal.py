"""Print an answer of the API for people: states in colour, what a pull request waits for, and queues."""

import os
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import click

from bot.cli.console import table
from bot.logs.printable import on_one_line

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
    yield from (f"  {line}" for line in table(rows))
