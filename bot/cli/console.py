"""Print the output of commands."""

import click

from bot.logs.printable import printable


def echo(text: str, *, err: bool = False) -> None:
    """Print what people or their programs read; all commands print by this."""
    click.echo(printable(text), err=err)
