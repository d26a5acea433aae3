"""Print the output of commands, and why one cannot run."""

import click

from bot.logs.printable import printable


class CommandRefused(click.ClickException):
    """A command cannot run. The message says why in one sentence, with the way out."""

    exit_code = 2


def echo(text: str, *, err: bool = False) -> None:
    """Print text without control characters; all commands print by this."""
    click.echo(printable(text), err=err)


class RepositoryName(click.ParamType[str]):
    """A repository's name with its owner."""

    name = "OWNER/REPO"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name as it was typed. Raises BadParameter for one without an owner."""
        owner, _, repository = value.partition("/")
        if not owner or not repository or "/" in repository:
            self.fail("write OWNER/REPO, such as acme/rocket", param, ctx)
        return value
