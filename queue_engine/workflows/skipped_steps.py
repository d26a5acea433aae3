"""Find steps that test a pull request and are skipped on a candidate: their job passes without the test."""

import re
from collections.abc import Mapping
from typing import Any

from queue_engine.workflows.expressions import ExpressionContext, guard
from queue_engine.workflows.values import UNKNOWN

_TESTS_NOTHING = re.compile(
    r"comment|label|codecov|coveralls|artifact|cache|checkout|setup|login|notify|slack|status|summary|assign",
    re.IGNORECASE,
)
"""Actions that set up, or tell people: a test does not depend on them."""


def skipped_step(job: Mapping[str, Any], context: ExpressionContext, author: ExpressionContext) -> str | None:
    """Return the name of a step that is skipped on a candidate, and not for an author's own pull request."""
    steps = job.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if not isinstance(step, dict) or step.get("if") is None:
            continue
        uses = step.get("uses")
        if isinstance(uses, str) and _TESTS_NOTHING.search(uses):
            continue
        runs, for_author = guard(step["if"], _of_step(context)), guard(step["if"], _of_step(author))
        if runs is False and for_author is not False:
            return str(step.get("name") or step.get("id") or uses or step["if"])[:100]
    return None


def _of_step(context: ExpressionContext) -> ExpressionContext:
    """Return the context of a step: the steps before it have unknown results, and nothing has failed."""
    status = {**context.status, "success": True, "failure": False, "cancelled": False, "always": True}
    return ExpressionContext({**context.values, "steps": UNKNOWN, "job": UNKNOWN}, status)
