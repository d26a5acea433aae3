"""Kinds of configuration values: the form and the bounds of each."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    StringConstraints,
    WithJsonSchema,
)
from pydantic_core import CoreSchema

from queue_engine.config import merge_commit, patterns, timing
from queue_engine.config.problems import nearest, quoted
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason

T = TypeVar("T")

MOST = 50
"""Values of any list."""

TEXT_PLACEHOLDERS = ("base", "label", "position")
"""The placeholders of the repository's own texts."""


class ConfigModel(BaseModel):
    """A mapping in the file. Unknown keys are refused, so that no misspelt key is silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Duration:
    """Reads a duration within bounds; `auto`, where allowed, becomes None."""

    def __init__(self, least: timedelta, most: timedelta, *, or_auto: bool = False) -> None:
        self._least, self._most, self._or_auto = least, most, or_auto

    def __call__(self, value: object) -> timedelta | None:
        if self._or_auto and value == "auto":
            return None
        if not isinstance(value, str):
            raise ValueError(f"must be a duration such as 20m or 2h, not {quoted(value)}")
        length = timing.duration(value)
        if not self._least <= length <= self._most:
            bounds = f"{timing.shown(self._least)} to {timing.shown(self._most)}"
            raise ValueError(f"must be from {bounds}, not {quoted(value)}")
        return length


_FORM: dict[str, Any] = {"type": "string", "pattern": "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$", "examples": ["2h"]}
_MINUTE, _WEEK, _QUARTER = timedelta(minutes=1), timedelta(days=7), timedelta(days=90)

Timeout = Annotated[timedelta, BeforeValidator(_Duration(_MINUTE, _WEEK)), WithJsonSchema(_FORM)]
LongTimeout = Annotated[timedelta, BeforeValidator(_Duration(_MINUTE, _QUARTER)), WithJsonSchema(_FORM)]
"""How long a pull request may wait outside the queue, which holds up no other."""
AutoTimeout = Annotated[
    timedelta | None,
    BeforeValidator(_Duration(_MINUTE, _WEEK, or_auto=True)),
    WithJsonSchema({"anyOf": [{"const": "auto"}, _FORM]}),
]
Settling = Annotated[
    timedelta, BeforeValidator(_Duration(timedelta(seconds=1), timedelta(hours=1))), WithJsonSchema(_FORM)
]


_MOST_RUNS = 32


def _runs(value: object) -> int | None:
    """Read a number of runs; `auto` becomes None."""
    if value == "auto":
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_RUNS:
        shown = str(value).lower() if isinstance(value, bool) else value
        raise ValueError(f"must be auto or a number from 1 to {_MOST_RUNS}, not {quoted(shown)}")
    return value


AutoRuns = Annotated[
    int | None,
    BeforeValidator(_runs),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": _MOST_RUNS}]}),
]

_TRIGGERS = 5
"""How many labels may queue."""


class _OrOne:
    """Allows, in the schema, one value in place of a list."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core)
        return {"anyOf": [schema["items"], schema]}


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _few_and_different(values: list[T]) -> list[T]:
    if len(values) > MOST:
        raise ValueError(f"has more than {MOST} values")
    keys: set[str] = set()
    for value in values:
        if (key := str(value).casefold()) in keys:
            raise ValueError(f"has {quoted(value)} twice")
        keys.add(key)
    return values


def _some(values: list[T]) -> list[T]:
    if not values:
        raise ValueError("must name at least one")
    return values


def _at_most_five(values: list[T]) -> list[T]:
    if len(values) > _TRIGGERS:
        raise ValueError(f"has more than {_TRIGGERS} values")
    return values


Many = Annotated[list[T], BeforeValidator(_listed), AfterValidator(_few_and_different), _OrOne()]
"""One value or a list, without duplicates."""
Some = Annotated[Many[T], AfterValidator(_some)]
"""The same, with at least one value."""
Triggers = Annotated[Some[T], AfterValidator(_at_most_five)]
"""The same, with at most five values."""


def _kept(check: Callable[[str], object]) -> AfterValidator:
    """Check a text without changing it."""

    def keep(value: str) -> str:
        check(value)
        return value

    return AfterValidator(keep)


def _one_line(value: str) -> None:
    if value != value.strip() or not value.isprintable():
        raise ValueError("must be one line without leading or trailing spaces")


_TEAM = re.compile(r"@?([A-Za-z0-9][A-Za-z0-9-]{0,99}/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")


def _text(template: str) -> None:
    merge_commit.checked(template, TEXT_PLACEHOLDERS)


def _team(name: str) -> None:
    if not _TEAM.fullmatch(name):
        raise ValueError(f"is not a team, such as release-managers or acme/release-managers: {quoted(name)}")


def _notice_name(name: str) -> None:
    known = {*map(str, NoticeKind), *map(str, Reason)}
    if name not in known:
        raise ValueError(f"is not a reason code or a kind of comment{nearest(name, known)}")


Label = Annotated[str, StringConstraints(min_length=1, max_length=50), _kept(_one_line)]
Login = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\[bot\])?$")]
Team = Annotated[str, _kept(_team)]
"""The slug of a team, perhaps after its organisation."""
CheckName = Annotated[str, StringConstraints(min_length=1, max_length=255), _kept(_one_line)]
Wildcards = Annotated[
    str, StringConstraints(min_length=1, max_length=patterns.LONGEST), _kept(_one_line), _kept(patterns.branch_pattern)
]
PathWildcards = Annotated[
    str, StringConstraints(min_length=1, max_length=patterns.LONGEST), _kept(_one_line), _kept(patterns.path_pattern)
]
TitlePattern = Annotated[
    str, StringConstraints(min_length=1, max_length=patterns.LONGEST), _kept(patterns.title_pattern)
]
TitleTemplate = Annotated[str, StringConstraints(min_length=1, max_length=250), _kept(merge_commit.title_template)]
BodyTemplate = Annotated[str, StringConstraints(max_length=5000), _kept(merge_commit.body_template)]
Why = Annotated[str, StringConstraints(max_length=200), _kept(_one_line)]
NoticeName = Annotated[str, _kept(_notice_name)]
"""A kind of comment, or a reason code."""
OwnText = Annotated[str, StringConstraints(min_length=1, max_length=1000), _kept(_text)]
