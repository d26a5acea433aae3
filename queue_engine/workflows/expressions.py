"""Parse and evaluate expressions of GitHub Actions, with values that may be unknown."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from queue_engine.workflows.values import (
    UNKNOWN,
    PatternValue,
    UnknownValue,
    Value,
    contains,
    ends_with,
    equals,
    number,
    starts_with,
    text_of,
    truth,
)

LONGEST = 2_000
_DEEPEST = 40
_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w.]))|(?P<text>'(?:[^']|'')*')"
    r"|(?P<name>[A-Za-z_][\w-]*)|(?P<sign>&&|\|\||==|!=|<=|>=|[<>!().,*\[\]]))"
)
_WORDS: Mapping[str, Value] = {"true": True, "false": False, "null": None}
_TEMPLATE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
STATUS = re.compile(r"\b(?:always|success|failure|cancelled)\s*\(", re.IGNORECASE)
"""Finds a function that decides whether a job runs after jobs that did not."""


class ExpressionError(Exception):
    """The text is no expression that this module reads."""


@dataclass(frozen=True, slots=True)
class ExpressionContext:
    """The contexts by name, and the answers of `success()` and its like."""

    values: Mapping[str, Value]
    status: Mapping[str, bool | None]


def evaluate(text: str, context: ExpressionContext) -> Value:
    """Evaluate an expression without its braces; `UNKNOWN` if it cannot be read."""
    try:
        return _Parser(text, context).whole()
    except ExpressionError:
        return UNKNOWN


def guard(condition: object, context: ExpressionContext) -> bool | None:
    """Whether a condition, the value of an `if`, holds."""
    if condition is None or isinstance(condition, bool | int | float):
        return True if condition is None else bool(condition)
    if not isinstance(condition, str):
        return None
    text = condition.strip()
    if "${{" in text:
        inner = _TEMPLATE.fullmatch(text)
        # With more around it GitHub takes the whole for a text, which is always true: no author means that.
        if inner is None or "${{" in inner[1]:
            return None
        text = inner[1]
    return truth(evaluate(text, context))


def render(text: str, context: ExpressionContext) -> list[str | UnknownValue | PatternValue]:
    """Return the parts of a text with expressions, each known or not."""
    parts: list[str | UnknownValue | PatternValue] = []
    end = 0
    for found in _TEMPLATE.finditer(text):
        parts.append(text[end : found.start()])
        value = evaluate(found[1], context)
        known = not isinstance(value, UnknownValue | PatternValue | list | dict)
        parts.append(text_of(value) if known else value if isinstance(value, PatternValue) else UNKNOWN)
        end = found.end()
    parts.append(text[end:])
    return parts


class _Parser:
    """Evaluates while it parses: the text is short, and nothing has an effect."""

    def __init__(self, text: str, context: ExpressionContext) -> None:
        if len(text) > LONGEST:
            raise ExpressionError(text)
        self._tokens = list(self._scan(text.strip()))
        self._at = 0
        self._depth = 0
        self._context = context

    @staticmethod
    def _scan(text: str) -> list[tuple[str, str]]:
        tokens, at = [], 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                raise ExpressionError(text)
            tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        return tokens

    def whole(self) -> Value:
        value = self._or()
        if self._at != len(self._tokens):
            raise ExpressionError
        return value

    def _sign(self, *signs: str) -> str | None:
        if self._at < len(self._tokens) and self._tokens[self._at] in {("sign", sign) for sign in signs}:
            self._at += 1
            return self._tokens[self._at - 1][1]
        return None

    def _expect(self, sign: str) -> None:
        if self._sign(sign) is None:
            raise ExpressionError

    def _or(self) -> Value:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ExpressionError
        value = self._and()
        while self._sign("||"):
            right = self._and()
            match truth(value):
                case False:
                    value = right
                case None:
                    value = UnknownValue(True if truth(right) else None)
        self._depth -= 1
        return value

    def _and(self) -> Value:
        value = self._equality()
        while self._sign("&&"):
            right = self._equality()
            match truth(value):
                case True:
                    value = right
                case None:
                    value = UnknownValue(False if truth(right) is False else None)
        return value

    def _equality(self) -> Value:
        value = self._order()
        while sign := self._sign("==", "!="):
            same = equals(value, self._order())
            value = UNKNOWN if same is None else same == (sign == "==")
        return value

    def _order(self) -> Value:
        value = self._unary()
        while sign := self._sign("<=", ">=", "<", ">"):
            right = self._unary()
            simple = all(each is None or isinstance(each, bool | int | float | str) for each in (value, right))
            if not simple or (isinstance(value, str) and isinstance(right, str)):
                value = UNKNOWN
                continue
            left_number, right_number = number(value), number(right)
            below, same = left_number < right_number, left_number == right_number
            above = left_number > right_number
            value = {"<": below, "<=": below or same, ">": above, ">=": above or same}[sign]
        return value

    def _unary(self) -> Value:
        negations = 0
        while self._sign("!"):
            negations += 1
        value = self._path()
        if negations == 0:
            return value
        holds = truth(value)
        return UNKNOWN if holds is None else holds == (negations % 2 == 0)

    def _path(self) -> Value:
        value = self._primary()
        while True:
            if self._sign("."):
                if self._sign("*"):
                    value = _every(value)
                    continue
                kind, name = self._take()
                if kind != "name":
                    raise ExpressionError
                value = _member(value, name)
            elif self._sign("["):
                if self._sign("*"):
                    value = _every(value)
                else:
                    key = self._or()
                    value = _member(value, key) if isinstance(key, str) else UNKNOWN
                self._expect("]")
            else:
                return value

    def _take(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise ExpressionError
        self._at += 1
        return self._tokens[self._at - 1]

    def _primary(self) -> Value:
        if self._sign("("):
            value = self._or()
            self._expect(")")
            return value
        kind, text = self._take()
        match kind:
            case "number":
                return float(int(text, 16)) if "x" in text.lower() else float(text)
            case "text":
                return text[1:-1].replace("''", "'")
            case "name" if self._sign("("):
                return self._call(text.lower())
            case "name" if text.lower() in _WORDS:
                return _WORDS[text.lower()]
            case "name":
                return self._context.values.get(text.lower(), UNKNOWN)
        raise ExpressionError

    def _call(self, name: str) -> Value:
        arguments: list[Value] = []
        while not self._sign(")"):
            if arguments:
                self._expect(",")
            arguments.append(self._or())
        if name in self._context.status and not arguments:
            answer = self._context.status[name]
            return UNKNOWN if answer is None else answer
        function = _FUNCTIONS.get((name, len(arguments)))
        if function is None:
            return UNKNOWN
        found = function(*arguments)
        return UNKNOWN if found is None else found


def _from_json(value: Value) -> Value:
    if not isinstance(value, str):
        return UNKNOWN
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return UNKNOWN


_FUNCTIONS: Mapping[tuple[str, int], Callable[..., Value]] = {
    ("contains", 2): contains,
    ("startswith", 2): starts_with,
    ("endswith", 2): ends_with,
    ("fromjson", 1): _from_json,
}


def _member(value: Value, name: str) -> Value:
    """Return a property; a missing one is null, unless the object has unknown ones."""
    if isinstance(value, _Every):
        # Items that lack the property are left out.
        return _Every(_member(each, name) for each in value if not _lacks(each, name))
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


def _every(value: Value) -> Value:
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
