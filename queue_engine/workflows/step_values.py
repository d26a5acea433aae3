"""Evaluate the environment variables that steps read, as the workflow, the job and the step set them."""

from collections.abc import Mapping

from queue_engine.workflows.expressions import ExpressionContext, render
from queue_engine.workflows.values import UNKNOWN, PatternValue, UnknownValue, Value


def with_variables(context: ExpressionContext, *written: object) -> ExpressionContext:
    """Return the context with `env`: the outer variables first; those that earlier steps may set are unknown."""
    variables: dict[str, Value] = {"*": UNKNOWN}
    for each in written:
        # A variable may be made of outer ones alone.
        outer = ExpressionContext({**context.values, "env": dict(variables)}, context.status)
        for name, value in (each if isinstance(each, Mapping) else {}).items():
            variables[str(name)] = _text(value, outer)
    return ExpressionContext({**context.values, "env": variables}, context.status)


def _text(value: object, context: ExpressionContext) -> Value:
    """Return a variable's text; `UNKNOWN` if a part of it is."""
    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
    parts = [part for part in render(value, context) if part != ""]
    if len(parts) == 1 and isinstance(parts[0], PatternValue):
        return parts[0]
    if any(isinstance(part, UnknownValue | PatternValue) for part in parts):
        return UNKNOWN
    return "".join(part for part in parts if isinstance(part, str))
