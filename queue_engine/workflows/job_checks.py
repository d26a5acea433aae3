"""Find the checks that workflow files report for an event, and whether the job of each runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from queue_engine.workflows.check_names import ANY, CheckName, check_names
from queue_engine.workflows.concurrency import shared_group
from queue_engine.workflows.event_context import CandidateContext, WorkflowEvent, event_values
from queue_engine.workflows.expressions import STATUS, ExpressionContext, guard
from queue_engine.workflows.skipped_steps import local_action, skipped_step
from queue_engine.workflows.values import UNKNOWN, Value, all_of, both
from queue_engine.workflows.workflow_file import WorkflowFile
from queue_engine.workflows.workflow_trigger import TriggerOutcome, starts

_DEEPEST_CALL = 10
"""Reusable workflows call each other to this depth (docs: "Reuse workflows")."""


@dataclass(frozen=True, slots=True)
class JobCheck:
    """One check that a job may report for an event."""

    path: str
    """The workflow file that the event starts."""
    job: str
    """The id of the job, after those of its callers: `build / test`."""
    name: CheckName
    runs: bool | None
    """Whether the job runs for the event; a skipped job tests nothing."""
    why: str = ""
    """Why it does not, or why that is unknown."""
    guard: str = ""
    """The condition that skips it."""


def job_checks(
    files: Mapping[str, WorkflowFile], event: WorkflowEvent, candidate: CandidateContext
) -> Sequence[JobCheck]:
    """Return the checks of all jobs, also of those that the event does not start."""
    found: list[JobCheck] = []
    for workflow in files.values():
        if workflow.fault is not None:
            found.append(JobCheck(workflow.path, "", ANY, None, f"IMQ cannot read `{workflow.path}`: {workflow.fault}"))
            continue
        values = event_values(event, candidate, workflow.name)
        if event is WorkflowEvent.DISPATCH and "workflow_dispatch" in workflow.events:
            values["inputs"] = _defaults(workflow.events["workflow_dispatch"].inputs)
        start = starts(workflow, event, candidate)
        if start.answer and (shared := shared_group(workflow.concurrency, workflow, event, candidate)):
            start = TriggerOutcome(None, shared)
        found += _Jobs(files, workflow, workflow.path, event, candidate, values, start).checks()
    return found


@dataclass(slots=True)
class _Jobs:
    """The jobs of one workflow, started by the event or called by a job of another."""

    files: Mapping[str, WorkflowFile]
    workflow: WorkflowFile
    path: str
    event: WorkflowEvent
    candidate: CandidateContext
    values: dict[str, Value]
    start: TriggerOutcome
    depth: int = 0
    _answers: dict[str, TriggerOutcome] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)

    def checks(self) -> Iterator[JobCheck]:
        for job_id, job in self.workflow.jobs.items():
            yield from self._of_job(job_id, job)

    def _of_job(self, job_id: str, job: Mapping[str, Any]) -> Iterator[JobCheck]:
        answer = self._runs(job_id)
        runs = both(self.start.answer, answer.answer)
        why = "" if runs else (self.start.why if self.start.answer is False else answer.why) or self.start.why
        names = check_names(job_id, job, self._context(job))
        if "uses" not in job:
            for name in names:
                yield JobCheck(self.path, job_id, name, runs, why, answer.guard)
            return
        for name in names:
            for check in self._called(job_id, job, TriggerOutcome(runs, why, answer.guard)):
                job_ids = f"{job_id} / {check.job}" if check.job else job_id
                yield JobCheck(self.path, job_ids, check.name.within(name), check.runs, check.why, check.guard)

    def _called(self, job_id: str, job: Mapping[str, Any], start: TriggerOutcome) -> Iterator[JobCheck]:
        """Return the checks of a reusable workflow; those of another repository are unknown."""
        uses = str(job["uses"])
        called = self.files.get(uses.removeprefix("./")) if uses.startswith("./") else None
        if called is None or "workflow_call" not in called.events or self.depth >= _DEEPEST_CALL:
            what = f"job `{job_id}` of `{self.path}` calls `{uses}`, which IMQ cannot read"
            yield JobCheck(self.path, "", ANY, None if start.answer is not False else False, start.why or what)
            return
        if start.answer and (shared := shared_group(called.concurrency, self.workflow, self.event, self.candidate)):
            start = TriggerOutcome(None, shared)
        given = job.get("with")
        inputs = _defaults(called.events["workflow_call"].inputs)
        for name, value in (given if isinstance(given, dict) else {}).items():
            inputs[name] = UNKNOWN if "${{" in str(value) else value
        values = self.values | {"inputs": inputs}
        yield from _Jobs(
            self.files, called, self.path, self.event, self.candidate, values, start, self.depth + 1
        ).checks()

    def _runs(self, job_id: str) -> TriggerOutcome:
        """Whether a job runs, if the workflow starts and each job that runs succeeds."""
        if job_id in self._answers:
            return self._answers[job_id]
        job = self.workflow.jobs.get(job_id)
        if job is None or job_id in self._open:
            return TriggerOutcome(None, f"job `{job_id}` of `{self.path}` cannot be read")
        self._open.add(job_id)
        answer = self._judge(job_id, job)
        self._open.discard(job_id)
        self._answers[job_id] = answer
        return answer

    def _judge(self, job_id: str, job: Mapping[str, Any]) -> TriggerOutcome:
        needed = [self._runs(each) for each in _needs(job)]
        succeeded = all_of([each.answer for each in needed])
        written = job.get("if")
        condition = written if written is None or isinstance(written, str) else str(written).lower()
        holds = guard(written, self._context(job))
        where = f"job `{job_id}` of `{self.path}`"
        if not (isinstance(condition, str) and STATUS.search(condition)):
            if succeeded is False:
                return TriggerOutcome(False, f"{where} needs a job that is skipped")
            if succeeded is None:
                return TriggerOutcome(None, next(each.why for each in needed if each.answer is None))
        if holds is False:
            return TriggerOutcome(False, f"{where} is skipped there, by its condition `{condition}`", condition or "")
        if holds is None:
            return TriggerOutcome(None, f"{where} has a condition that IMQ cannot evaluate: `{condition}`")
        if False in (self._runs(each).answer for each in self._ancestors(job_id)):
            # `success()` and jobs without a condition look at all jobs before them (actions/runner #491).
            return TriggerOutcome(None, f"{where} comes after a job that is skipped")
        if skipped := self._skipped_only_here(job):
            return TriggerOutcome(None, f"{where} comes after job `{skipped}`, which is skipped there")
        contexts = self._context(job), self._author_context(job)
        if step := skipped_step(job, self.workflow.variables, self.event, *contexts):
            return TriggerOutcome(None, f"{where} skips a step there, or has it test nothing: `{step}`")
        if action := local_action(job, self.event, contexts[0]):
            return TriggerOutcome(
                None, f"{where} uses an action of the repository, which IMQ does not read: `{action}`"
            )
        if job.get("environment") is not None and self.event is not WorkflowEvent.AUTHOR:
            return TriggerOutcome(None, f"{where} needs an environment, whose rules may keep a branch out")
        if shared := shared_group(job.get("concurrency"), self.workflow, self.event, self.candidate):
            return TriggerOutcome(None, shared)
        return TriggerOutcome(True)

    def _skipped_only_here(self, job: Mapping[str, Any]) -> str | None:
        """Return a job that this one needs, and that runs on an author's pull request, and not on a candidate."""
        if self.event is WorkflowEvent.AUTHOR or not _needs(job):
            return None
        values = event_values(WorkflowEvent.AUTHOR, self.candidate, self.workflow.name)
        values["inputs"] = self.values["inputs"]
        author = replace(self, event=WorkflowEvent.AUTHOR, values=values, _answers={}, _open=set())
        skipped = (each for each in _needs(job) if self._runs(each).answer is False)
        return next((each for each in skipped if author._runs(each).answer is not False), None)

    def _ancestors(self, job_id: str) -> set[str]:
        """Return the jobs before a job that it does not need itself."""
        direct = set(_needs(self.workflow.jobs[job_id]))
        found: set[str] = set()
        todo = list(direct)
        while todo:
            for each in _needs(self.workflow.jobs.get(todo.pop(), {})):
                if each not in found:
                    found.add(each)
                    todo.append(each)
        return found - direct

    def _context(self, job: Mapping[str, Any]) -> ExpressionContext:
        return self._with_needs(self.values, job)

    def _author_context(self, job: Mapping[str, Any]) -> ExpressionContext:
        values = event_values(WorkflowEvent.AUTHOR, self.candidate, self.workflow.name)
        return self._with_needs(values | {"inputs": self.values["inputs"]}, job)

    def _with_needs(self, values: Mapping[str, Value], job: Mapping[str, Any]) -> ExpressionContext:
        answers = {each: self._runs(each).answer for each in _needs(job)}
        results = {True: "success", False: "skipped"}
        needs: dict[str, Value] = {
            name: {"result": UNKNOWN if answer is None else results[answer], "outputs": {"*": UNKNOWN}}
            for name, answer in answers.items()
        }
        succeeded = all_of(list(answers.values()))
        status = {"always": True, "success": succeeded, "failure": False, "cancelled": False}
        return ExpressionContext({**values, "needs": needs}, status)


def _needs(job: Mapping[str, Any]) -> list[str]:
    needs = job.get("needs") or []
    return [str(each) for each in (needs if isinstance(needs, list) else [needs])]


def _defaults(inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Value]:
    return {
        name: UNKNOWN if "default" not in each or "${{" in str(each["default"]) else each["default"]
        for name, each in inputs.items()
    }
