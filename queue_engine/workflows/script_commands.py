"""Split a shell script into its commands, as far as that is certain."""

import re
from dataclasses import dataclass, field

_REDIRECT = re.compile(r"&?[<>]{1,3}[&|]?")
_TEST = re.compile(r".*?\s\]\](?=[\s;&|)]|$)", re.DOTALL)
_ARITHMETIC = re.compile(r"\(\(.*?\)\)", re.DOTALL)
_LIST = re.compile(r"\([^()`]*\)")
_PATTERN = re.compile(r"""\s*+\(?+(?:[^()'"`\\]++|\\.|'[^']*'|"[^"`]*")*\)""")
_END_OF_CASE = re.compile(r"(?:\s|#[^\n]*\n)*esac\b")
_PARAMETER = re.compile(r"\$\{[^{}`]*\}")
_KEYWORDS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "time"})
_ENDS = frozenset({"fi", "done", "esac", "}"})
"""After them only redirections follow."""
_LONGEST = 20_000
"""Characters; a longer script is not read."""
_DEEPEST = 20
"""Commands in words of commands."""
_BREAKS = " \t\r\n;&|()<>"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


class ScriptError(Exception):
    """The commands of a script are not certain."""


def script_commands(script: str) -> list[list[str]]:
    """Return the words of each command, and of those inside of its words. Raises ScriptError."""
    if len(script) > _LONGEST:
        raise ScriptError
    scanner = _Scanner(script)
    scanner.scan("")
    return [words for each in scanner.commands if (words := _without_keywords(each))]


def _without_keywords(words: list[str]) -> list[str]:
    while words and (words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    return [] if words and words[0] in _ENDS else words


@dataclass(slots=True)
class _Command:
    """A command as far as it was read."""

    words: list[str] = field(default_factory=list)
    word: str | None = None
    """The one that is being read."""
    cases: int = 0
    """Around it, of which more patterns follow."""

    def end_word(self) -> None:
        if self.word is not None:
            self.words.append(self.word)
            self.word = None


class _Scanner:
    def __init__(self, text: str) -> None:
        self.commands: list[list[str]] = []
        self._text = text.replace("\\\n", " ")
        self._at = 0
        self._depth = 0

    def scan(self, end: str) -> None:
        """Read commands up to this character, or to the end of the text."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ScriptError
        command = _Command()
        while self._at < len(self._text):
            char = self._text[self._at]
            if command.word is None and char == "#":
                self._at = (self._text.find("\n", self._at) + 1 or len(self._text) + 1) - 1
            elif char not in _BREAKS and char != end:
                command.word = (command.word or "") + self._part()
            elif not self._goes_on(command, char):
                self.commands.append(command.words)
                command.words = []
                if char == end:
                    self._at += 1
                    self._depth -= 1
                    return
                self._separator(command, char)
        if end:
            raise ScriptError
        command.end_word()
        self.commands.append(command.words)

    def _goes_on(self, command: _Command, char: str) -> bool:
        """Read what ends a word and not its command; False for what ends both."""
        is_list = char == "(" and command.word is not None and command.word.endswith("=")
        command.end_word()
        words = command.words
        if is_list:
            self._skip(_LIST)
        elif not _without_keywords(words[:-1]) and words[-1:] == ["[["]:
            words.append(self._skip(_TEST))
        elif words[-1:] == ["in"] and _without_keywords(words)[:1] == ["case"]:
            command.words = []
            command.cases += 1 - self._pattern()
        elif char in "<>" or self._text.startswith("&>", self._at):
            self._skip(_REDIRECT)
        elif char in " \t\r":
            self._at += 1
        elif char == "(" and self._text.startswith("((", self._at) and not _without_keywords(words):
            self._skip(_ARITHMETIC)
        else:
            return False
        return True

    def _separator(self, command: _Command, char: str) -> None:
        """Read what stands between two commands."""
        if char == ")":
            raise ScriptError
        self._at += 1
        if char == "(":
            self.scan(")")
        elif char == ";" and self._text.startswith(";", self._at) and command.cases:
            self._at += 1
            command.cases -= self._pattern()

    def _part(self) -> str:
        char = self._text[self._at]
        if char == "'":
            close = self._text.find("'", self._at + 1)
            if close < 0:
                raise ScriptError
            return self._take(close + 1)[1:-1]
        if char == '"':
            self._at += 1
            parts = []
            while self._at < len(self._text) and self._text[self._at] != '"':
                parts.append(self._simple())
            self._at += 1
            if self._at > len(self._text):
                raise ScriptError
            return "".join(parts)
        return self._simple()

    def _simple(self) -> str:
        """Read one character, or what stands for a value."""
        char = self._text[self._at]
        if char == "\\":
            return self._take(self._at + 2)
        if char == "`" or self._text.startswith("$'", self._at):
            raise ScriptError
        if self._text.startswith("$((", self._at):
            self._at += 1
            return f"${self._skip(_ARITHMETIC)}"
        if self._text.startswith("$(", self._at):
            self._at += 2
            self.scan(")")
            return "$"
        if self._text.startswith("${", self._at):
            return self._skip(_PARAMETER)
        return self._take(self._at + 1)

    def _pattern(self) -> int:
        """Read a pattern of `case`; returns 1 if the last one was read before."""
        if found := _END_OF_CASE.match(self._text, self._at):
            self._at = found.end()
            return 1
        self._skip(_PATTERN)
        return 0

    def _skip(self, form: re.Pattern[str]) -> str:
        found = form.match(self._text, self._at)
        if found is None or "$(" in found[0].replace("$((", "") or "`" in found[0]:
            raise ScriptError
        return self._take(found.end())

    def _take(self, end: int) -> str:
        taken = self._text[self._at : end]
        self._at = end
        return taken
