"""The table of commands, for help, documents and permissions."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class CommandName(StrEnum):
    """A command's name, as it is typed after the slash."""

    QUEUE = "queue"
    PRIORITY = "queue priority"
    STATUS = "queue status"
    HELP = "queue help"
    UNQUEUE = "unqueue"
    REQUEUE = "requeue"
    WHY = "why"
    PAUSE = "pause"
    RESUME = "resume"
    FREEZE = "freeze"


class CommandPermission(StrEnum):
    """Who may give a command. IMQ reads the permission from GitHub each time."""

    ANYONE = "everyone who can comment"
    QUEUE = "people who may queue (write access, unless configured otherwise)"
    DEQUEUE = "people who may queue, and the author"
    CONTROL = "the roles maintain and admin"


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its usage, its help in one line, and who may give it."""

    name: CommandName
    usage: str
    help: str
    right: CommandPermission
    takes: bool = False
    """Whether anything may follow its name."""


CATALOGUE: Mapping[CommandName, Command] = {
    command.name: command
    for command in (
        Command(CommandName.QUEUE, "/queue", "Queue the pull request, as the label does.", CommandPermission.QUEUE),
        Command(
            CommandName.PRIORITY,
            "/queue priority=high",
            "Queue it, or change its priority: `high`, `normal`, `low`, or a number from -1000 to 1000. "
            "Higher goes first, unless another pull request has waited much longer.",
            CommandPermission.CONTROL,
            takes=True,
        ),
        Command(CommandName.UNQUEUE, "/unqueue", "Dequeue it.", CommandPermission.DEQUEUE),
        Command(
            CommandName.REQUEUE,
            "/requeue",
            "Dequeue it, and queue its current head at the end.",
            CommandPermission.QUEUE,
        ),
        Command(CommandName.WHY, "/why", "Show its position and what it waits for.", CommandPermission.ANYONE),
        Command(CommandName.STATUS, "/queue status", "Show the queue of the base branch.", CommandPermission.ANYONE),
        Command(
            CommandName.PAUSE,
            "/pause [reason]",
            "Pause the queue of the base branch until someone resumes it.",
            CommandPermission.CONTROL,
            takes=True,
        ),
        Command(
            CommandName.RESUME,
            "/resume",
            "Resume the queue. If it is also frozen, a second `/resume` ends the freeze.",
            CommandPermission.CONTROL,
        ),
        Command(
            CommandName.FREEZE,
            "/freeze until <when> [reason]",
            "Freeze the queue for `2h`, until `2026-12-24 08:00`, or to the end of `2026-12-24`. "
            "Times are in the time zone of the configured freezes, else in UTC.",
            CommandPermission.CONTROL,
            takes=True,
        ),
        Command(CommandName.HELP, "/queue help", "Show these commands.", CommandPermission.ANYONE),
    )
}
"""The commands, in the order of the help."""

PRIORITIES: Mapping[str, int] = {"high": 10, "normal": 0, "low": -10}
"""The points of each level; the policy's `ageing` is the head start of one point."""

MAX_POINTS = 1000
"""The highest and lowest number of points, as in the configuration."""

MAX_COMMANDS = 5
"""The number of commands of one comment that are executed."""
