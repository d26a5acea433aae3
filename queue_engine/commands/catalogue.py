"""The commands that people can give in a comment: one table, from which help, documents and rights are made."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Name(StrEnum):
    """A command's name, as it is typed behind the slash."""

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


class Right(StrEnum):
    """Who may give a command. Asked of GitHub at that moment, never remembered."""

    ANYBODY = "anybody who can comment"
    QUEUEING = "who may queue here (write access, unless the configuration says otherwise)"
    LEAVING = "who may queue here, and the pull request's author"
    STEERING = "who has the role maintain or admin"


@dataclass(frozen=True, slots=True)
class Command:
    """One row: how it is written, whether text may follow, what it does, in one line, and who may give it."""

    name: Name
    usage: str
    help: str
    right: Right
    takes: bool = False
    """Whether anything may follow its name."""


CATALOGUE: Mapping[Name, Command] = {
    command.name: command
    for command in (
        Command(Name.QUEUE, "/queue", "Queue this pull request, as the label does.", Right.QUEUEING),
        Command(
            Name.PRIORITY,
            "/queue priority=high",
            "Queue it, or move it in its queue: `high`, `normal`, `low`, or a number from -1000 to 1000. "
            "Higher goes first, but for those who have waited so much longer.",
            Right.STEERING,
            takes=True,
        ),
        Command(Name.UNQUEUE, "/unqueue", "Take it out of its queue.", Right.LEAVING),
        Command(Name.REQUEUE, "/requeue", "Take it out and queue its present head again, at the end.", Right.QUEUEING),
        Command(Name.WHY, "/why", "Say where it stands and what it waits for.", Right.ANYBODY),
        Command(Name.STATUS, "/queue status", "Show the queue of its base branch.", Right.ANYBODY),
        Command(
            Name.PAUSE,
            "/pause [reason]",
            "Stop the queue of its base branch until somebody resumes it.",
            Right.STEERING,
            takes=True,
        ),
        Command(
            Name.RESUME,
            "/resume",
            "Let that queue go on; a freeze under a pause holds until the second one.",
            Right.STEERING,
        ),
        Command(
            Name.FREEZE,
            "/freeze until <when> [reason]",
            "Stop that queue until then: `2h`, `18:00`, `tomorrow 08:00`, `fri 08:00`, `2026-12-24` or "
            "`2026-12-24 08:00`, in the time zone of the configured freezes, else in UTC. A day without a time counts "
            "as a whole.",
            Right.STEERING,
            takes=True,
        ),
        Command(Name.HELP, "/queue help", "Show these commands.", Right.ANYBODY),
    )
}
"""In the order in which help shows them."""

PRIORITIES: Mapping[str, int] = {"high": 10, "normal": 0, "low": -10}
"""What the words mean, in points; how long one point may overtake is the policy's `ageing`."""

MOST_POINTS = 1000
"""The most that a number may say, to either side; as in the configuration."""

MOST_COMMANDS = 5
"""How many commands of one comment are carried out."""
