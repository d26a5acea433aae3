"""One line that is a command becomes the command, or what is wrong with it. Pure."""

import re
from dataclasses import dataclass

from queue_engine.commands.catalogue import CATALOGUE, MOST_POINTS, PRIORITIES, Command, Name

LONGEST = 300
"""Characters of a command's line that count."""

_TAKING_WORDS = {"status": Name.STATUS, "help": Name.HELP}
_PREFIX = "imq"
_FIRST_WORDS = frozenset({_PREFIX, *(name.value.split()[0] for name in Name)})
_PRIORITY = re.compile(r"priority\s*[=:]?\s*(\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Typed:
    """A command as it was typed: which, and what follows its name."""

    line: str
    command: Command
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Misread:
    """A command of ours with an argument that it does not take, or without one that it needs."""

    line: str
    command: Command
    argument: str


def is_ours(line: str) -> bool:
    """Whether a line, whose first character is a slash, begins with a word of ours: other bots have commands too."""
    words = line[1 : LONGEST + 1].split(maxsplit=1)
    return line[:1] == "/" and not line[1:2].isspace() and bool(words) and words[0].casefold() in _FIRST_WORDS


def read(line: str) -> Typed | Misread:
    """The command in a line that is ours, given without its slash."""
    line = " ".join(line[:LONGEST].split())
    first, _, rest = line.partition(" ")
    if first.casefold() == _PREFIX:
        first, _, rest = rest.partition(" ")
    word, rest = first.casefold(), rest.strip()
    if not word or word in _TAKING_WORDS:
        word, rest = Name.QUEUE, f"{word or 'help'} {rest}".strip()
    if word == Name.QUEUE:
        return _queue(line, rest)
    if word not in set(Name):
        return Misread(line, CATALOGUE[Name.HELP], word)
    command = CATALOGUE[Name(word)]
    if command.name is Name.FREEZE and rest.casefold().split(maxsplit=1)[:1] != ["until"]:
        return Misread(line, command, rest)
    return Typed(line, command, rest) if command.takes or not rest else Misread(line, command, rest)


def _queue(line: str, rest: str) -> Typed | Misread:
    if not rest:
        return Typed(line, CATALOGUE[Name.QUEUE])
    if (name := _TAKING_WORDS.get(rest.casefold())) is not None:
        return Typed(line, CATALOGUE[name])
    if found := _PRIORITY.fullmatch(rest):
        return (
            Typed(line, CATALOGUE[Name.PRIORITY], found[1].casefold())
            if points(found[1]) is not None
            else Misread(line, CATALOGUE[Name.PRIORITY], rest)
        )
    return Misread(line, CATALOGUE[Name.PRIORITY if rest.casefold().startswith("prio") else Name.QUEUE], rest)


def points(word: str) -> int | None:
    """What a word or number behind `priority=` means; None: nothing."""
    if (given := PRIORITIES.get(word.casefold())) is not None:
        return given
    if not re.fullmatch(r"[+-]?\d{1,6}", word, re.ASCII):
        return None
    return int(word) if abs(int(word)) <= MOST_POINTS else None
