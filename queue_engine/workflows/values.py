"""Values of expressions, some of them unknown before an event happens, and how GitHub compares them."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan


@dataclass(frozen=True, slots=True)
class UnknownValue:
    """A value of which nothing is known but, perhaps, whether it counts as true."""

    holds: bool | None = None


@dataclass(frozen=True, slots=True)
class PatternValue:
    """A text of which only the form is known, such as `refs/pull/7/merge` before the pull request exists."""

    prefix: str = ""
    suffix: str = ""
    form: str = r"(?s).+"
    """A regular expression that the text matches, in lower case."""
    others: frozenset[str] = frozenset()
    """Texts, in lower case, that it is not."""
    identity: str = ""
    """Names the value: two values with the same identity are the same text."""


UNKNOWN = UnknownValue()
_PLACE = re.compile(r"\{(\d{1,3})\}")
"""Of an argument, in the text that `format` fills in."""

Value = object
"""None, bool, float, str, list, dict, `UnknownValue` or `PatternValue`; a dict's key `*` is its default."""


def truth(value: Value) -> bool | None:
    """Whether a value counts as true; None if that is unknown."""
    if isinstance(value, UnknownValue):
        return value.holds
    if isinstance(value, PatternValue):
        return True if re.fullmatch(value.form, "") is None else None
    if isinstance(value, float):
        return not (value == 0 or isnan(value))
    return True if isinstance(value, list | dict) else bool(value)


def both(left: bool | None, right: bool | None) -> bool | None:
    """Return the conjunction of two answers."""
    if left is False or right is False:
        return False
    return True if left and right else None


def all_of(answers: Sequence[bool | None]) -> bool | None:
    """Return the conjunction of answers."""
    if False in answers:
        return False
    return None if None in answers else True


def equals(left: Value, right: Value) -> bool | None:
    """Whether two values are equal as GitHub compares them: loosely, and without regard to case."""
    if isinstance(left, PatternValue) and isinstance(right, str):
        return _may_be(left, right.casefold())
    if isinstance(right, PatternValue) and isinstance(left, str):
        return _may_be(right, left.casefold())
    if (_is_simple(left) and isinstance(right, list | dict)) or (_is_simple(right) and isinstance(left, list | dict)):
        # Lists and objects count as no number (actions/languageservices, `result.ts`).
        return False
    if not (_is_simple(left) and _is_simple(right)):
        return None
    if isinstance(left, str) and isinstance(right, str):
        return left.casefold() == right.casefold()
    return number(left) == number(right)


def _may_be(partly: PatternValue, text: str) -> bool | None:
    impossible = text in partly.others or re.fullmatch(partly.form, text) is None
    return False if impossible else None


def starts_with(value: Value, start: Value) -> bool | None:
    """Evaluate `startsWith`."""
    if isinstance(value, PatternValue) and isinstance(start, str):
        prefix, wanted = value.prefix.casefold(), start.casefold()
        if prefix.startswith(wanted):
            return True
        return None if wanted.startswith(prefix) else False
    return _compare_text(value, start, str.startswith)


def ends_with(value: Value, end: Value) -> bool | None:
    """Evaluate `endsWith`."""
    if isinstance(value, PatternValue) and isinstance(end, str):
        suffix, wanted = value.suffix.casefold(), end.casefold()
        if suffix.endswith(wanted):
            return True
        return None if wanted.endswith(suffix) else False
    return _compare_text(value, end, str.endswith)


def contains(value: Value, item: Value) -> bool | None:
    """Evaluate `contains` for a text or a list."""
    if isinstance(value, list):
        answers = [equals(each, item) for each in value]
        return True if True in answers else None if None in answers else False
    if isinstance(value, PatternValue) and isinstance(item, str):
        wanted = item.casefold()
        return True if wanted in value.prefix.casefold() or wanted in value.suffix.casefold() else None
    return _compare_text(value, item, str.__contains__)


def _compare_text(value: Value, part: Value, compare: object) -> bool | None:
    if not (_is_simple(value) and _is_simple(part)):
        return None
    assert callable(compare)
    return bool(compare(text_of(value).casefold(), text_of(part).casefold()))


def _is_simple(value: Value) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def number(value: Value) -> float:
    """Convert a simple value as GitHub does; NaN if that does not work."""
    if value is None or value == "":
        return 0.0
    if isinstance(value, bool | int | float):
        return float(value)
    try:
        return float(str(value).strip())
    except ValueError:
        return nan


def text_of(value: Value) -> str:
    """Format a simple value as GitHub does."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def format_text(arguments: Sequence[Value]) -> Value:
    """Fill in `{0}` and the like; unknown with braces of its own, or with a part that is no simple value."""
    if any(isinstance(each, UnknownValue | PatternValue | list | dict) for each in arguments):
        return UNKNOWN
    pieces = _PLACE.split(text_of(arguments[0]))
    if any("{" in piece or "}" in piece for piece in pieces[::2]) or any(
        int(piece) > len(arguments) - 2 for piece in pieces[1::2]
    ):
        return UNKNOWN
    return "".join(text_of(arguments[int(piece) + 1]) if place % 2 else piece for place, piece in enumerate(pieces))


def from_json(value: Value) -> Value:
    if not isinstance(value, str):
        return UNKNOWN
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return UNKNOWN


def member(value: Value, name: str) -> Value:
    """Return a property; a missing one is null, unless the object has unknown ones."""
    if isinstance(value, _Every):
        # Items that lack the property are left out.
        return _Every(member(each, name) for each in value if not _lacks(each, name))
    if isinstance(value, dict):
        found = {str(key).lower(): each for key, each in value.items()}
        return found.get(name.lower(), found.get("*"))
    return UNKNOWN if isinstance(value, UnknownValue | PatternValue | list) else None


def _lacks(value: Value, name: str) -> bool:
    if isinstance(value, dict):
        return not {str(key).lower() for key in value} & {name.lower(), "*"}
    return not isinstance(value, UnknownValue | PatternValue | list)


class _Every(list[Value]):
    """The items that `.*` selects."""


def every(value: Value) -> Value:
    """Return the items of a list, or the values of an object; of null none, which is an empty list and holds.

    So evaluate GitHub's runner (actions/runner, `Index.cs`) and its language server (actions/languageservices,
    `evaluator.ts`).
    """
    if isinstance(value, _Every):
        # A second `*` selects items of items.
        return UNKNOWN
    if isinstance(value, list):
        return _Every(value)
    if isinstance(value, dict) and "*" not in value:
        return _Every(value.values())
    return _Every() if value is None else UNKNOWN
