"""Parse one line to a command, or to its fault. Pure."""

import re
from dataclasses import dataclass

from queue_engine.commands.table import CATALOGUE, MAX_POINTS, PRIORITIES, Command, CommandName

LONGEST = 300
"""Characters of a command's line that count."""

_TAKING_WORDS = {"status": CommandName.STATUS, "help": CommandName.HELP}
_PREFIX = "imq"
_FIRST_WORDS = (_PREFIX, *dict.fromkeys(name.value.split()[0] for name in CommandName))
_PRIORITY = re.compile(r"(?:priority\s*[=:]?\s*)?(\S+)", re.IGNORECASE)
_PUNCTUATION = ".,:;!?"
_POLITE = frozenset({"again", "it", "now", "please", "pls", "pr", "thanks", "thx", "this"})
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
    return word.casefold().rstrip(_PUNCTUATION)


def _meant(word: str) -> str | None:
    """Return the first word of the command that was meant; None for words of other bots."""
    if word in _FIRST_WORDS:
        return word
    if len(word) > _LONGEST_WORD or not word.isalpha():
        return None
    from difflib import get_close_matches

    return _SYNONYMS.get(word) or next(iter(get_close_matches(word, _FIRST_WORDS[1:], n=1, cutoff=_SIMILAR)), None)


def read(line: str) -> CommandRequest | ParseError:
    """Parse a line that begins with a command, without its slash."""
    line = " ".join(line[:LONGEST].split())
    first, _, rest = line.partition(" ")
    if _plain(first) == _PREFIX:
        first, _, rest = rest.partition(" ")
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
    if command.name is CommandName.FREEZE and rest.casefold().split(maxsplit=1)[:1] != ["until"]:
        return ParseError(line, command, rest)
    if not command.takes and (rest := _without_politeness(rest)):
        return ParseError(line, command, rest)
    return CommandRequest(line, command, rest)


def _without_politeness(rest: str) -> str:
    """Return what somebody typed after a command, without words and punctuation that say nothing more."""
    return " ".join(word for word in rest.rstrip(_PUNCTUATION).split() if _plain(word) not in {*_POLITE, ""})


def _queue(line: str, rest: str) -> CommandRequest | ParseError:
    if not (rest := _without_politeness(rest)):
        return CommandRequest(line, CATALOGUE[CommandName.QUEUE])
    if (name := _TAKING_WORDS.get(rest.casefold())) is not None:
        return CommandRequest(line, CATALOGUE[name])
    names_priority = rest.casefold().startswith("prio")
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
