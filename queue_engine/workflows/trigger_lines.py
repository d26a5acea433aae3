"""Write the lines of workflow files that let required checks run on candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from queue_engine.workflows.event_context import CandidateContext, WorkflowEvent
from queue_engine.workflows.filter_patterns import matches
from queue_engine.workflows.job_checks import JobCheck
from queue_engine.workflows.workflow_file import EventRules, WorkflowFile
from queue_engine.workflows.workflow_trigger import starts

BRANCHES = "imq/**"
"""The pattern of candidates' branches."""


BUILD_BRANCHES = "imq-build/**"
"""The pattern of the branches that IMQ builds candidates on, with one push for each member."""

_A_BUILD = BUILD_BRANCHES.replace("**", "0")


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


def lines_against_builds(files: Mapping[str, WorkflowFile], candidate: CandidateContext) -> tuple[WorkflowLines, ...]:
    """Return the lines of workflows that run on pushes to build branches, by which they would not."""
    building = replace(candidate, branch=candidate.branch.replace("imq/", "imq-build/", 1))
    return tuple(
        WorkflowLines(path, ("on:", "  push:", f"    {_filter(workflow.events['push'])}"))
        for path, workflow in sorted(files.items())
        if starts(workflow, WorkflowEvent.PUSH, building).answer is not False and "push" in workflow.events
    )


def _filter(push: EventRules) -> str:
    if push.branches is not None:
        return f"branches: [{', '.join(map(_quoted, _without_builds(push.branches)))}]"
    return f"branches-ignore: [{', '.join(map(_quoted, (*(push.branches_ignore or ()), BUILD_BRANCHES)))}]"


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
        return [_quoted(each) for each in (*_without_builds(("**", *kept)), BRANCHES)]
    return [_quoted(each) for each in (*_without_builds(push.branches or ()), BRANCHES)]


def _without_builds(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return patterns that leave out the branches on which IMQ builds."""
    return tuple(patterns) if matches(_A_BUILD, patterns) is False else (*patterns, f"!{BUILD_BRANCHES}")


def _quoted(pattern: str) -> str:
    plain = pattern.replace("-", "").replace("_", "").replace(".", "").replace("/", "")
    return pattern if plain.isalnum() and not plain.isdigit() else f"'{pattern}'"


def _guard(check: JobCheck) -> list[str]:
    condition = check.guard.strip().removeprefix("${{").removesuffix("}}").strip()
    return ["jobs:", f"  {check.job}:", f"    if: ({condition}) || startsWith(github.ref, 'refs/heads/imq/')"]
