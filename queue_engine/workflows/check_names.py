"""The names of the checks that a job reports: known texts, or forms where an expression computes a part."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from queue_engine.workflows.expressions import ExpressionContext, render
from queue_engine.workflows.matrix import Combination, combinations
from queue_engine.workflows.values import text_of

_LONGEST = 100
"""GitHub shortens longer names."""


@dataclass(frozen=True, slots=True)
class CheckName:
    """The name of a check, or the form of a name."""

    parts: tuple[str | None, ...]
    """In order; None is a part that an expression computes."""

    @property
    def known(self) -> str | None:
        """The whole name; None if a part is computed."""
        if None in self.parts:
            return None
        name = "".join(part or "" for part in self.parts).strip()
        return name if len(name) <= _LONGEST else None

    def may_be(self, name: str) -> bool:
        """Whether a check of this form may have that name."""
        if self.known is not None:
            return self.known == name
        form = "".join(".*" if part is None else re.escape(part) for part in self.parts)
        return len(name) >= _LONGEST or re.fullmatch(form.strip(), name, re.DOTALL) is not None

    def within(self, caller: "CheckName") -> "CheckName":
        """Return the name of a called workflow's job: `caller / called`."""
        return CheckName((*caller.parts, " / ", *self.parts))


ANY = CheckName((None,))


def check_names(job_id: str, job: Mapping[str, Any], context: ExpressionContext) -> Sequence[CheckName]:
    """Return the names of a job's checks, one for each combination of its matrix."""
    written = job.get("name")
    name = written if isinstance(written, str) and written else text_of(written) or job_id
    strategy = job.get("strategy")
    if strategy is None or (isinstance(strategy, dict) and strategy.get("matrix") is None):
        return [_rendered(name, context, {})]
    matrix = strategy.get("matrix") if isinstance(strategy, dict) else None
    found = combinations(matrix)
    computed = "${{" in name
    if found is None:
        return [CheckName((name, " (", None, ")"))] if not computed else [_rendered(name, context, {"*": None})]
    if computed:
        # A name that differs by no axis: whether GitHub adds the values then is not documented.
        rendered = [_rendered(name, context, each) for each in found]
        distinct = len({each.parts for each in rendered}) == len(rendered)
        return rendered if distinct else [CheckName((*each.parts, None)) for each in rendered]
    return [_suffixed(name, each) for each in found]


def _rendered(name: str, context: ExpressionContext, combination: Combination) -> CheckName:
    """Fill in the expressions of a name; `matrix` is unknown where the combination has the key `*`."""
    values = {key: each for key, each in context.values.items() if key != "matrix"}
    if "*" not in combination:
        values["matrix"] = dict(combination)
    parts = render(name, ExpressionContext(values, context.status))
    return CheckName(tuple(part if isinstance(part, str) else None for part in parts))


def _suffixed(name: str, combination: Combination) -> CheckName:
    """Add the values of a combination in brackets; empty ones are left out (runner.server #78)."""
    if any(isinstance(value, dict | list) for value in combination.values()) or any(
        "${{" in str(value) for value in combination.values()
    ):
        return CheckName((name, " (", None, ")"))
    values = [text for value in combination.values() if (text := text_of(value))]
    return CheckName((f"{name} ({', '.join(values)})" if values else name,))
