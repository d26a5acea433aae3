"""Find steps that test a pull request and are skipped on a candidate: their job passes without the test."""

import re
from collections.abc import Mapping
from typing import Any

from queue_engine.workflows.event_context import WorkflowEvent
from queue_engine.workflows.event_steps import reads_event
from queue_engine.workflows.expressions import ExpressionContext, guard
from queue_engine.workflows.step_values import with_variables
from queue_engine.workflows.values import UNKNOWN

_TESTS_NOTHING = re.compile(
    r"comment|label|codecov|coveralls|artifact|cache|checkout|setup|login|notify|slack|status|summary|assign",
    re.IGNORECASE,
)
"""Actions that set up, or tell people: a test does not depend on them."""


def skipped_step(
    job: Mapping[str, Any],
    variables: object,
    event: WorkflowEvent,
    context: ExpressionContext,
    author: ExpressionContext,
) -> str | None:
    """Return the name of a step that is skipped on a candidate, or may test nothing there, and not for an author.

    `variables` are the environment variables of the workflow.
    """
    steps = job.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if not isinstance(step, dict):
            continue
        uses = step.get("uses")
        if isinstance(uses, str) and _TESTS_NOTHING.search(uses):
            continue
        written = (variables, job.get("env"), step.get("env"))
        here, there = _of_step(context, *written), _of_step(author, *written)
        runs, for_author = guard(step.get("if"), here), guard(step.get("if"), there)
        if (runs is False and for_author is not False) or (runs is not False and reads_event(step, event, here, there)):
            shown = step.get("name") or step.get("id") or uses or step.get("if") or step.get("run")
            return str(shown).strip().partition("\n")[0][:100]
    return None


def _of_step(context: ExpressionContext, *variables: object) -> ExpressionContext:
    """Return the context of a step: the steps before it have unknown results, and nothing has failed."""
    status = {**context.status, "success": True, "failure": False, "cancelled": False, "always": True}
    values = {**context.values, "steps": UNKNOWN, "job": UNKNOWN}
    return with_variables(ExpressionContext(values, status), *variables)
