"""Find the commands of a comment, and parse each line to a command, or to its fault. Pure.

`queue_engine.rules.comment_lines` says which lines count: a command that was not taken can be typed again.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Literal
from zoneinfo import ZoneInfo

from queue_engine.config.freezes import instant
from queue_engine.config.kinds import duration
from queue_engine.config.model import Policy
from queue_engine.domain.policy import WeeklyFreeze
from queue_engine.rules.comment_lines import counting_lines


class CommandName(StrEnum):
    """A command's name, as it is typed after the slash."""

    QUEUE = "queue"
    PRIORITY = "queue priority"
    ALONE = "queue alone"
    STATUS = "queue status"
    HELP = "queue help"
    UNQUEUE = "unqueue"
    REQUEUE = "requeue"
    REVERT = "revert"
    RELAND = "reland"
    DELEGATE = "delegate"
    UNDELEGATE = "undelegate"
    TRY = "try"
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
        Command(
            CommandName.ALONE,
            "/queue alone",
            "Queue it, at the end if it is queued, and never test it in a train with others.",
            CommandPermission.QUEUE,
        ),
        Command(
            CommandName.DELEGATE,
            "/delegate",
            "Let its author queue it once, by `/queue`.",
            CommandPermission.QUEUE,
        ),
        Command(
            CommandName.UNDELEGATE,
            "/undelegate",
            "Revoke what `/delegate` allowed and the author has not used.",
            CommandPermission.DEQUEUE,
        ),
        Command(CommandName.UNQUEUE, "/unqueue", "Dequeue it.", CommandPermission.DEQUEUE),
        Command(
            CommandName.REQUEUE,
            "/requeue",
            "Dequeue it, and queue its current head at the end.",
            CommandPermission.QUEUE,
        ),
        Command(
            CommandName.REVERT,
            "/revert",
            "On one that landed: open its revert as a pull request, and queue that as a hotfix.",
            CommandPermission.QUEUE,
        ),
        Command(
            CommandName.RELAND,
            "/reland",
            "On one that was reverted so: open the same change again as a pull request.",
            CommandPermission.DEQUEUE,
        ),
        Command(
            CommandName.TRY,
            "/try [queue]",
            "Test it on the present base branch, or on all that is queued, without queueing it.",
            CommandPermission.QUEUE,
            takes=True,
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


LONGEST = 300
"""Characters of a command's line that count."""

_TAKING_WORDS = {"status": CommandName.STATUS, "help": CommandName.HELP}
_QUEUE_WORDS = {**_TAKING_WORDS, "alone": CommandName.ALONE}
"""What may follow `/queue`; the first two are commands by themselves, too."""
_PREFIX = "imq"
_FIRST_WORDS = (_PREFIX, *dict.fromkeys(name.value.split()[0] for name in CommandName))
_PRIORITY = re.compile(r"(?:prio(?:rity)?\s*[=:]?\s*)?(\S+?)(?:\s+prio(?:rity)?)?", re.IGNORECASE)
_PUNCTUATION = ".,:;!?"
_AFTER_NAME = re.compile(r"(?<=[a-z])(?:[=,:]|[^\w\s/-]+$).*", re.IGNORECASE | re.DOTALL)
"""What follows a command's name without a blank: punctuation, or an argument, as in `/queue=high`."""
_SYMBOLS = re.compile(r"[\W_]+|:[\w+-]+:")
"""What says no more, such as `:rocket:`."""
_POLITE = frozenset(
    {"again", "asap", "it", "me", "now", "please", "pls", "pr", "thank", "thanks", "this", "thx", "you"}
)
"""Words that say nothing more: `/queue: now` is `/queue`."""
_SYNONYMS = {"dequeue": "unqueue", "enqueue": "queue"}
_LONGEST_WORD = 12
_SIMILAR = 0.83
"""How similar a word has to be to a command, to be taken for a misspelt one; 1 is the same."""


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A command as it was typed: its name, and the text after it."""

    line: str
    command: Command
    argument: str = ""


@dataclass(frozen=True, slots=True)
class ParseError:
    """A command with an invalid argument, or without a required one."""

    line: str
    command: Command
    argument: str
    misspelt: bool = False
    """Whether the line begins with no command at all, but with a word that is like one."""


def is_ours(line: str) -> bool:
    """Whether a line begins with a command of IMQ's, or a misspelt one: other bots have commands, too."""
    words = line[1 : LONGEST + 1].split(maxsplit=1)
    return line[:1] == "/" and not line[1:2].isspace() and bool(words) and _meant(_plain(words[0])) is not None


def _plain(word: str) -> str:
    """Return a word without the punctuation of the sentence around it."""
    return _AFTER_NAME.sub("", word).casefold().rstrip(_PUNCTUATION)


def _meant(word: str) -> str | None:
    """Return the first word of the command that was meant; None for words of other bots."""
    if word in _FIRST_WORDS:
        return word
    if len(word) > _LONGEST_WORD or not word.isalpha():
        return None
    # As in `config.document`: few processes ever read a misspelt word.
    from difflib import get_close_matches

    return _SYNONYMS.get(word) or next(iter(get_close_matches(word, _FIRST_WORDS[1:], n=1, cutoff=_SIMILAR)), None)


def read(line: str) -> CommandRequest | ParseError:
    """Parse a line that begins with a command, without its slash."""
    line = " ".join(line[:LONGEST].split())
    first, _, rest = line.partition(" ")
    if _plain(first) == _PREFIX:
        first, _, rest = rest.partition(" ")
    if found := _AFTER_NAME.search(first):
        first, rest = first[: found.start()], f"{found[0].lstrip(f'={_PUNCTUATION}')} {rest}"
    word, rest = _plain(first), rest.strip()
    if not word or word in _TAKING_WORDS:
        word, rest = CommandName.QUEUE, f"{word or 'help'} {rest}".strip()
    if word == CommandName.QUEUE:
        return _queue(line, rest)
    if word not in set(CommandName):
        meant = _meant(word)
        name = CommandName.HELP if meant is None else CommandName(meant)
        return ParseError(line, CATALOGUE[name], word, misspelt=meant is not None)
    command = CATALOGUE[CommandName(word)]
    if command.name is CommandName.TRY:
        rest = _without_politeness(rest).casefold()
        return CommandRequest(line, command, rest) if rest in {"", "queue"} else ParseError(line, command, rest)
    if command.name is CommandName.FREEZE and rest.casefold().split(maxsplit=1)[:1] != ["until"]:
        return ParseError(line, command, rest)
    if not command.takes and (rest := _without_politeness(rest)):
        return ParseError(line, command, rest)
    return CommandRequest(line, command, rest)


def _without_politeness(rest: str) -> str:
    """Return what somebody typed after a command, without words and punctuation that say nothing more."""
    words = (word.removeprefix("--") for word in rest.split() if not _SYMBOLS.fullmatch(word))
    return " ".join(word for word in words if _plain(word) not in _POLITE).rstrip(_PUNCTUATION)


def _queue(line: str, rest: str) -> CommandRequest | ParseError:
    if not (rest := _without_politeness(rest)):
        return CommandRequest(line, CATALOGUE[CommandName.QUEUE])
    if (name := _QUEUE_WORDS.get(rest.casefold())) is not None:
        return CommandRequest(line, CATALOGUE[name])
    names_priority = rest.casefold().startswith("prio") or rest.casefold().endswith(("prio", "priority"))
    if (found := _PRIORITY.fullmatch(rest)) and (names_priority or found[1].casefold() in PRIORITIES):
        return (
            CommandRequest(line, CATALOGUE[CommandName.PRIORITY], found[1].casefold())
            if parse_priority(found[1]) is not None
            else ParseError(line, CATALOGUE[CommandName.PRIORITY], rest)
        )
    return ParseError(line, CATALOGUE[CommandName.PRIORITY if names_priority else CommandName.QUEUE], rest)


def parse_priority(word: str) -> int | None:
    """Parse the level or number after `priority=`; None if it is invalid."""
    if (given := PRIORITIES.get(word.casefold())) is not None:
        return given
    if not re.fullmatch(r"[+-]?\d{1,6}", word, re.ASCII):
        return None
    return int(word) if abs(int(word)) <= MAX_POINTS else None


_JOINING = frozenset(
    {CommandName.QUEUE, CommandName.PRIORITY, CommandName.ALONE, CommandName.REQUEUE, CommandName.REVERT}
)


def may_join(commands: Iterable[str]) -> bool:
    parsed = map(read, commands)
    return any(isinstance(each, CommandRequest) and each.command.name in _JOINING for each in parsed)


_HOLDING = frozenset({CommandName.PAUSE, CommandName.FREEZE})


def may_withdraw(commands: Iterable[str]) -> Literal["pull_request", "repository"] | None:
    """Return what these commands may keep from landing."""
    names = {request.command.name for request in map(read, commands) if isinstance(request, CommandRequest)}
    if names & _HOLDING:
        return "repository"
    return "pull_request" if CommandName.UNQUEUE in names else None


def commands_in(text: str) -> tuple[str, ...]:
    """The commands in a comment, in their order, without the slash; at most one more than are executed."""
    return tuple(line[1 : LONGEST + 1] for line in counting_lines(text, is_ours, most=MAX_COMMANDS + 1))


FARTHEST = timedelta(days=90)
"""The longest freeze by hand; longer ones belong into the configuration."""

_DATE = re.compile(r"(\d{4}-\d\d-\d\d)(?:T(\d{1,2}:\d\d)(Z)?)?", re.ASCII | re.IGNORECASE)
_TIME = re.compile(r"\d{1,2}:\d\d", re.ASCII)

_MORE_OF_AN_END = re.compile(r"[\d+-].*|(?i:[ap]\.?m\.?|utc|gmt|z)|[A-Z]{1,4}S?T|[A-Za-z]+/[A-Za-z_/+-]+", re.ASCII)
"""Another number, or a zone: without it the freeze would end earlier than requested."""


def until(words: str, policy: Policy, now: datetime) -> tuple[datetime, str]:
    """Parse when a freeze ends, in UTC, and the rest of the text, its reason.

    The end is a duration, or a date with or without a time, in the zone of the policy's freezes, else in UTC. A day
    without a time is meant as a whole, as in the configuration. Raises ValueError with a sentence's end for people.
    """
    rest = words.split()
    zone = _zone(policy)
    if rest and rest[0].casefold() == "until":
        rest.pop(0)
    if not rest:
        raise ValueError("says no end")
    end = _end(rest, zone, now)
    if rest and _MORE_OF_AN_END.fullmatch(rest[0]):
        raise ValueError(f"has an end with a word that is not understood: {rest[0]}; times are those of {zone}")
    if end <= now:
        raise ValueError("ends in the past")
    if end - now > FARTHEST:
        raise ValueError(f"lasts longer than {FARTHEST.days} days: write it into .github/imq.yml")
    return end, " ".join(rest)


def _zone(policy: Policy) -> tzinfo:
    """Return the time zone of the configuration, else UTC."""
    for each in policy.freeze.windows:
        zone = each.zone if isinstance(each, WeeklyFreeze) else each.start.tzinfo
        if zone is not None:
            return zone
    return ZoneInfo("UTC")


def _end(rest: list[str], zone: tzinfo, now: datetime) -> datetime:
    """Parse the instant that the first words name, and remove them."""
    word = rest.pop(0)
    if found := _DATE.fullmatch(word):
        at = found[2] or (rest.pop(0) if rest and _TIME.fullmatch(rest[0]) else None)
        return _at(_day(found[1]), at, ZoneInfo("UTC") if found[3] else zone)
    try:
        return now + duration(word.casefold())
    except (ValueError, OverflowError):
        raise ValueError("has no end that can be read; write 2h, 2026-12-24 or 2026-12-24 08:00") from None


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"has an unknown date {text}") from None


def _at(day: date, shown: str | None, zone: tzinfo) -> datetime:
    """Return this time of the day in this zone, in UTC; None means the end of the day."""
    if shown is None:
        return _shown(day, time(), zone, days=1)
    hour, _, minute = shown.partition(":")
    try:
        return _shown(day, time(int(hour), int(minute)), zone)
    except ValueError:
        raise ValueError(f"has an unknown time {shown}") from None


def _shown(day: date, at: time, zone: tzinfo, *, days: int = 0) -> datetime:
    try:
        return instant(datetime.combine(day, at) + timedelta(days=days), zone).astimezone(UTC)
    except OverflowError:
        raise ValueError(f"has an unknown date {day}") from None
