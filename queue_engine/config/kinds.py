"""Kinds of configuration values: how a file writes each, within which bounds, and what it means for the policy."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema

from queue_engine.config import freezes, merge_commit, patterns
from queue_engine.config.document import nearest, quoted
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.facts import MergeMethod, RequiredCheck
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.policy import (
    FIX,
    Candidates,
    CulpritPolicy,
    PriorityLabel,
    RerunLimit,
    RunSlots,
    TrainForks,
    has_label,
)
from queue_engine.domain.reasons import Reason

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_FORM_OF_DURATION = re.compile(r"(?:(\d{1,5})d)?(?:(\d{1,5})h)?(?:(\d{1,5})m)?(?:(\d{1,5})s)?", re.ASCII)


def duration(text: str) -> timedelta:
    """Parse a duration. Raises ValueError."""
    found = _FORM_OF_DURATION.fullmatch(text.replace(" ", ""))
    if not found or not any(found.groups()):
        raise ValueError(f"must be a duration such as 20m, 2h or 7d, not {quoted(text)}")
    amounts = zip(_UNITS.values(), found.groups(), strict=True)
    return timedelta(**{unit: int(amount) for unit, amount in amounts if amount})


def shown(length: timedelta) -> str:
    """Format a duration in the largest units that fit: `1h30m`. Fractions of a second are left out."""
    left, parts = int(length.total_seconds()), ""
    for letter, unit in _UNITS.items():
        amount, left = divmod(left, int(timedelta(**{unit: 1}).total_seconds()))
        parts += f"{amount}{letter}" if amount else ""
    return parts or "0s"


T = TypeVar("T")


def _same(value: Any) -> Any:
    return value


class Kind(NamedTuple):
    """How a file writes a value: the form that pydantic reads, what it means for the policy, and how it is shown."""

    form: Any
    meant: Callable[[Any], object] = _same
    shown: Callable[[Any], object] = _same


MOST = 50
"""Values of any list."""

TEXT_PLACEHOLDERS = ("base", "label", "position")
"""The placeholders of the repository's own texts."""


class ConfigModel(ReadModel, extra="forbid", frozen=True, strict=True):
    """A mapping in the file. Unknown keys are refused, so that no misspelt key is silently ignored."""


class _Duration:
    """Reads a duration within bounds; `auto`, where allowed, becomes None."""

    def __init__(self, least: timedelta, most: timedelta, *, or_auto: bool = False) -> None:
        self._least, self._most, self._or_auto = least, most, or_auto

    def __call__(self, value: object) -> timedelta | None:
        if self._or_auto and value == "auto":
            return None
        if not isinstance(value, str):
            raise ValueError(f"must be a duration such as 20m or 2h, not {quoted(value)}")
        length = duration(value)
        if not self._least <= length <= self._most:
            bounds = f"{shown(self._least)} to {shown(self._most)}"
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

_MOST_FREEZES = 20
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
GreenBranch = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/{}-]{0,199}$"), _kept(merge_commit.green_branch)
]
Why = Annotated[str, StringConstraints(max_length=200), _kept(_one_line)]
NoticeName = Annotated[str, _kept(_notice_name)]
"""A kind of comment, or a reason code."""
OwnText = Annotated[str, StringConstraints(min_length=1, max_length=1000), _kept(_text)]


# Sections in a list, or by label.


class PriorityRule(ConfigModel):
    """The priority that one label gives."""

    priority: int = Field(0, ge=-1000, le=1000, description="Higher goes first.")
    hotfix: bool = Field(False, description="Lands before all others.")
    preempts: bool = Field(False, description="Preempts even the pull request that is being checked.")
    fixes_base: bool = Field(False, description="May land while the base branch is red, because it is the fix.")


def _number_or_rule(value: object) -> object:
    return {"priority": value} if isinstance(value, int) and not isinstance(value, bool) else value


LabelPriority = Annotated[
    PriorityRule,
    BeforeValidator(_number_or_rule, json_schema_input_type=int | PriorityRule),
]


class CheckRule(ConfigModel):
    """A check of one App."""

    name: CheckName = Field(description="The check's name, as GitHub shows it.")
    app: int | None = Field(None, ge=1, description="The App's numeric id (GitHub Actions is 15368).")

    def __str__(self) -> str:
        return self.name if self.app is None else f"{self.name} of App {self.app}"


def _name_or_check(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


Check = Annotated[CheckRule, BeforeValidator(_name_or_check, json_schema_input_type=str | CheckRule)]


_YEARS = range(2020, 2100)


def _day(value: object) -> date:
    try:
        day = value if isinstance(value, date) else date.fromisoformat(str(value))
    except ValueError:
        day = None
    if day is None or day.year not in _YEARS:
        raise ValueError(f"must be a day such as 2026-12-31, not {quoted(value)}")
    return day


Day = Annotated[
    date, BeforeValidator(_day), WithJsonSchema({"type": "string", "format": "date", "examples": ["2026-12-31"]})
]


class RerunRule(ConfigModel):
    """A check that people know to be flaky."""

    name: CheckName = Field(description="The check's name, as GitHub shows it.")
    until: Day = Field(description="The last day, in UTC, on which IMQ reruns it more often.")

    def __str__(self) -> str:
        return self.name


class SlotRule(ConfigModel):
    """Runners of which there are few."""

    name: CheckName = Field(description="What people call these runners, such as gpu.")
    checks: Some[Wildcards] = Field(description="The checks that need one: names, or wildcards.")
    runs: int = Field(ge=1, le=100, description="How many runs of this repository may need one at once.")

    def __str__(self) -> str:
        return self.name


class FreezeRule(ConfigModel):
    """A time in which nothing lands."""

    start: str = Field(
        alias="from", description='When it begins: "16:00", "fri 16:00", "2026-12-23" or "2026-12-23 16:00".'
    )
    end: str = Field(alias="to", description="When it ends, in the same form; a date includes its day.")
    days: Some[str] | None = Field(None, description="Days of the week on which times of the day begin: mon, tue, ...")
    zone: str = Field("UTC", description="The time zone, such as Europe/Berlin.")
    why: Why = Field("", description="The reason that people read.")

    @model_validator(mode="after")
    def _is_a_window(self) -> Self:
        self.freeze()
        return self

    def freeze(self) -> freezes.Freeze:
        """Convert the window for the engine. Raises ValueError."""
        return freezes.window(self.start, self.end, self.days, self.zone, self.why)


# The kinds.


def _folded(values: Iterable[str]) -> frozenset[str]:
    return frozenset(value.casefold() for value in values)


def _teams(values: Iterable[str]) -> frozenset[str]:
    return _folded(value.removeprefix("@") for value in values)


def _method(value: str) -> MergeMethod | None:
    return None if value == "auto" else MergeMethod(value)


def _or_auto(shown: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda value: "auto" if value is None else shown(value)


def _checks(values: Iterable[Any]) -> frozenset[RequiredCheck]:
    return frozenset(RequiredCheck(each.name, each.app) for each in values)


def _checks_shown(values: Iterable[RequiredCheck]) -> list[object]:
    return [
        each.name if each.app_id is None else {"name": each.name, "app": each.app_id}
        for each in sorted(values, key=lambda each: (each.name, each.app_id or 0))
    ]


_MARKS = ("hotfix", "preempts", "fixes_base")
"""What a label may give beside its priority."""


def _priorities(rules: Mapping[str, Iterable[tuple[str, Any]]]) -> tuple[PriorityLabel, ...]:
    given = tuple(PriorityLabel(label, **dict(rule)) for label, rule in rules.items())
    named = any(each.fixes_base for each in given) or has_label(rules, [FIX.label])
    return given if named else (*given, FIX)


def _priorities_shown(given: Iterable[PriorityLabel]) -> dict[str, object]:
    return {each.label: _label_priority(each) for each in given}


def _label_priority(given: PriorityLabel) -> object:
    marks = {name: True for name in _MARKS if getattr(given, name)}
    return {"priority": given.priority, **marks} if marks else given.priority


def _methods(values: Mapping[str, str]) -> dict[str, MergeMethod]:
    return {label.casefold(): MergeMethod(method) for label, method in values.items()}


def _methods_shown(values: Mapping[str, MergeMethod]) -> dict[str, str]:
    return {label: str(method) for label, method in values.items()}


def _off_or_auto(value: object) -> object:
    """Accept `on`, and truth values in place of both words."""
    words = {True: "auto", False: "off", "on": "auto"}
    return words.get(value, value) if isinstance(value, str | bool) else value


def _off_or_on(value: object) -> object:
    """Accept truth values: YAML 1.1 reads both words as such."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


_PricesByLabel = Annotated[dict[Label, Annotated[float, Field(ge=0, le=100)]], Field(max_length=MOST)]
Prices = Annotated[
    _PricesByLabel,
    BeforeValidator(
        lambda value: {} if value == "github" else value,
        json_schema_input_type=Literal["github"] | _PricesByLabel,
    ),
]


def one_of(*values: StrEnum, before: Callable[[object], object] = _same) -> Kind:
    """Return the kind of these values of one enumeration, of which people write others, too, if `before` reads them."""
    words = Literal[tuple(map(str, values))]  # type: ignore[valid-type]
    return Kind(Annotated[words, BeforeValidator(before)], type(values[0]), str)


def number(least: int, most: int) -> Kind:
    """Return the kind of whole numbers within bounds."""
    return Kind(Annotated[int, Field(ge=least, le=most)])


def listed(each: Any) -> Kind:
    """Return the kind of lists."""
    return Kind(Many[each], tuple, list)


def folded(each: Any) -> Kind:
    """Return the kind of sets of names that differ by more than case."""
    return Kind(Many[each], _folded, sorted)


TRUTH = Kind(bool)
TIMEOUT, LONG_TIMEOUT, SETTLING = (Kind(form, shown=shown) for form in (Timeout, LongTimeout, Settling))
OR_NONE = Kind(Settling, shown=lambda length: length and shown(length))
AUTO_TIMEOUT = Kind(AutoTimeout, shown=_or_auto(shown))
RUNS = Kind(AutoRuns, shown=_or_auto(_same))
TRIGGERS = Kind(Triggers[Label], tuple, list)
TEAMS = Kind(Many[Team], _teams, sorted)
AGENTS = Kind(Many[Wildcards], lambda agents: tuple(each.casefold() for each in agents), list)
METHOD = Kind(Literal["auto", "merge", "squash", "rebase"], _method, _or_auto(str))
METHODS = Kind(
    Annotated[dict[Label, Literal["merge", "squash", "rebase"]], Field(max_length=MOST)], _methods, _methods_shown
)
PRICES = Kind(
    Prices,
    lambda prices: {label.casefold(): price for label, price in prices.items()},
    lambda prices: "github" if prices == {} else prices,
)
CHECKS = Kind(Many[Check], _checks, _checks_shown)
FLAKY = Kind(
    Many[RerunRule],
    lambda rules: tuple(RerunLimit(each.name, each.until) for each in rules),
    lambda checks: [{"name": each.name, "until": each.until.isoformat()} for each in checks],
)
CAPACITY = Kind(
    Many[SlotRule],
    lambda rules: tuple(RunSlots(each.name, tuple(each.checks), each.runs) for each in rules),
    lambda found: [{"name": each.name, "checks": [*each.checks], "runs": each.runs} for each in found],
)
PRIORITIES = Kind(Annotated[dict[Label, LabelPriority], Field(max_length=MOST)], _priorities, _priorities_shown)
CANDIDATES = one_of(*Candidates, before=_off_or_auto)
FORKS = one_of(*TrainForks, before=_off_or_on)
CULPRIT = one_of(*CulpritPolicy, before=lambda value: "off" if value is False else value)
WINDOWS = Kind(
    Annotated[list[FreezeRule], Field(max_length=_MOST_FREEZES)],
    lambda windows: tuple(each.freeze() for each in windows),
    lambda given: [freezes.shown(each) for each in given],
)
TEXTS = Kind(Annotated[dict[NoticeName, OwnText], Field(max_length=MOST)], dict, dict)
