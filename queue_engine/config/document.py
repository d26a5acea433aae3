"""A YAML file as plain values with their lines."""

from dataclasses import dataclass
from typing import Any

from queue_engine.config.problems import Place, Problem

MAX_CHARACTERS = 64 * 1024
_MOST_VALUES = 10_000
"""Counts the values behind aliases: a few lines of aliases can mean billions of values."""


@dataclass(frozen=True, slots=True)
class Document:
    """The file's value (None when it is empty), and the line of each place, counted from 1."""

    value: Any
    lines: dict[Place, int]
    problems: tuple[Problem, ...]
    """Faults of a readable file: duplicate keys, tags, merge keys."""

    def line(self, place: Place) -> int:
        """Return the line of this place, or of the nearest place around it."""
        while place not in self.lines and place:
            place = place[:-1]
        return self.lines.get(place, 1)


def parse(text: str, *, longest: int = MAX_CHARACTERS, most_values: int = _MOST_VALUES) -> Document:
    """Parse one document. Raises ConfigError if it is not YAML, too long, nested too deep, or has too many values."""
    # Imported when used: few repositories have a file, and ruamel.yaml takes 2 MB.
    from queue_engine.config.yaml_values import read

    return Document(*read(text, longest, most_values))
