"""Find steps that read what only pull requests have: on a candidate they may pass, and test nothing."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from queue_engine.workflows.event_context import WorkflowEvent
from queue_engine.workflows.expressions import ExpressionContext, evaluate
from queue_engine.workflows.values import text_of

BRANCH_EVENTS = frozenset({WorkflowEvent.PUSH, WorkflowEvent.DISPATCH})
"""Events of a branch, which have no pull request."""
_SHELL = re.compile(r"\bGITHUB_(?:EVENT_NAME|(?:HEAD|BASE)_REF)\b(?!:?[-+])")
"""Variables of the runner that differ on a branch; those with a default are left out."""
_EVENT_NAME = re.compile(r"\bgithub\.event_name\b")
_TEMPLATE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)


def reads_event(
    step: Mapping[str, Any], event: WorkflowEvent, context: ExpressionContext, author: ExpressionContext
) -> bool:
    """Whether a step reads a value that an author's pull request has, and the candidate has not, or has otherwise."""
    if event not in BRANCH_EVENTS:
        return False
    lacking = _lacking(context, author)
    for text in _texts(step):
        if _SHELL.search(text) or any(re.search(rf"\$\{{?{re.escape(name)}\b(?!:?[-+])", text) for name in lacking):
            return True
        for found in _TEMPLATE.finditer(text):
            if _EVENT_NAME.search(found[1]) or (_is_empty(found[1], context) and not _is_empty(found[1], author)):
                return True
    return False


def _texts(step: Mapping[str, Any]) -> Iterator[str]:
    given = step.get("with")
    for each in (step.get("run"), *(given.values() if isinstance(given, dict) else ())):
        if isinstance(each, str):
            yield each


def _lacking(context: ExpressionContext, author: ExpressionContext) -> list[str]:
    """Return the environment variables that are empty on the candidate alone."""
    here, there = context.values.get("env"), author.values.get("env")
    if not isinstance(here, dict) or not isinstance(there, dict):
        return []
    return [name for name, value in here.items() if value == "" and there.get(name) != ""]


def _is_empty(expression: str, context: ExpressionContext) -> bool:
    value = evaluate(expression, context)
    return value is None or (isinstance(value, str) and text_of(value) == "")
