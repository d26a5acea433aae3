"""Print the output of commands."""

import click

from bot.logs.printable import printable


def echo(text: str, *, err: bool = False) -> None:
    """Print text without control characters; all commands print by this."""
    click.echo(printable(text), err=err)
