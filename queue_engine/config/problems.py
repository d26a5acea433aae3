"""Faults of a configuration: a sentence each, with its line."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from unicodedata import category

_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of characters that control or format, of surrogates, and of separators of lines."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. `line` counts from 1; `place` is the key's path (`branches[0].checks.timeout`), empty for the file."""

    line: int
    place: str
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line}: {f'{self.place} ' if self.place else ''}{self.sentence}"


class ConfigError(Exception):
    """The configuration cannot be used: everything that is wrong with it, in the order of its lines; at least one."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line, problem.place)))
        super().__init__("\n".join(map(str, self.problems)))


def nearest(word: str, known: Iterable[str]) -> str:
    """A sentence that names the known word next to this one, or all if none is near and they are few; may be empty."""
    known = sorted(known)
    if close := get_close_matches(word, known, n=1, cutoff=0.6):
        return f"; did you mean {close[0]}?"
    return f"; there are {', '.join(known)}" if 0 < len(known) <= 12 else ""


def visible(text: str) -> str:
    """Text out of the file on one line, its unseen characters replaced: some turn the direction of the text around."""
    return "".join("\ufffd" if category(each) in _UNSEEN else each for each in " ".join(text.split()))


def quoted(value: object) -> str:
    """A value out of the file as it may be shown: visible, and short."""
    text = visible(str(value))
    return f'"{text}"' if len(text) <= 60 else f'"{text[:57]}..."'
