"""Print the output of commands, and why one cannot run."""

import click

from bot.logs.printable import printable


class CommandRefused(click.ClickException):
    """A command cannot run. The message says why in one sentence, with the way out."""

    exit_code = 2


def echo(text: str, *, err: bool = False) -> None:
    """Print text without control characters; all commands print by this."""
    click.echo(printable(text), err=err)
