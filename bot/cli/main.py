"""The command line: `imq`. Each command is imported when it is used, so that those of authors start fast."""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import click

from bot import __version__
from bot.cli.console import CommandRefused
from bot.logs.printable import printable
from bot.process.process_memory import imported_for_good

COMMANDS = {
    "run": "bot.cli.processes:run",
    "web": "bot.cli.processes:web",
    "worker": "bot.cli.processes:worker",
    "migrate": "bot.cli.processes:migrate",
    "resume": "bot.cli.processes:resume",
    "demo": "bot.cli.processes:demo",
    "doctor": "bot.cli.doctor:doctor",
    "token": "bot.cli.tokens:token",
    "jobs": "bot.cli.jobs:jobs",
    "backup": "bot.cli.backup:backup",
    "export": "bot.cli.queue_files:export_queues",
    "import": "bot.cli.queue_files:import_queues",
    "setup": "bot.cli.register:setup",
    "shadow": "bot.cli.shadow:shadow",
    "sinks": "bot.cli.sinks:sinks",
    "validate": "bot.cli.validate:validate",
    "login": "bot.cli.author.login:login",
    "logout": "bot.cli.author.login:logout",
    "land": "bot.cli.author.land:land",
    "status": "bot.cli.author.status:status",
    "why": "bot.cli.author.why:why",
}
"""Where each command is."""


class CommandTable(MutableMapping[str, click.Command]):
    """Commands by name, each imported at its first use."""

    def __init__(self, places: dict[str, str]) -> None:
        self._places = places
        self._imported: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        """Return a command. Raises KeyError for an unknown one."""
        if name not in self._imported:
            module, _, attribute = self._places[name].partition(":")
            with imported_for_good():
                self._imported[name] = getattr(import_module(module), attribute)
        return self._imported[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        """Add a command."""
        self._places[name], self._imported[name] = "", command

    def __delitem__(self, name: str) -> None:
        """Remove a command."""
        del self._places[name]
        self._imported.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._places)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._places)


class _Commands(click.Group):
    """Commands that report a fault of the database in a sentence, without a traceback.

    No message has control characters, also where it quotes foreign text.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            # Messages about the usage have the command with them, and quote nothing foreign.
            if type(error) in (click.ClickException, CommandRefused) and error.message != printable(error.message):
                raise type(error)(printable(error.message)) from None
            raise
        except Exception as error:
            from queue_engine.core.database.outage import fault_of

            if (fault := fault_of(error)) is None:
                raise
            raise CommandRefused(fault.sentence) from None


@click.group(cls=_Commands, commands=CommandTable(COMMANDS), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="imq")
def main() -> None:
    """A merge queue for GitHub that you host yourself."""
