"""Find steps that test a pull request and are skipped on a candidate: their job passes without the test."""

import re
from collections.abc import Mapping
from typing import Any

from queue_engine.workflows.event_context import WorkflowEvent
from queue_engine.workflows.event_steps import BRANCH_EVENTS, reads_event
from queue_engine.workflows.expressions import ExpressionContext, guard
from queue_engine.workflows.step_values import with_variables
from queue_engine.workflows.values import UNKNOWN

_TESTS_NOTHING = re.compile(
    r"comment|label|codecov|coveralls|artifact|cache|checkout|setup|login|notify|slack|status|summary|assign",
    re.IGNORECASE,
)
"""Actions that set up, or tell people: a test does not depend on them."""


def local_action(job: Mapping[str, Any], event: WorkflowEvent, context: ExpressionContext) -> str | None:
    """Return an action of the repository itself that a step of the job uses; None where the event is a pull request.

    IMQ reads only `.github/workflows`. The steps of such an action have conditions of their own, which read the event
    of the workflow (github/docs #12378, actions/runner #834).
    """
    steps = job.get("steps")
    for step in steps if event in BRANCH_EVENTS and isinstance(steps, list) else ():
        uses = step.get("uses") if isinstance(step, dict) else None
        if not isinstance(uses, str) or not uses.startswith("./") or _TESTS_NOTHING.search(uses):
            continue
        if guard(step.get("if"), _of_step(context, job.get("env"), step.get("env"))) is not False:
            return uses
    return None


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
