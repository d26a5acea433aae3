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
    "Start here": {
        "demo": ("bot.cli.processes:demo", "Watch a queue work, on a GitHub of its own on this machine."),
        "setup": ("bot.cli.setup:setup", "Register the GitHub App and keep its credentials."),
        "doctor": ("bot.cli.doctor:doctor", "Find faults of the set-up, with what to do."),
        "validate": ("bot.cli.validate:validate", "Check a repository's configuration file."),
        "convert": ("bot.cli.convert.command:convert", "Convert the configuration of another queue."),
    },
    "Operate": {
        "run": ("bot.cli.processes:run", "Run everything in one process."),
        "web": ("bot.cli.processes:web", "Run the process that receives webhooks and serves pages."),
        "worker": ("bot.cli.processes:worker", "Run a process that advances the queues."),
        "migrate": ("bot.cli.processes:migrate", "Create or update the database's tables."),
        "resume": ("bot.cli.resume:resume", "Resume a paused queue."),
        "jobs": ("bot.cli.jobs:jobs", "Show, retry or discard dead letters: jobs that failed for good."),
        "token": ("bot.cli.token_commands:token", "Manage tokens of the HTTP API."),
        "sinks": ("bot.cli.sinks:sinks", "Show and test where messages go besides GitHub."),
        "landings": ("bot.cli.landings:landings", "Export what landed, with its proof; replace the signing key."),
        "shadow": ("bot.cli.shadow:shadow", "Report on repositories in shadow mode."),
        "backup": ("bot.cli.queue_files:backup", "Copy SQLite's database while IMQ runs."),
        "export": ("bot.cli.queue_files:export_queues", "Write the queues in flight as JSON."),
        "import": ("bot.cli.queue_files:import_queues", "Store exported queues in this database."),
    },
    "On any clone": {
        "audit": ("bot.cli.clone.audit:audit", "Check each landing of a clone by git alone."),
        "verify": ("bot.cli.clone.verify:verify", "Compare each landing with the record that IMQ signed of it."),
        "replay": ("bot.cli.replay.command:replay", "Simulate merge queues on the history of a clone."),
    },
    "For authors, in any clone": {
        "login": ("bot.cli.author.login:login", "Log in to an IMQ with GitHub."),
        "land": ("bot.cli.author.land:land", "Queue a pull request, and wait for its outcome if you like."),
        "revert": ("bot.cli.author.land:revert", "Open the revert of a landed pull request, and queue it first."),
        "reland": ("bot.cli.author.land:reland", "Open the change of a reverted pull request again."),
        "status": ("bot.cli.author.status_commands:status", "Show the queues of a repository."),
        "why": ("bot.cli.author.status_commands:why", "Show why a pull request waits."),
        "flaky": ("bot.cli.author.status_commands:flaky", "Show flaky checks, or the text of an issue about one."),
        "effect": ("bot.cli.author.status_commands:effect", "Show what a control would do, without doing it."),
        "logout": ("bot.cli.author.login:logout", "Revoke a login and forget it."),
        "skill": ("bot.cli.author.agents:skill", "Teach coding agents to land pull requests."),
        "mcp": ("bot.cli.author.agents:mcp", "Serve tools for a coding agent."),
    },
}
"""Where each command is, and its line in the help, by group: the help imports no command."""


_PLACES = {name: place for group in COMMANDS.values() for name, (place, _) in group.items()}


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
        self._places[name], self._imported[name] = "", command

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._imported.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._places)


class _Commands(click.Group):
    """Commands in groups that report a fault of the database in a sentence, and print no control characters."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for group in COMMANDS.values() for name in group)
        for title, group in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, (_, line) in group.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            # Messages about the usage have the command with them, and quote nothing foreign.
            if type(error) in (click.ClickException, CommandRefused) and error.message != printable(error.message):
                raise type(error)(printable(error.message)) from None
            raise
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            from queue_engine.core.database.outage import fault_of

            if (fault := fault_of(error)) is None:
                raise
            raise CommandRefused(fault.sentence) from None


@click.group(cls=_Commands, commands=CommandTable(_PLACES), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="imq")
def main() -> None:
    """A merge queue for GitHub that you host yourself."""
