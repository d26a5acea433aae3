"""Write the lines of workflow files that let required checks run on candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from queue_engine.workflows.event_context import CandidateContext, WorkflowEvent
from queue_engine.workflows.job_checks import JobCheck
from queue_engine.workflows.workflow_file import EventRules, WorkflowFile
from queue_engine.workflows.workflow_trigger import starts

BRANCHES = "imq/**"
"""The pattern of candidates' branches."""


@dataclass(frozen=True, slots=True)
class WorkflowLines:
    """Lines of one file, as they are to be."""

    path: str
    lines: tuple[str, ...]


def lines_to_add(
    files: Mapping[str, WorkflowFile], checks: Sequence[JobCheck], candidate: CandidateContext
) -> tuple[WorkflowLines, ...]:
    """Return the lines by which these checks would run on a push to a candidate's branch."""
    found: list[WorkflowLines] = []
    for path in dict.fromkeys(each.path for each in checks):
        workflow = files[path]
        lines = _trigger(workflow, candidate)
        for check in checks:
            if check.path == path and check.guard and check.runs is False and "/" not in check.job:
                lines += _guard(check)
        if lines:
            found.append(WorkflowLines(path, tuple(dict.fromkeys(lines))))
    return tuple(found)


def _trigger(workflow: WorkflowFile, candidate: CandidateContext) -> list[str]:
    if starts(workflow, WorkflowEvent.PUSH, candidate).answer is not False:
        return []
    push = workflow.events.get(WorkflowEvent.PUSH.value)
    return ["on:", "  push:", f"    branches: [{', '.join(_branches(push))}]"]


def _branches(push: EventRules | None) -> list[str]:
    """Return the patterns that the workflow has now, with that of candidates."""
    if push is None:
        return [_quoted(BRANCHES)]
    if push.branches_ignore is not None:
        kept = [f"!{each}" for each in push.branches_ignore]
        return [_quoted(each) for each in ("**", *kept, BRANCHES)]
    return [_quoted(each) for each in (*(push.branches or ()), BRANCHES)]


def _quoted(pattern: str) -> str:
    plain = pattern.replace("-", "").replace("_", "").replace(".", "").replace("/", "")
    return pattern if plain.isalnum() and not plain.isdigit() else f"'{pattern}'"


def _guard(check: JobCheck) -> list[str]:
    condition = check.guard.strip().removeprefix("${{").removesuffix("}}").strip()
    return ["jobs:", f"  {check.job}:", f"    if: ({condition}) || startsWith(github.ref, 'refs/heads/imq/')"]
