"""Find the checks that workflow files report for an event, and whether the job of each surely runs and tests.

A job is a proof only as a whole: its condition, the jobs it needs, and its steps (`step_proof.py`) have to be on a
candidate what they are on an author's own pull request.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from queue_engine.workflows.check_names import ANY, CheckName, check_names
from queue_engine.workflows.event_context import AUTHORS, CandidateContext, WorkflowEvent, event_values, free_paths
from queue_engine.workflows.event_marks import EventViews, as_text
from queue_engine.workflows.expressions import ExpressionContext, Path, guard, has_status_function, render
from queue_engine.workflows.known_actions import TAKES
from queue_engine.workflows.matrix import computes_exclusions
from queue_engine.workflows.repository_scripts import RepositoryScripts
from queue_engine.workflows.script_reads import event_reads
from queue_engine.workflows.step_proof import Budget, LimitError, StepScope, default_values, difference
from queue_engine.workflows.values import UNKNOWN, PatternValue, Value, all_of, both
from queue_engine.workflows.workflow_file import EventRules, WorkflowFile
from queue_engine.workflows.workflow_trigger import TriggerOutcome, starts

_DEEPEST_CALL = 10
"""Reusable workflows call each other to this depth (docs: "Reuse workflows")."""
_UNSET: Mapping[str, Value] = {"boolean": False, "number": 0.0, "string": ""}
"""The value of a call's input that is left out, by its type (docs: `on.workflow_call.inputs.<input_id>.default`)."""
_KINDS: Mapping[str, type | tuple[type, ...]] = {"boolean": bool, "number": (int, float)}
"""The values of inputs by their types; those of all other types are texts."""
_HARMLESS = frozenset({"fail-fast", "max-parallel"})
"""Of a strategy: they decide when jobs start or are cancelled. A cancelled job has not passed, so none gets green."""
_OF_STEPS: Mapping[str, bool | None] = {"always": True, "success": True, "failure": False, "cancelled": False}
"""Where each step passes: a job with a failed one proves nothing anyway."""


@dataclass(frozen=True, slots=True)
class JobCheck:
    """One check that a job may report for an event."""

    path: str
    """The workflow file that the event starts."""
    job: str
    """The id of the job, after those of its callers: `build / test`."""
    name: CheckName
    runs: bool | None
    """Whether the job runs for the event, as on an author's pull request; a skipped job tests nothing."""
    why: str = ""
    """Why it does not, or why that is unknown."""
    guard: str = ""
    """The condition that skips it."""
    untested: bool | None = False
    """Whether it passes there without its test; None: perhaps, and no try shows it."""


def job_checks(
    files: Mapping[str, WorkflowFile],
    event: WorkflowEvent,
    candidate: CandidateContext,
    actions: Mapping[str, Any] | None = None,
    scripts: RepositoryScripts | None = None,
) -> Sequence[JobCheck]:
    """Return the checks of all jobs, also of those that the event does not start.

    `actions` and `scripts` are the local ones that were read. More than 2,000 checks are one that is unknown.
    """
    jobs = "".join(str(each.jobs) for each in files.values())
    takes_files = any(each in jobs for each in TAKES)
    scope = StepScope(
        event, candidate, actions or {}, Budget(), scripts or RepositoryScripts(), takes_files=takes_files
    )
    try:
        return [check for workflow in files.values() for check in _of_file(files, workflow, scope)]
    except LimitError:
        why = "the workflow files have more jobs and steps than IMQ reads"
        return [JobCheck("", "", ANY, None, why, untested=_perhaps(scope))]


def merge_group_jobs(files: Mapping[str, WorkflowFile], candidate: CandidateContext) -> Mapping[str, Sequence[str]]:
    """Return the jobs that only GitHub's own merge queue starts, by the files that `merge_group` starts."""
    found: dict[str, Sequence[str]] = {}
    authored = job_checks(files, WorkflowEvent.AUTHOR, candidate)
    for path, workflow in files.items():
        if "merge_group" not in workflow.events:
            continue
        never = {each.job for each in authored if each.path == path and each.runs is False}
        is_alone = not starts(workflow, WorkflowEvent.AUTHOR, candidate).answer
        guarded = [each for each in workflow.jobs if is_alone or "merge_group" in str(workflow.jobs[each].get("if"))]
        if jobs := [each for each in guarded if each in never]:
            found[path] = jobs
    return found


def filtered_checks(files: Mapping[str, WorkflowFile], candidate: CandidateContext) -> Mapping[str, str]:
    """Return the checks that a single file reports, and only for pull requests that change certain files, by name.

    Of two such files one may be for the changes that the other leaves out ("Handling skipped but required checks").
    """
    checks = job_checks(files, WorkflowEvent.AUTHOR, candidate)
    reporters: dict[str, set[str]] = {}
    for each in checks:
        if each.name.known is not None:
            reporters.setdefault(each.name.known, set()).add(each.path)
    unsure = [each for each in checks if each.name.known is None]
    return {
        name: path
        for name, (path, *others) in reporters.items()
        if not others and _is_filtered(files[path]) and not any(each.name.may_be(name) for each in unsure)
    }


_OF_PULL_REQUESTS = ("pull_request", "pull_request_target")


def _is_filtered(workflow: WorkflowFile) -> bool:
    """Whether changed files decide about each event by which a workflow reports on a pull request."""
    found = [workflow.events[name] for name in _OF_PULL_REQUESTS if name in workflow.events]
    push = workflow.events.get("push")
    on_heads = push is not None and not push.paths and _may_be_any_branch(push)
    return bool(found) and all(each.paths for each in found) and not on_heads


def _may_be_any_branch(push: EventRules) -> bool:
    """Whether pushes to most branches start a workflow, and so pushes to heads."""
    if push.branches is not None:
        return any(each.startswith("*") for each in push.branches)
    return push.branches_ignore is not None or not push.tags


def _of_file(files: Mapping[str, WorkflowFile], workflow: WorkflowFile, scope: StepScope) -> Sequence[JobCheck]:
    event, candidate = scope.event, scope.candidate
    if workflow.fault is not None:
        why = f"IMQ cannot read `{workflow.path}`: {workflow.fault}"
        return [JobCheck(workflow.path, "", ANY, None, why, untested=_perhaps(scope))]
    values = event_values(event, candidate, workflow.name)
    marked: frozenset[Path] = frozenset()
    if event is WorkflowEvent.DISPATCH and "workflow_dispatch" in workflow.events:
        # Left out, a boolean is false in some places and empty in others: without a default it is unknown.
        inputs = workflow.events["workflow_dispatch"].inputs
        values["inputs"] = {name: _typed(each.get("default", UNKNOWN), each) for name, each in inputs.items()}
        marked = frozenset({("inputs",)})
    start = starts(workflow, event, candidate)
    if start.answer and (shared := _shared_group(workflow.concurrency, workflow, event, candidate)):
        start = TriggerOutcome(None, shared)
    author = None
    if event not in AUTHORS:
        there = event_values(WorkflowEvent.AUTHOR, candidate, workflow.name)
        of_author = StepScope(WorkflowEvent.AUTHOR, candidate, {}, Budget())
        author = _Jobs(files, workflow, workflow.path, of_author, there)
    return _Jobs(files, workflow, workflow.path, scope, values, marked, start, author).checks()


@dataclass(slots=True)
class _Jobs:
    """The jobs of one workflow, started by the event or called by a job of another."""

    files: Mapping[str, WorkflowFile]
    workflow: WorkflowFile
    path: str
    scope: StepScope
    values: dict[str, Value]
    marked: frozenset[Path] = frozenset()
    """Inputs that the event decides."""
    start: TriggerOutcome = field(default_factory=lambda: TriggerOutcome(True))
    author: "_Jobs | None" = None
    """The same jobs on an author's own pull request; None for those themselves."""
    depth: int = 0
    known: dict[object, "_Jobs"] = field(default_factory=dict)
    """Called workflows by what decides about their jobs, for all callers in one file."""
    _answers: dict[str, TriggerOutcome] = field(default_factory=dict)
    _after_steps: dict[str, EventViews] = field(default_factory=dict)
    _by_event: dict[str, Sequence[str]] = field(default_factory=dict)
    """The outputs of jobs that the event decides, with many readers."""
    _open: set[str] = field(default_factory=set)
    _children: "dict[str, _Jobs | None]" = field(default_factory=dict)
    _checks: list[JobCheck] | None = None

    def checks(self) -> Sequence[JobCheck]:
        """Return the checks of all jobs. Raises LimitError."""
        if self._checks is None:
            self._checks = [check for job_id, job in self.workflow.jobs.items() for check in self._of_job(job_id, job)]
        return self._checks

    def _of_job(self, job_id: str, job: Mapping[str, Any]) -> Iterator[JobCheck]:
        answer = self._runs(job_id)
        runs = False if answer.untested else both(self.start.answer, answer.answer)
        why = "" if runs else (self.start.why if self.start.answer is False else answer.why) or self.start.why
        for name in check_names(job_id, job, self._views(job).here):
            if "uses" not in job:
                self.scope.budget.spend_job()
                yield JobCheck(self.path, job_id, name, runs, why, answer.guard, answer.untested)
                continue
            for check in self._called(job_id):
                self.scope.budget.spend_job()
                inner = both(runs, check.runs)
                ids = f"{job_id} / {check.job}" if check.job else job_id
                reason = (why, answer.guard) if inner is runs else (check.why, check.guard)
                untested = answer.untested if check.untested is False else check.untested
                yield JobCheck(self.path, ids, check.name.within(name), inner, *reason, untested)

    def _called(self, job_id: str) -> Sequence[JobCheck]:
        """Return the checks of a reusable workflow, if its caller runs; those of another repository are unknown."""
        child = self._child(job_id)
        if child is None:
            uses = self.workflow.jobs[job_id]["uses"]
            what = f"job `{job_id}` of `{self.path}` calls `{uses}`, which IMQ cannot read"
            return [JobCheck(self.path, "", ANY, None, what, untested=_perhaps(self.scope))]
        return child.checks()

    def _child(self, job_id: str) -> "_Jobs | None":
        """Return the jobs of the workflow that a job calls."""
        if job_id not in self._children:
            self._children[job_id] = self._call(self.workflow.jobs[job_id], job_id)
        return self._children[job_id]

    def _call(self, job: Mapping[str, Any], job_id: str) -> "_Jobs | None":
        called = called_workflow(self.files, job)
        if called is None or "workflow_call" not in called.events or self.depth >= _DEEPEST_CALL:
            return None
        given = job.get("with")
        views = self._views(job)
        declared = called.events["workflow_call"].inputs
        inputs = {name: _default(each) for name, each in declared.items()}
        inputs |= given if isinstance(given, dict) else {}
        typed = {name: _typed(views.value(written)[0], declared.get(name, {})) for name, written in inputs.items()}
        values = self.values | {"inputs": typed}
        marked = frozenset(("inputs", str(name).lower()) for name, written in inputs.items() if not views.same(written))
        author = None if self.author is None else self.author._child(job_id)
        key = called.path, self.depth, repr(values["inputs"]), marked, id(author)
        if key not in self.known:
            shared = _shared_group(called.concurrency, self.workflow, self.scope.event, self.scope.candidate)
            start = TriggerOutcome(None, shared) if shared else TriggerOutcome(True)
            common = (self.files, called, self.path, self.scope, values, marked, start, author)
            self.known[key] = _Jobs(*common, self.depth + 1, self.known)
        return self.known[key]

    def _runs(self, job_id: str) -> TriggerOutcome:
        """Whether a job runs, if the workflow starts and each job that runs succeeds; a call's jobs apart."""
        if job_id in self._answers:
            return self._answers[job_id]
        job = self.workflow.jobs.get(job_id)
        if job is None or job_id in self._open:
            return TriggerOutcome(None, f"job `{job_id}` of `{self.path}` cannot be read")
        self._open.add(job_id)
        answer = self._condition(job_id, job)
        if answer.answer and self.author is not None:
            # What surely is not tested counts first, then what no try shows.
            found = sorted(self._differences(job_id, job), key=lambda each: (True, None, False).index(each[1]))
            for why, untested in found[:1]:
                answer = TriggerOutcome(None, f"job `{job_id}` of `{self.path}` {why}", untested=untested)
        self._open.discard(job_id)
        self._answers[job_id] = answer
        return answer

    def _condition(self, job_id: str, job: Mapping[str, Any]) -> TriggerOutcome:
        before = [self._runs(each) for each in self._before(job_id)]
        written = job.get("if")
        condition = written if written is None or isinstance(written, str) else str(written).lower()
        where = f"job `{job_id}` of `{self.path}`"
        if not (isinstance(condition, str) and has_status_function(condition)):
            # Jobs without such a function look at all jobs before them (actions/runner #491).
            if any(each.answer is False for each in before):
                return TriggerOutcome(False, f"{where} needs a job that is skipped")
            if unknown := next((each for each in before if each.answer is None), None):
                return unknown
        holds = guard(written, self._views(job).here)
        if holds is False:
            return TriggerOutcome(False, f"{where} is skipped there, by its condition `{condition}`", condition or "")
        if holds is None:
            return TriggerOutcome(None, f"{where} has a condition that IMQ cannot evaluate: `{condition}`")
        return TriggerOutcome(True)

    def _differences(self, job_id: str, job: Mapping[str, Any]) -> Iterator[tuple[str, bool | None]]:
        """Yield why a job that runs may pass without the test of an author's pull request, and whether it does."""
        perhaps = _perhaps(self.scope)
        assert self.author is not None
        for each in needed_jobs(job):
            needed = self._worst(each)
            asked = f"needs.{each}.outputs" in str(job.get("if"))
            if asked and needed.answer is False and self.author._worst(each).answer is False:
                continue  # It decides on a later run of the base, and on both sides here it decides nothing.
            if not needed.answer:
                word = "skipped there" if needed.answer is False else "unknown"
                skipped = needed.answer is False and self.author._worst(each).answer
                surely = True if skipped or needed.untested else perhaps
                yield f"needs job `{each}`, which is {word}: {needed.why}", surely
        views = self._views(job)
        strategy = job.get("strategy")
        parts = {
            key: value
            for key, value in job.items()
            if key not in ("name", "if", "needs", "steps", "env", "concurrency")
        }
        parts |= {"defaults of the workflow": self.workflow.defaults}
        if isinstance(strategy, dict):
            parts["strategy"] = {key: value for key, value in strategy.items() if key not in _HARMLESS}
            if computes_exclusions(strategy.get("matrix")):
                yield "leaves out combinations of its matrix that an expression computes", perhaps
        for key in sorted(parts.keys() - {"outputs", "with"}):
            if not views.same(parts[key]):
                yield f"has `{key}` by the event", perhaps
        texts = [parts, job.get("env"), self.workflow.variables, self._defaults_of_call(job)]
        if self.scope.is_branch and (read := event_reads(texts)):
            yield f"reads {read}, which depends on the event", perhaps
        if self.scope.is_branch and (read := self.scope.scripts.reads(texts)):
            yield f"names {read}", perhaps
        if "uses" not in job:
            steps = views.with_variables(self.workflow.variables, job.get("env"))
            scope = replace(self.scope, folder=_folder(self.workflow.defaults, job.get("defaults")))
            why, self._after_steps[job_id], is_skipped = difference(job.get("steps"), _in_steps(steps), scope)
            if why:
                yield why, is_skipped or perhaps
        if job.get("environment") is not None:
            yield "needs an environment, whose rules may keep a branch out", False
        if shared := _shared_group(job.get("concurrency"), self.workflow, self.scope.event, self.scope.candidate):
            yield f"is not alone: {shared}", False

    def _defaults_of_call(self, job: Mapping[str, Any]) -> list[object]:
        called = called_workflow(self.files, job)
        call = None if called is None else called.events.get("workflow_call")
        return [] if call is None else default_values(call.inputs)

    def _worst(self, job_id: str) -> TriggerOutcome:
        """Whether a job and, if it calls a workflow, each job of that is a proof."""
        answer = self._runs(job_id)
        if not answer.answer or self.author is None or "uses" not in self.workflow.jobs[job_id]:
            return answer
        authors = {each.job: each.runs for each in self.author._called(job_id)}
        # A job that inputs leave out on both sides is no difference.
        found = [
            each for each in self._called(job_id) if not each.runs and (each.runs, authors[each.job]) != (False, False)
        ]
        skipped = (each for each in found if each.runs is False and authors[each.job])
        if worst := next(skipped, next(iter(found), None)):
            surely = True if worst.runs is False and authors[worst.job] else worst.untested
            return TriggerOutcome(None, worst.why, untested=surely)
        return answer

    def _before(self, job_id: str) -> Sequence[str]:
        """Return all jobs that a job waits for, each after those that it waits for itself. Raises LimitError."""
        visited: set[str] = set()
        found: list[str] = []
        todo = [(each, False) for each in needed_jobs(self.workflow.jobs.get(job_id, {}))]
        while todo:
            each, is_done = todo.pop()
            if is_done:
                found.append(each)
            elif each not in visited:
                visited.add(each)
                self.scope.budget.spend_step()
                todo.append((each, True))
                todo += [(one, False) for one in needed_jobs(self.workflow.jobs.get(each, {})) if one not in visited]
        return found

    def _views(self, job: Mapping[str, Any]) -> EventViews:
        """Return the contexts of a job, on both sides."""
        here = self._context(job)
        there = here if self.author is None else self.author._context(job)
        results = {each: self._runs(each).answer for each in needed_jobs(job)}
        marked = set(self.marked)
        for each, answer in results.items():
            if self.author is not None and (answer is None or answer is not self.author._runs(each).answer):
                marked.add(("needs", each.lower(), "result"))
            marked |= {("needs", each.lower(), "outputs", name) for name in self._marked_outputs(each)}
        return EventViews(here, there, free_paths(self.scope.event), frozenset(marked | {("job", "workflow_ref")}))

    def _context(self, job: Mapping[str, Any]) -> ExpressionContext:
        before = {each: self._runs(each).answer for each in needed_jobs(job)}
        results = {True: "success", False: "skipped"}
        needs: dict[str, Value] = {
            name: {"result": UNKNOWN if answer is None else results[answer], "outputs": {"*": UNKNOWN}}
            for name, answer in before.items()
        }
        succeeded = all_of(list(before.values()))
        status = {"always": True, "success": succeeded, "failure": False, "cancelled": False}
        return ExpressionContext({**self.values, "needs": needs}, status)

    def _marked_outputs(self, job_id: str) -> Sequence[str]:
        """Return the outputs of a job that the event decides, in lower case."""
        job = self.workflow.jobs.get(job_id)
        if job is None or self.author is None or not self._runs(job_id).answer:
            return []
        if "uses" in job:
            child = self._child(job_id)
            return [] if child is None else child._outputs_of_call()
        outputs, views = job.get("outputs"), self._after_steps.get(job_id)
        if views is None or not isinstance(outputs, dict):
            return []
        if job_id not in self._by_event:
            marked = (str(name).lower() for name, written in outputs.items() if not views.same(written))
            self._by_event[job_id] = list(marked)
        return self._by_event[job_id]

    def _outputs_of_call(self) -> Sequence[str]:
        """Return the outputs of a called workflow that the event decides."""
        marked = {
            ("jobs", each.lower(), "outputs", name)
            for each in self.workflow.jobs
            for name in self._marked_outputs(each)
        }
        views = self._views({}).marking(marked)
        outputs = self.workflow.events["workflow_call"].outputs
        return [str(name).lower() for name, each in outputs.items() if not views.same(each.get("value"))]


def called_workflow(files: Mapping[str, WorkflowFile], job: Mapping[str, Any]) -> WorkflowFile | None:
    """Return the workflow of the repository that a job calls; None for one of another repository."""
    uses = str(job.get("uses"))
    return files.get(uses[2:]) if uses.startswith(("./", "$/")) else None


def _perhaps(scope: StepScope) -> bool | None:
    """Whether a check with a difference may be untested: a draft differs from other pull requests as they do."""
    return None if scope.is_branch else False


def _in_steps(views: EventViews) -> EventViews:
    """Return the contexts inside a job: the steps before have unknown results, and nothing has failed."""
    here, there = (
        ExpressionContext({**each.values, "steps": UNKNOWN, "job": UNKNOWN}, _OF_STEPS)
        for each in (views.here, views.there)
    )
    return EventViews(here, there, views.free, views.marked)


def _folder(*defaults: object) -> object:
    """Return where steps run commands, by the `defaults` of the workflow and of the job."""
    runs = [each.get("run") for each in defaults if isinstance(each, dict)]
    folders = [each["working-directory"] for each in runs if isinstance(each, dict) and "working-directory" in each]
    return folders[-1] if folders else None


def needed_jobs(job: Mapping[str, Any]) -> list[str]:
    """Return the jobs that end before this one begins."""
    needs = job.get("needs") or []
    return [str(each) for each in (needs if isinstance(needs, list) else [needs])]


def _default(declared: Mapping[str, Any]) -> object:
    return declared["default"] if "default" in declared else _UNSET.get(str(declared.get("type")), UNKNOWN)


def _typed(value: Value, declared: Mapping[str, Any]) -> Value:
    """Return the value of an input as its type makes it; `UNKNOWN` for one that GitHub may convert or refuse."""
    kind = _KINDS.get(str(declared.get("type")))
    if kind is None:
        return as_text(value)
    return value if isinstance(value, kind) else UNKNOWN


def _shared_group(
    concurrency: object, workflow: WorkflowFile, event: WorkflowEvent, candidate: CandidateContext
) -> str | None:
    """Return why another branch's run would cancel a candidate's; None if each branch has a group of its own.

    Of a group, GitHub keeps one run and the newest that waits, and cancels the others (docs: "Control concurrency").
    With `queue: max` a hundred may wait (changelog of 2026-05-07).
    """
    settings = concurrency if isinstance(concurrency, dict) else {"group": concurrency}
    group, waits = settings.get("group"), settings.get("queue") == "max" and not settings.get("cancel-in-progress")
    if group is None or waits or event in AUTHORS:
        return None
    another = replace(candidate, branch=f"{candidate.branch}0")
    if _group_key(str(group), workflow, event, candidate) != _group_key(str(group), workflow, event, another):
        return None
    return f"`{workflow.path}` has one concurrency group for all branches, in which GitHub cancels runs: `{group}`"


def _group_key(group: str, workflow: WorkflowFile, event: WorkflowEvent, candidate: CandidateContext) -> str:
    context = ExpressionContext(event_values(event, candidate, workflow.name), _OF_STEPS)
    parts = render(group, context)
    return "".join(
        part if isinstance(part, str) else part.identity if isinstance(part, PatternValue) else "?" for part in parts
    )
