"""Decide whether an event of a candidate starts a workflow, by the workflow's triggers and their filters."""

from dataclasses import dataclass

from queue_engine.workflows.event_context import AUTHORS, CandidateContext, WorkflowEvent
from queue_engine.workflows.filter_patterns import ignored, matches
from queue_engine.workflows.workflow_file import EventRules, WorkflowFile

_DEFAULT_TYPES = ("opened", "synchronize", "reopened")
"""Of a pull request that somebody opens, or pushes to."""


@dataclass(frozen=True, slots=True)
class TriggerOutcome:
    """Whether something starts, and if not, why."""

    answer: bool | None
    why: str = ""
    guard: str = ""
    """The condition that keeps it from starting."""
    untested: bool | None = False
    """Whether its check passes there without its test; None: perhaps. Otherwise a try shows what is unknown."""


def starts(workflow: WorkflowFile, event: WorkflowEvent, candidate: CandidateContext) -> TriggerOutcome:
    """Whether the event starts the workflow; None where changed files decide, or a part cannot be read."""
    path = f"`{workflow.path}`"
    name = WorkflowEvent.PULL_REQUEST if event in AUTHORS else event
    rules = workflow.events.get(name.value)
    if rules is None:
        if name is WorkflowEvent.PULL_REQUEST and "pull_request_target" in workflow.events:
            return _of_target(workflow, path, event)
        return TriggerOutcome(False, f"{path} does not run on `{name.value}`")
    if event is WorkflowEvent.DISPATCH:
        return _dispatch(rules, path, candidate)
    branch = candidate.branch if event is WorkflowEvent.PUSH else candidate.base_branch
    if event is WorkflowEvent.PUSH and rules.tags and rules.branches is None and rules.branches_ignore is None:
        return TriggerOutcome(False, f"{path} runs on pushes of tags only")
    if (found := _branch(rules, path, branch, name)) is not None:
        return found
    if event is WorkflowEvent.PULL_REQUEST and "opened" not in (rules.types or _DEFAULT_TYPES):
        return TriggerOutcome(False, f"{path} does not run when a pull request is opened")
    if event is WorkflowEvent.PERSON and not {*_DEFAULT_TYPES} & {*(rules.types or _DEFAULT_TYPES)}:
        return TriggerOutcome(False, f"{path} does not run when a pull request is opened, or pushed to")
    if rules.paths:
        return TriggerOutcome(None, f"{path} runs only when certain files change")
    return TriggerOutcome(True)


def _of_target(workflow: WorkflowFile, path: str, event: WorkflowEvent) -> TriggerOutcome:
    types = workflow.events["pull_request_target"].types or _DEFAULT_TYPES
    if event is WorkflowEvent.PERSON and not {*_DEFAULT_TYPES} & {*types}:
        return TriggerOutcome(False, f"{path} does not run when a pull request is opened, or pushed to")
    return TriggerOutcome(None, f"{path} runs on `pull_request_target`, which tests the base's own files")


def _branch(rules: EventRules, path: str, branch: str, name: WorkflowEvent) -> TriggerOutcome | None:
    """Return the answer of the filters of branches, if it is not yes."""
    taken: bool | None = True
    if rules.branches is not None:
        taken = matches(branch, rules.branches)
    if rules.branches_ignore is not None:
        out = ignored(branch, rules.branches_ignore)
        taken = None if out is None else not out
    if taken:
        return None
    if taken is None:
        return TriggerOutcome(None, f"{path} has a filter of branches that IMQ cannot read")
    return TriggerOutcome(False, f"{path} does not run on `{name.value}` for the branch `{branch}`")


def _dispatch(rules: EventRules, path: str, candidate: CandidateContext) -> TriggerOutcome:
    missing = [
        name for name, each in rules.inputs.items() if each.get("required") is True and each.get("default") is None
    ]
    if missing:
        return TriggerOutcome(False, f"{path} requires the input `{missing[0]}` when it is dispatched")
    if candidate.base_branch != candidate.default_branch:
        # A dispatch needs the trigger in the file on the default branch too (docs: `workflow_dispatch`).
        return TriggerOutcome(None, f"{path} can be dispatched only if the default branch has it too")
    return TriggerOutcome(True)
