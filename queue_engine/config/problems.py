"""Faults of a configuration: a sentence each, with its line."""

from collections.abc import Iterable
from dataclasses import dataclass
from unicodedata import category

Place = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""

_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of control and format characters, surrogates, and line separators."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. `line` counts from 1; `place` is the key's path (`branches[0].checks.timeout`), empty for the file."""

    line: int
    place: str
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line}: {f'{self.place} ' if self.place else ''}{self.sentence}"


class ConfigError(Exception):
    """IMQ cannot use the configuration. `problems` has at least one fault, and all, in the order of their lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line, problem.place)))
        super().__init__("\n".join(map(str, self.problems)))


def nearest(word: str, known: Iterable[str]) -> str:
    """Suggest the most similar known word, or all known words if none is similar and they are few; may be empty."""
    known = sorted(known)
    from difflib import get_close_matches

    if close := get_close_matches(word, known, n=1, cutoff=0.6):
        return f"; did you mean {close[0]}?"
    return f"; there are {', '.join(known)}" if 0 < len(known) <= 12 else ""


def visible(text: str) -> str:
    """Put text of the file on one line, and replace invisible characters: some reverse the direction of the text."""
    return "".join("\ufffd" if category(each) in _INVISIBLE else each for each in " ".join(text.split()))


def quoted(value: object) -> str:
    """Quote a value of the file: visible, and short."""
    text = visible(str(value))
    return f'"{text}"' if len(text) <= 60 else f'"{text[:57]}..."'
