"""Parse YAML to plain values with their lines. A hostile or careless file costs little and is reported.

ruamel.yaml scans and parses. This module builds values from its events, by YAML 1.2's core schema. Instants remain
text, and so do YAML 1.1's further truth values and numbers of base 60 (`on`, `12:30`).
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from unicodedata import category

if TYPE_CHECKING:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.events import AliasEvent, Event, MappingStartEvent, ScalarEvent, SequenceStartEvent

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
    from difflib import get_close_matches

    known = sorted(known)
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


MAX_CHARACTERS = 64 * 1024
_DEEPEST = 20
_MOST_VALUES = 10_000
"""Counts the values behind aliases: a few lines of aliases can mean billions of values."""

Place = tuple[str | int, ...]

_NULL = re.compile(r"|~|null|Null|NULL")
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = re.compile(r"[-+]?[0-9]{1,18}")
_BROKEN = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


@cache
def _reader() -> "type[YAML]":
    """Import ruamel.yaml (2 MB) at the first file, without its search for plug-ins, which takes long for each file."""
    from ruamel.yaml import YAML

    class _Reader(YAML):
        def official_plug_ins(self) -> list[str]:
            return []

    return _Reader


@dataclass(frozen=True, slots=True)
class Document:
    """The file's value (None when it is empty), and the line of each place, counted from 1."""

    value: Any
    lines: dict[Place, int]
    problems: tuple[Problem, ...]
    """Faults of a readable file: duplicate keys, tags, merge keys."""

    def line(self, place: Place) -> int:
        """Return the line of this place."""
        return line_of(self.lines, place)


def line_of(lines: Mapping[Place, int], place: Place) -> int:
    """Return the line of this place, or of the nearest place around it; 1 if unknown."""
    while place not in lines and place:
        place = place[:-1]
    return lines.get(place, 1)


def parse(text: str, *, longest: int = MAX_CHARACTERS, most_values: int = _MOST_VALUES) -> Document:
    """Parse one document. Raises ConfigError if it is not YAML, too long, nested too deep, or has too many values."""
    if len(text) > longest:
        raise _fault(1, f"is longer than {longest // 1024} KiB.")
    reader, builder = _reader(), _Builder(most_values)
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        for event in reader(typ="safe", pure=True).parse(text):
            builder.take(event)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _fault(mark.line + 1 if mark else 1, _explained(error, text)) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _fault(line, f"holds a character that YAML does not allow ({error.character:#04x}).") from None
    except (YAMLError, ValueError) as error:
        raise _fault(1, f"is not YAML: {quoted(error)}.") from None
    return Document(builder.root, builder.lines, tuple(builder.problems))


def as_json(text: str) -> str | None:
    """Return the values of a valid document for `of_json`; None for a faulty one, and one with aliases.

    Aliases may make the values longer than any text.
    """
    if "&" in text:
        return None
    try:
        document = parse(text)
        return None if document.problems else json.dumps(document.value, allow_nan=False)
    except (ConfigError, ValueError):
        return None


def of_json(parsed: str) -> Document:
    """Return the document without the lines of its places."""
    return Document(json.loads(parsed), {}, ())


def _fault(line: int, sentence: str) -> ConfigError:
    return ConfigError([Problem(line, "", f"The file {sentence}" if not sentence[0].isupper() else sentence)])


def _explained(error: "MarkedYAMLError", text: str) -> str:
    """Explain a frequent mistake, or else quote the parser."""
    mark = error.problem_mark
    lines = text.splitlines()
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "A tab indents this line: use spaces."
    if "expected a single document" in (error.context or ""):
        return "A second document begins here: remove the `---`."
    if "mapping values are not allowed" in (error.problem or ""):
        return "A second `: ` on this line: quote a value that has a colon."
    if "cannot start any token" in (error.problem or ""):
        return f"A value cannot begin with {quoted(line[mark.column : mark.column + 1])}: quote it."
    words = ", ".join(part for part in (error.context, error.problem) if part)
    return f"This is not YAML: {words}."


@dataclass(slots=True)
class _Open:
    """A mapping or sequence that has not ended yet."""

    value: dict[str, Any] | list[Any]
    place: Place
    anchor: str | None
    began_with: int
    key: str | None = None
    """The key whose value comes next; None when a key comes next."""


@dataclass(slots=True)
class _Builder:
    """Builds values from the parser's events, without recursion."""

    most_values: int
    root: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    _open: list[_Open] = field(default_factory=list)
    _anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    """The value of each anchor, and how many values it contains."""
    _values: int = 0

    def take(self, event: "Event") -> None:
        """Process one event. Raises ConfigError for a fault that makes the rest unreadable."""
        line, taken = event.start_mark.line + 1, cast(Any, event)
        match type(event).__name__:
            case "ScalarEvent":
                self._scalar(taken, line)
            case "MappingStartEvent":
                self._begin(taken, {}, line)
            case "SequenceStartEvent":
                self._begin(taken, [], line)
            case "MappingEndEvent" | "SequenceEndEvent":
                self._end()
            case "AliasEvent":
                self._alias(taken, line)
            case "DocumentStartEvent" if self.root is not None:
                raise _fault(line, "A second document begins here: remove the `---`.")

    def _scalar(self, event: "ScalarEvent", line: int) -> None:
        if self._wants_key():
            self._key(str(event.value), line)
            return
        value = event.value if event.style or event.tag else _plain(event.value)
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            self._say(line, f"The tag {quoted(event.tag)} is not supported: remove it.")
        self._count(1, line)
        self._put(value, line)
        if event.anchor:
            self._anchors[event.anchor] = value, 1

    def _begin(
        self, event: "MappingStartEvent | SequenceStartEvent", value: dict[str, Any] | list[Any], line: int
    ) -> None:
        if self._wants_key():
            raise _fault(line, "A list or a section cannot be a key: quote a text that has braces.")
        if len(self._open) >= _DEEPEST:
            raise _fault(line, f"More than {_DEEPEST} levels are nested here.")
        began_with = self._values
        self._count(1, line)
        self._open.append(_Open(value, self._put(value, line), event.anchor, began_with))

    def _end(self) -> None:
        ended = self._open.pop()
        if ended.anchor:
            # Known only from here on, so that no value can contain itself.
            self._anchors[ended.anchor] = ended.value, self._values - ended.began_with

    def _alias(self, event: "AliasEvent", line: int) -> None:
        if self._wants_key():
            raise _fault(line, "An alias cannot be a key here: write it out.")
        if event.anchor not in self._anchors:
            raise _fault(line, f"The alias {quoted(event.anchor)} has no anchor before it.")
        value, size = self._anchors[event.anchor]
        self._count(size, line)
        self._put(value, line)

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _key(self, key: str, line: int) -> None:
        holder = self._open[-1]
        place = (*holder.place, key)
        if key == "<<":
            self._say(line, "Merge keys (<<) are not supported: write the keys out.")
        elif key in holder.value:
            self._say(line, f"{quoted(key)} is a duplicate: see line {self.lines[place]}.")
        self.lines.setdefault(place, line)
        holder.key = key

    def _put(self, value: Any, line: int) -> Place:
        """Add a value to the open mapping or sequence, and return its place."""
        if not self._open:
            self.root = value
            self.lines[()] = line
            return ()
        holder = self._open[-1]
        if isinstance(holder.value, list):
            place: Place = (*holder.place, len(holder.value))
            holder.value.append(value)
            self.lines[place] = line
            return place
        assert holder.key is not None
        place = (*holder.place, holder.key)
        holder.value[holder.key] = value
        holder.key = None
        return place

    def _count(self, values: int, line: int) -> None:
        self._values += values
        if self._values > self.most_values:
            raise _fault(line, f"The file has more than {self.most_values} values, counting aliases.")

    def _say(self, line: int, sentence: str) -> None:
        self.problems.append(Problem(line, "", sentence))


def _plain(text: str) -> Any:
    """Resolve a scalar without quotes."""
    if _NULL.fullmatch(text):
        return None
    if text in _TRUTH:
        return _TRUTH[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _BROKEN.fullmatch(text) else text
