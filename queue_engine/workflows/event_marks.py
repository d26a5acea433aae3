"""Compare what a file says on a candidate with what it says on an author's own pull request.

An expression is marked if it reads something that the event decides. A marked one is the same only where both sides are
known and equal. One without a mark is the same whatever it is: it depends on the tree and on settings alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from queue_engine.workflows.expressions import ExpressionContext, Path, guard, read, split, unwrapped
from queue_engine.workflows.values import UNKNOWN, PatternValue, UnknownValue, Value, text_of


@dataclass(frozen=True, slots=True)
class EventViews:
    """The contexts of an expression on both sides."""

    here: ExpressionContext
    """On a candidate."""
    there: ExpressionContext
    """On an author's own pull request."""
    free: frozenset[Path]
    """What of `github` the event does not decide; all else of it is marked."""
    marked: frozenset[Path] = frozenset()
    """What of the other contexts the event decides, such as `("env", "is_pr")`."""

    def same(self, value: object) -> bool:
        """Whether a value of the file, with all that is in it, is surely the same on both sides."""
        if isinstance(value, Mapping):
            return all(self.same(each) for each in value.values())
        if isinstance(value, list):
            return all(map(self.same, value))
        return not isinstance(value, str) or all(map(self._same, split(value)[1::2]))

    def condition(self, written: object) -> tuple[bool | None, bool | None, bool]:
        """Whether a condition holds here and there, and whether that is surely the same."""
        here, there = guard(written, self.here), guard(written, self.there)
        if here is not None and here is there:
            return here, there, True
        expression = unwrapped(written) if isinstance(written, str) else None
        return here, there, expression is not None and not self._is_marked(expression)

    def value(self, written: object) -> tuple[Value, Value]:
        """Return the value of a text with expressions on both sides; `UNKNOWN` where a part is."""
        return _value(written, self.here), _value(written, self.there)

    def text(self, written: object) -> tuple[Value, Value]:
        """Return the same as a text, which it becomes where only texts are passed on."""
        return _text(written, self.here), _text(written, self.there)

    def marking(self, paths: Iterable[Path]) -> "EventViews":
        """Return views in which the event decides these, too."""
        return replace(self, marked=self.marked | frozenset(paths))

    def giving(self, name: str, here: Value, there: Value, paths: Iterable[Path] = ()) -> "EventViews":
        """Return views with one context replaced, of which the event decides these paths."""
        others = {path for path in self.marked if path[0] != name}
        return EventViews(
            ExpressionContext({**self.here.values, name: here}, self.here.status),
            ExpressionContext({**self.there.values, name: there}, self.there.status),
            self.free,
            frozenset({*others, *paths}),
        )

    def with_variables(self, *written: object) -> "EventViews":
        """Return views with environment variables, the outer ones first; what earlier steps may set is unknown."""
        views = self
        for each in written:
            if each is None:
                continue
            if not isinstance(each, Mapping):
                views = views.marking([("env",)])
                continue
            views = _with_variables(views, each)
        return views

    @property
    def variables(self) -> Sequence[str]:
        """The environment variables that the event decides."""
        return sorted(path[1] if len(path) > 1 else "env" for path in self.marked if path[0] == "env")

    def _same(self, expression: str) -> bool:
        if not self._is_marked(expression):
            return True
        return _equal(read(expression, self.here)[0], read(expression, self.there)[0])

    def _is_marked(self, expression: str) -> bool:
        paths = read(expression, self.here)[1]
        return paths is None or any(map(self._reads_event, paths))

    def _reads_event(self, path: Path) -> bool:
        if path[0] == "github":
            return not any(path[:end] in self.free for end in range(2, len(path) + 1))
        return any(path[: len(each)] == each[: len(path)] for each in self.marked)


def _with_variables(views: EventViews, written: Mapping[object, object]) -> EventViews:
    names = {str(name).lower(): value for name, value in written.items()}
    kept = {path for path in views.marked if path[0] == "env" and path[1:2] != () and path[1] not in names}
    marked = {("env", name) for name, value in names.items() if not views.same(value)}
    whole = {("env",)} & views.marked
    here, there = _variables(written, views.here), _variables(written, views.there)
    return views.giving("env", here, there, {*kept, *marked, *whole})


def _variables(written: Mapping[object, object], context: ExpressionContext) -> Value:
    """Return the context `env` with these inside of the outer ones."""
    outer = context.values.get("env")
    inner = {str(name).lower(): _text(value, context) for name, value in written.items()}
    return {"*": UNKNOWN, **(outer if isinstance(outer, dict) else {}), **inner}


def _text(written: object, context: ExpressionContext) -> Value:
    return as_text(_value(written, context))


def as_text(value: Value) -> Value:
    """Return the text that a value becomes; `UNKNOWN` for lists and objects."""
    if isinstance(value, UnknownValue | list | dict):
        return UNKNOWN
    return value if isinstance(value, PatternValue) else text_of(value)


def _value(written: object, context: ExpressionContext) -> Value:
    """Return the value of a text: one expression alone keeps its type."""
    if not isinstance(written, str):
        return written
    parts = split(written)
    values = [read(part, context)[0] if place % 2 else part for place, part in enumerate(parts)]
    if len(parts) == 3 and not parts[0].strip() and not parts[2].strip():
        return values[1]
    if any(isinstance(each, UnknownValue | PatternValue | list | dict) for each in values):
        return UNKNOWN
    return "".join(map(text_of, values))


def _equal(left: Value, right: Value) -> bool:
    """Whether two values are known, and the same."""
    if isinstance(left, UnknownValue) or isinstance(right, UnknownValue):
        return False
    if isinstance(left, PatternValue) or isinstance(right, PatternValue):
        return left == right and bool(getattr(left, "identity", ""))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return type(left) is type(right) and left == right
