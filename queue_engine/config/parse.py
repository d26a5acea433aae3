"""Parse a configuration from its text, or list all its faults, each with its line."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from queue_engine.config.document import ConfigError, Document, Place, Problem, nearest, of_json, parse, quoted, visible
from queue_engine.config.file import BranchRules, Config, followed
from queue_engine.config.kinds import ConfigModel
from queue_engine.config.model import Policy
from queue_engine.domain.facts import RequiredCheck, is_own_check, unreported_check
from queue_engine.domain.policy import Mode, has_label

_SENTENCES: Mapping[str, str] = {
    "bool_type": "must be true or false, not {input}",
    "dict_type": "must be a section, not {input}",
    "int_type": "must be a whole number, not {input}",
    "list_type": "must be a list, not {input}",
    "literal_error": "must be {expected}, not {input}",
    "missing": "is missing",
    "model_type": "must be a section, not {input}",
    "string_pattern_mismatch": "is not a GitHub login: {input}",
    "string_too_long": "is longer than {max_length} characters",
    "string_too_short": "is empty",
    "string_type": "must be text, not {input}: quote it",
    "greater_than_equal": "must be {ge} or more, not {input}",
    "less_than_equal": "must be {le} or less, not {input}",
    "too_long": "has more than {max_length} values",
}
"""Sentences by pydantic's kinds of errors; `test_parse.py` asserts that no kind is missing."""


_MODE = re.compile(r"""^["']?mode["']?[ \t]*:[ \t]*["']?([^\s"'#]*)""", re.MULTILINE)


def decoded(content: bytes) -> str:
    """Decode the content of a file. Raises ConfigError for content that is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError([Problem(line, "", "The file is not UTF-8: save it as UTF-8.")]) from None


def read(text: str, defaults: Policy | None = None, *, parsed: str | None = None) -> Config:
    """Parse the configuration upon the policy `defaults`. Raises ConfigError with every problem.

    `parsed` is what `as_json` returned for this text. The text itself has the lines of problems.
    """
    if parsed is not None:
        with suppress(ConfigError):
            return _config(of_json(parsed), defaults)
    return _config(parse(text), defaults)


def _config(document: Document, defaults: Policy | None) -> Config:
    if document.value is not None and not isinstance(document.value, dict):
        raise ConfigError([Problem(1, "", "The file must be keys with values, such as `depth: 20`.")])
    problems = list(document.problems)
    try:
        config = Config.model_validate(_without_empty(document.value or {}))
    except ValidationError as error:
        problems += (_problem(document, each) for each in error.errors(include_url=False))
        raise ConfigError(problems) from None
    if problems := [*problems, *_contradictions(config, document, defaults or Policy())]:
        raise ConfigError(problems)
    return config


def declared_mode(text: str) -> Mode | None:
    """Return the mode that a faulty file asks for, None without; a misspelt one is `shadow`: IMQ writes nothing."""
    found = _MODE.search(text)
    if found is None or not found[1]:
        return None
    return Mode.QUEUE if found[1] == Mode.QUEUE else Mode.SHADOW


def _without_empty(value: Any) -> Any:
    """Drop keys without a value, such as a section of which all lines are commented out."""
    if isinstance(value, dict):
        return {key: _without_empty(each) for key, each in value.items() if each is not None}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value


def _problem(document: Document, error: ErrorDetails) -> Problem:
    location = error["loc"]
    # For a mapping's key pydantic appends a part to the location.
    place: Place = location[:-1] if location[-1:] == ("[key]",) else location
    sentence = _unknown(place) if error["type"] == "extra_forbidden" else _sentence(error)
    return Problem(document.line(place), _shown(document, place), sentence)


def _sentence(error: ErrorDetails) -> str:
    if error["type"] == "value_error":
        return error["msg"].removeprefix("Value error, ")
    template = _SENTENCES.get(error["type"])
    if template is None:
        return f"cannot be used: {error['msg']}"
    given = error["input"]
    return template.format(**error.get("ctx", {}), input=_named(given))


def _named(given: object) -> str:
    """Quote a value of the file."""
    if isinstance(given, bool):
        return str(given).lower()
    return "a section" if isinstance(given, dict) else "a list" if isinstance(given, list) else quoted(given)


def _unknown(place: Place) -> str:
    """Describe an unknown key, and suggest a key of the same section or the right section."""
    key = str(place[-1])
    known = keys(_section(place[:-1]))
    if at_home := [name for name, section in _sections() if key in keys(section) and key not in known]:
        return f"is unknown here; it belongs under {' or '.join(at_home)}"
    return f"is unknown{nearest(key, known)}"


def keys(section: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the keys of a section as the file writes them."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def _section(place: Place) -> type[BaseModel]:
    """Find the section at this place, which exists."""
    section: type[BaseModel] = Config
    for part in place:
        if isinstance(part, str) and part in keys(section):
            section = next(_models(keys(section)[part].annotation), section)
    return section


def _sections() -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in keys(BranchRules).items():
        for model in _models(field.annotation):
            yield name, model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _contradictions(config: Config, document: Document, defaults: Policy) -> Iterator[Problem]:
    """Find values that contradict each other."""
    yield from _shadowed(config, document)
    top = followed(defaults, config)
    levels: list[tuple[Place, ConfigModel, Policy]] = [((), config, top)]
    levels += [(("branches", at), rules, followed(top, rules)) for at, rules in enumerate(config.branches or ())]
    for at, rules, policy in levels:
        for place, sentence in (
            *_indistinct_labels(rules),
            *_own_checks(rules, defaults),
            *_two_effects(rules, policy),
        ):
            yield Problem(document.line((*at, *place)), _shown(document, (*at, *place)), sentence)


def _indistinct_labels(rules: ConfigModel) -> Iterator[tuple[Place, str]]:
    """Find labels that are one label on GitHub but have two meanings: one of them would be ignored silently."""
    for place in (("merge", "method_labels"), ("priority", "labels")):
        spellings: dict[str, str] = {}
        for label in _written(rules, *place):
            if (first := spellings.setdefault(label.casefold(), label)) != label:
                yield (*place, label), f"is the same label as {quoted(first)} on GitHub"


def _own_checks(rules: ConfigModel, defaults: Policy) -> Iterator[tuple[Place, str]]:
    """Find required checks of IMQ itself: only GitHub's rules may require its own check."""
    for key in ("required", "queue_only"):
        for index, check in enumerate(_written(rules, "checks", key)):
            required = RequiredCheck(check.name, check.app)
            if is_own_check(required, defaults.own_app) or unreported_check([required], defaults.own_app) is not None:
                sentence = f"requires IMQ's own check {quoted(check.name)}, which only GitHub's rules can require"
                yield ("checks", key, index), sentence


def _two_effects(rules: ConfigModel, policy: Policy) -> Iterator[tuple[Place, str]]:
    """Find a label that both queues and blocks, and a label that IMQ itself sets and removes, that does."""
    triggers, blocking = policy.trigger_labels, policy.blocking.labels
    if both := {each.casefold() for each in triggers} & blocking:
        place = "trigger_labels" if getattr(rules, "blocking", None) is None else "blocking"
        yield (place,), f"has {quoted(min(both))}, which both queues and blocks"
    for labels, effect in ((triggers, "queues"), (blocking, "blocks")):
        if policy.checks.queue_only and has_label([policy.checks.testing_label], labels):
            label = quoted(policy.checks.testing_label)
            yield ("checks",), f"has the testing label {label}, which also {effect} pull requests"
    landed, failed = policy.labels.landed, policy.labels.failed
    if landed is not None and failed is not None and has_label([landed], [failed]):
        yield ("labels",), f"has {quoted(landed)} for two outcomes"
    for label in policy.labels.own:
        if other := next((does for does, labels in _effects(policy) if has_label([label], labels)), None):
            yield ("labels",), f"has {quoted(label)}, which also {other}: choose another one"


def _effects(policy: Policy) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield what labels do, and which: one that IMQ itself sets and removes must not be among them."""
    yield "queues pull requests", policy.trigger_labels
    yield "blocks pull requests", policy.blocking.labels
    yield "is required of pull requests", policy.require.labels
    yield "is one of `priority.labels`", [each.label for each in policy.priority.labels]
    yield "lets pull requests land in a freeze", policy.freeze.exempt_labels
    yield "chooses a merge method", policy.merge.method_labels
    yield "starts checks", (policy.checks.testing_label,) if policy.checks.queue_only else ()


def _written(rules: ConfigModel, section: str, key: str) -> Iterable[Any]:
    """Return the labels or checks that a file writes for this key."""
    return getattr(getattr(rules, section), key, None) or ()


def _shadowed(config: Config, document: Document) -> Iterator[Problem]:
    """Find patterns of branches that an earlier rule matches first."""
    rules: dict[str, int] = {}
    for index, rule in enumerate(config.branches or ()):
        for pattern in rule.match:
            if "**" in rules or pattern in rules:
                place: Place = ("branches", index, "match")
                earlier = document.line(("branches", rules.get("**", rules.get(pattern, 0))))
                sentence = f"never applies to {quoted(pattern)}: the rule on line {earlier} matches first"
                yield Problem(document.line(place), _shown(document, place), sentence)
            rules.setdefault(pattern, index)


def _shown(document: Document, place: Place) -> str:
    """Format a place for people: `branches[0].checks.timeout`; only parts that the file has, and a missing key.

    A single value in place of a list has no index.
    """
    text = ""
    for end, part in enumerate(place, start=1):
        if isinstance(part, str):
            text += f".{part}" if text else part
        elif place[:end] in document.lines:
            text += f"[{part}]"
    return visible(text)[:200]
