"""Find concurrency groups in which candidates would cancel each other's runs."""

from dataclasses import replace

from queue_engine.workflows.event_context import CandidateContext, WorkflowEvent, event_values
from queue_engine.workflows.expressions import ExpressionContext, render
from queue_engine.workflows.values import PatternValue
from queue_engine.workflows.workflow_file import WorkflowFile


def shared_group(
    concurrency: object, workflow: WorkflowFile, event: WorkflowEvent, candidate: CandidateContext
) -> str | None:
    """Return why another branch's run would cancel a candidate's; None if each branch has a group of its own.

    Of a group, GitHub keeps one run and the newest that waits, and cancels the others (docs: "Control concurrency").
    """
    group = concurrency.get("group") if isinstance(concurrency, dict) else concurrency
    if group is None or event is WorkflowEvent.AUTHOR:
        return None
    another = replace(candidate, branch=f"{candidate.branch}0")
    if _key(str(group), workflow, event, candidate) != _key(str(group), workflow, event, another):
        return None
    return f"`{workflow.path}` has one concurrency group for all branches, in which GitHub cancels runs: `{group}`"


def _key(group: str, workflow: WorkflowFile, event: WorkflowEvent, candidate: CandidateContext) -> str:
    status = {"always": True, "success": True, "failure": False, "cancelled": False}
    context = ExpressionContext(event_values(event, candidate, workflow.name), dict(status))
    parts = render(group, context)
    return "".join(
        part if isinstance(part, str) else part.identity if isinstance(part, PatternValue) else "?" for part in parts
    )
