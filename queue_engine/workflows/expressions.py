"""Parse and evaluate expressions of GitHub Actions, with values that may be unknown."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from queue_engine.workflows.values import (
    UNKNOWN,
    PatternValue,
    UnknownValue,
    Value,
    contains,
    ends_with,
    equals,
    every,
    format_text,
    from_json,
    member,
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
_INSIDE = re.compile(r"(?:[^'}]++|'[^']*'|\}(?!\}))*")
"""The inside of braces; a text in it may have braces of its own. It takes linear time."""
_STATUS = re.compile(r"'[^']*'|\b(?P<status>(?:always|success|failure|cancelled)\s*\()", re.IGNORECASE)


class ExpressionError(Exception):
    """The text is no expression that this module reads."""


Path = tuple[str, ...]
"""What an expression reads, in lower case: `("github", "event", "action")`. It stands for all that begins so."""


@dataclass(frozen=True, slots=True)
class ExpressionContext:
    """The contexts by name, and the answers of `success()` and its like."""

    values: Mapping[str, Value]
    status: Mapping[str, bool | None]


def evaluate(text: str, context: ExpressionContext) -> Value:
    """Evaluate an expression without its braces; `UNKNOWN` if it cannot be read."""
    return read(text, context)[0]


def read(text: str, context: ExpressionContext) -> tuple[Value, Sequence[Path] | None]:
    """Evaluate an expression, and return what it reads; None for that if it cannot be read."""
    parser = _Parser(text, context)
    try:
        return parser.whole(), parser.paths
    except ExpressionError:
        return UNKNOWN, None


def split(text: str) -> list[str]:
    """Return the parts of a text: at even places plain text, at odd ones expressions without their braces.

    Braces that do not end make one expression that cannot be read.
    """
    parts, end = [], 0
    while (start := text.find("${{", end)) >= 0:
        inside = _INSIDE.match(text, start + 3)
        assert inside is not None, "it matches the empty text"
        parts += [text[end:start], inside[0]]
        end = inside.end() + 2
        if not text.startswith("}}", inside.end()):
            parts[-1] = text[start:]
            end = len(text)
    return [*parts, text[end:]]


def unwrapped(condition: str) -> str | None:
    """Return the expression of a condition, whose braces may be left out; None if it has text around its braces.

    GitHub takes that for a text, which is always true: no author means that.
    """
    parts = split(condition.strip())
    if len(parts) == 1:
        return parts[0]
    return parts[1] if len(parts) == 3 and not parts[0] and not parts[2] else None


def guard(condition: object, context: ExpressionContext) -> bool | None:
    """Whether a condition, the value of an `if`, holds."""
    if condition is None or isinstance(condition, bool | int | float):
        return True if condition is None else bool(condition)
    if not isinstance(condition, str):
        return None
    text = unwrapped(condition)
    if text is None:
        return None
    return truth(evaluate(text, context))


def has_status_function(condition: str) -> bool:
    """Whether a condition has a function, outside of texts, that decides whether a job runs after jobs that did not."""
    return any(found["status"] for found in _STATUS.finditer(condition))


def render(text: str, context: ExpressionContext) -> list[str | UnknownValue | PatternValue]:
    """Return the parts of a text with expressions, each known or not."""
    parts: list[str | UnknownValue | PatternValue] = []
    for place, part in enumerate(split(text)):
        value = evaluate(part, context) if place % 2 else part
        known = not isinstance(value, UnknownValue | PatternValue | list | dict)
        parts.append(text_of(value) if known else value if isinstance(value, PatternValue) else UNKNOWN)
    return parts


_FUNCTIONS: Mapping[tuple[str, int], Callable[..., Value]] = {
    ("contains", 2): contains,
    ("startswith", 2): starts_with,
    ("endswith", 2): ends_with,
    ("fromjson", 1): from_json,
}


class _Parser:
    """Evaluates while it parses: the text is short, and nothing has an effect."""

    def __init__(self, text: str, context: ExpressionContext) -> None:
        self.paths: list[Path] = []
        """What it has read so far."""
        self._text = text
        self._tokens: list[tuple[str, str]] = []
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
        """Raises ExpressionError."""
        if len(self._text) > LONGEST:
            raise ExpressionError
        self._tokens = self._scan(self._text.strip())
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
        value, path = self._primary()
        stays = bool(path)
        """Whether the next name belongs to the path."""
        while True:
            key: Value = None
            if self._sign("."):
                if not self._sign("*"):
                    kind, key = self._take()
                    if kind != "name":
                        raise ExpressionError
            elif self._sign("["):
                if not self._sign("*"):
                    key = self._or()
                    key = key if isinstance(key, str) else UNKNOWN
                self._expect("]")
            else:
                if path:
                    self.paths.append(path)
                return value
            stays = stays and isinstance(key, str)
            path = (*path, str(key).lower()) if stays else path
            value = every(value) if key is None else member(value, key) if isinstance(key, str) else UNKNOWN

    def _take(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise ExpressionError
        self._at += 1
        return self._tokens[self._at - 1]

    def _primary(self) -> tuple[Value, Path]:
        """Return a value, and the path that begins with it, if it is the name of a context."""
        if self._sign("("):
            value = self._or()
            self._expect(")")
            return value, ()
        kind, text = self._take()
        match kind:
            case "number":
                return float(int(text, 16)) if "x" in text.lower() else float(text), ()
            case "text":
                return text[1:-1].replace("''", "'"), ()
            case "name" if self._sign("("):
                return self._call(text.lower()), ()
            case "name" if text.lower() in _WORDS:
                return _WORDS[text.lower()], ()
            case "name":
                return self._context.values.get(text.lower(), UNKNOWN), (text.lower(),)
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
        if name == "format" and arguments:
            return format_text(arguments)
        function = _FUNCTIONS.get((name, len(arguments)))
        if function is None:
            return UNKNOWN
        found = function(*arguments)
        return UNKNOWN if found is None else found
