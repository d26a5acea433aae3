"""Parse one line to a command, or to its fault. Pure."""

import re
from dataclasses import dataclass

from queue_engine.commands.table import CATALOGUE, MAX_POINTS, PRIORITIES, Command, CommandName

LONGEST = 300
"""Characters of a command's line that count."""

_TAKING_WORDS = {"status": CommandName.STATUS, "help": CommandName.HELP}
_PREFIX = "imq"
_FIRST_WORDS = frozenset({_PREFIX, *(name.value.split()[0] for name in CommandName)})
_PRIORITY = re.compile(r"priority\s*[=:]?\s*(\S+)", re.IGNORECASE)


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


def is_ours(line: str) -> bool:
    """Whether a line begins with a command of IMQ's: other bots have commands, too."""
    words = line[1 : LONGEST + 1].split(maxsplit=1)
    return line[:1] == "/" and not line[1:2].isspace() and bool(words) and words[0].casefold() in _FIRST_WORDS


def read(line: str) -> CommandRequest | ParseError:
    """Parse a line that begins with a command, without its slash."""
    line = " ".join(line[:LONGEST].split())
    first, _, rest = line.partition(" ")
    if first.casefold() == _PREFIX:
        first, _, rest = rest.partition(" ")
    word, rest = first.casefold(), rest.strip()
    if not word or word in _TAKING_WORDS:
        word, rest = CommandName.QUEUE, f"{word or 'help'} {rest}".strip()
    if word == CommandName.QUEUE:
        return _queue(line, rest)
    if word not in set(CommandName):
        return ParseError(line, CATALOGUE[CommandName.HELP], word)
    command = CATALOGUE[CommandName(word)]
    if command.name is CommandName.FREEZE and rest.casefold().split(maxsplit=1)[:1] != ["until"]:
        return ParseError(line, command, rest)
    return CommandRequest(line, command, rest) if command.takes or not rest else ParseError(line, command, rest)


def _queue(line: str, rest: str) -> CommandRequest | ParseError:
    if not rest:
        return CommandRequest(line, CATALOGUE[CommandName.QUEUE])
    if (name := _TAKING_WORDS.get(rest.casefold())) is not None:
        return CommandRequest(line, CATALOGUE[name])
    if found := _PRIORITY.fullmatch(rest):
        return (
            CommandRequest(line, CATALOGUE[CommandName.PRIORITY], found[1].casefold())
            if parse_priority(found[1]) is not None
            else ParseError(line, CATALOGUE[CommandName.PRIORITY], rest)
        )
    return ParseError(
        line, CATALOGUE[CommandName.PRIORITY if rest.casefold().startswith("prio") else CommandName.QUEUE], rest
    )


def parse_priority(word: str) -> int | None:
    """Parse the level or number after `priority=`; None if it is invalid."""
    if (given := PRIORITIES.get(word.casefold())) is not None:
        return given
    if not re.fullmatch(r"[+-]?\d{1,6}", word, re.ASCII):
        return None
    return int(word) if abs(int(word)) <= MAX_POINTS else None
