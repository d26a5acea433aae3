"""Declare a key of the configuration beside its type and text: its field of the policy, and what may change it.

An organisation's shared configuration may make a key stricter only: the key says in words how far, and computes it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel

from queue_engine.config import freezes, timing
from queue_engine.domain.facts import MergeMethod, Permission, RequiredCheck
from queue_engine.domain.policy import (
    FIX,
    CommentPolicy,
    GithubMergePolicy,
    Mode,
    NotReadyPolicy,
    NotReadyPushPolicy,
    Policy,
    PriorityLabel,
    PushPolicy,
    has_label,
)
from queue_engine.domain.train_policy import Candidates

Stricter = Callable[[Policy, Any, Any], Any]
"""Computes the effective value from the operator's policy, its value of the key, and the wanted value."""


class ValueKind(NamedTuple):
    """How a value becomes that of a policy, and is written in a file."""

    meant: Callable[[Any], object]
    shown: Callable[[Any], object]


def _same(value: Any) -> Any:
    return value


_SAME = ValueKind(_same, _same)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the file, its field of the policy, its limit in a shared file, and the kind of its value."""

    field: str
    may: str
    """The change that a shared configuration may make, in words."""
    risk: str
    """The risk of any other change; completes "because"."""
    stricter: Stricter
    kind: ValueKind = _SAME
    name: str = ""
    """With its section: `checks.timeout`."""


def keys_of(model: type[BaseModel], within: str = "", *, own: bool = False) -> Iterator[Key]:
    """Find the keys of a section and its sections, in their order; only those of the section's own class if `own`."""
    for name, field in model.model_fields.items():
        if own and name not in model.__annotations__:
            continue
        declared = next((each for each in field.metadata if isinstance(each, Key)), None)
        if declared is not None:
            yield replace(declared, name=f"{within}{name}")
        elif (section := _section(field.annotation)) is not None:
            yield from keys_of(section, f"{within}{name}.")


def _section(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = get_args(annotation) if getattr(annotation, "__origin__", None) is not list else ()
    return next((found for each in inner if (found := _section(each)) is not None), None)


# What a shared configuration may do.


def operators(_: Policy, given: Any, __: Any) -> Any:
    """Keep the operator's value."""
    return given


def free(_: Policy, __: Any, wanted: Any) -> Any:
    """Follow the file."""
    return wanted


def lower(_: Policy, given: Any, wanted: Any) -> Any:
    """Take the lower or shorter value."""
    return min(given, wanted)


def longer(_: Policy, given: Any, wanted: Any) -> Any:
    """Take the longer value."""
    return max(given, wanted)


def both(_: Policy, given: bool, wanted: bool) -> bool:
    """Let the key be true if both say so."""
    return given and wanted


def added(_: Policy, given: Any, wanted: Any) -> Any:
    """Add the wanted values to the operator's."""
    if isinstance(given, frozenset):
        return given | wanted
    return (*wanted, *(each for each in given if each not in wanted))


def common(_: Policy, given: Any, wanted: Any) -> Any:
    """Keep only values that the operator has too."""
    return type(given)(each for each in wanted if each in given)


def rather(*strictest: Any) -> Stricter:
    """Take the value that comes first in this order of values, the strictest first; others as the file says."""

    def choose(_: Policy, given: Any, wanted: Any) -> Any:
        return next((each for each in strictest if each in (given, wanted)), wanted)

    return choose


def limit(none: int | None) -> Stricter:
    """Take the smaller number, where `none` is no limit."""

    def choose(_: Policy, given: Any, wanted: Any) -> Any:
        return min((each for each in (given, wanted) if each != none), default=none)

    return choose


def known_labels(_: Policy, given: tuple[str, ...], wanted: Iterable[str]) -> tuple[str, ...]:
    """Keep those of the operator's labels, or all of them."""
    known = {label.casefold() for label in given}
    return tuple(label for label in wanted if label.casefold() in known) or given


def auto_merge(_: Policy, given: GithubMergePolicy, wanted: GithubMergePolicy) -> GithubMergePolicy:
    """Let GitHub merge past the queue only where the operator does."""
    return given if wanted is GithubMergePolicy.IGNORE else wanted


def check_timeout(operator: Policy, given: timedelta | None, wanted: timedelta | None) -> timedelta | None:
    """Take the shorter limit; if the operator's is `auto`, one up to the fallback."""
    longest = given or operator.fallback_check_timeout
    return wanted if wanted is not None and wanted <= longest else given


def exempt_labels(operator: Policy, given: frozenset[str], wanted: frozenset[str]) -> frozenset[str]:
    """Allow any label if the operator has no freezes: the shared file may exempt from its own."""
    return wanted & given if operator.freezes else wanted


def train_candidates(_: Policy, given: Candidates, wanted: Candidates) -> Candidates:
    """Switch trains off, and not on."""
    return Candidates.OFF if wanted is Candidates.OFF else given


PERMISSION = rather(*reversed(Permission))
LEVEL = rather(*CommentPolicy)
MODE = rather(Mode.SHADOW)
NOT_READY = rather(NotReadyPolicy.REFUSE)
PUSH = rather(PushPolicy.DEQUEUE)
WAITING_PUSH = rather(NotReadyPushPolicy.DEQUEUE)

# How a file and a policy write a value.


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


LIST = ValueKind(tuple, list)
NAMES = ValueKind(_folded, sorted)
TEAMS = ValueKind(_teams, sorted)
AGENTS = ValueKind(lambda agents: tuple(each.casefold() for each in agents), list)
DURATION = ValueKind(_same, timing.shown)
LIMIT = ValueKind(_same, _or_auto(timing.shown))
OR_AUTO = ValueKind(_same, _or_auto(_same))
METHOD = ValueKind(_method, _or_auto(str))
METHODS = ValueKind(_methods, _methods_shown)
CHECKS = ValueKind(_checks, _checks_shown)
PRIORITIES = ValueKind(_priorities, _priorities_shown)
WINDOWS = ValueKind(
    lambda windows: tuple(each.freeze() for each in windows), lambda given: [freezes.shown(each) for each in given]
)
