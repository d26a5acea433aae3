"""What runs a workflow: it watches pushes and pull requests, begins runs, and takes their jobs through time."""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from github_emulator.ci.ci_event import CIEvent, ci_event
from github_emulator.ci.verdict import conclude
from github_emulator.ci.workflows import Job, Judge, Trigger, all_green, skips_ci
from github_emulator.core.errors import Invalid
from github_emulator.domain.checks.actions import SLUG
from github_emulator.domain.checks.checks import CheckRunFields
from github_emulator.domain.domain import Domain
from github_emulator.events.check_events import CheckRerequested, CommitPushed, WorkflowRunApproved
from github_emulator.events.events import CommentChanged, PullRequestChanged
from github_emulator.state import Actor, CheckRun, PullRequest, Repository, Workflow, WorkflowRun

_REFUSED_AFTER = timedelta(seconds=3)
_Step = Callable[[WorkflowRun, Job, CheckRun], None]


class WorkflowRunner:
    """One workflow of one repository.

    Each event that a trigger admits makes a run of its own: `on: [push, pull_request]` gives two runs, two suites and
    two check runs of one name on one head. A run of `pull_request` tests the test merge commit, and does not begin on a
    conflict (community #26304). A filter, or `[skip ci]`, leaves no trace. A run on a tree that is not `valid` ends at
    once, without a job. With `cancels_older` a newer run of the same
    event and branch cancels the one under way. With `group` it cancels each run of that concurrency group, whatever its
    workflow and event: the group of a pull request is `group-NUMBER`, and that of a branch `group-BRANCH`. `jobs` and
    `triggers` may be changed any time.
    """

    def __init__(
        self,
        domain: Domain,
        repository: Repository,
        workflow: Workflow,
        *,
        triggers: Sequence[Trigger],
        jobs: Sequence[Job],
        cancels_older: bool,
        group: str | None = None,
    ) -> None:
        self.valid: Judge = all_green
        self.workflow = workflow
        self.triggers = tuple(triggers)
        self.jobs = tuple(jobs)
        self.cancels_older = cancels_older
        self.group = group
        self._context = domain.context
        self._actions = domain.actions
        self._checks = domain.checks
        self._pulls = domain.pulls
        self._mergeability = domain.mergeability
        self._repository = repository
        events = domain.context.events
        events.subscribe(CommitPushed, lambda event: self._learn(ci_event(event)))
        events.subscribe(PullRequestChanged, lambda event: self._learn(ci_event(event)))
        events.subscribe(CommentChanged, lambda event: self._learn(ci_event(event)))
        events.subscribe(CheckRerequested, self._again)
        events.subscribe(WorkflowRunApproved, self._approved)
        domain.actions.dispatchers[workflow.id] = self._dispatch

    @property
    def runs(self) -> list[WorkflowRun]:
        """Its runs, oldest first."""
        return [run for run in self._repository.workflow_runs.values() if run.workflow is self.workflow]

    def run_on_schedule(self) -> None:
        """Run once on the default branch's tip, as its `schedule` does ("Events that trigger workflows")."""
        branch = self._repository.default_branch
        tip = self._repository.git.branch(branch)
        assert tip is not None
        owner = Actor(self._repository.owner)
        self._start(
            self._actions.begin(
                self._repository,
                self.workflow,
                event="schedule",
                head_sha=tip,
                tested_sha=tip,
                actor=owner,
                branch=branch,
            )
        )

    def _dispatch(self, branch: str, sha: str, inputs: Sequence[str], actor: Actor) -> None:
        """Begin a run that somebody asked for. Raises Invalid without that trigger, or for an unknown input.

        The words for the trigger are those of benc-uk/workflow-dispatch #46.
        """
        trigger = next((one for one in self.triggers if one.event == "workflow_dispatch"), None)
        if trigger is None:
            raise Invalid("Workflow does not have 'workflow_dispatch' trigger")
        if unknown := [name for name in inputs if name not in trigger.inputs]:
            raise Invalid(f"Unexpected inputs provided: {json.dumps(unknown)}")
        asked = CIEvent("workflow_dispatch", self._repository, sha, branch, actor)
        begin = partial(self._begin, asked, "workflow_dispatch", sha, branch, None)
        self._context.schedule.after(self._context.timings.workflow_run, begin, name=f"{self.workflow.name} {sha[:7]}")

    def _learn(self, event: CIEvent) -> None:
        if event.repository is self._repository and self._is_wanted(event):
            begin = partial(self._begin_pull if event.kind == "pull_request" else self._begin_at_tip, event)
            name = f"{self.workflow.name} {event.sha[:7]}"
            self._context.schedule.after(self._context.timings.workflow_run, begin, name=name)

    def _again(self, event: CheckRerequested) -> None:
        run = event.run.workflow_run
        if run is not None and run.workflow is self.workflow:
            run.awaited |= self._dependents(run.awaited)
            self._plan(run)

    def _approved(self, event: WorkflowRunApproved) -> None:
        if event.run.workflow is self.workflow:
            self._start(event.run)

    def _is_wanted(self, event: CIEvent) -> bool:
        # What the workflows' own token does starts no workflow (docs: "Triggering a workflow").
        app = event.actor.app
        if app is not None and app.slug == SLUG:
            return False
        if event.kind != "issue_comment" and skips_ci(self._repository.git.must(event.sha).message):
            return False
        files = partial(self._changed, event)
        return any(one.admits(event.kind, event.action, event.branch, files) for one in self.triggers)

    def _changed(self, event: CIEvent) -> list[str]:
        """The paths that filters look at: a pull request's against its base, a push's against what it replaced.

        A new branch is compared with where it left the default branch (docs: "Workflow syntax", git diffs).
        """
        if event.pull is not None:
            return [file.filename for file in self._pulls.files(event.pull)]
        git = self._repository.git
        base = git.branch(self._repository.default_branch)
        old = event.before or (git.merge_base(base, event.sha) if base else None)
        return [file.filename for file in git.diff(old, event.sha)] if old else list(git.files(event.sha))

    def _begin_at_tip(self, event: CIEvent) -> None:
        self._begin(event, event.kind, event.sha, event.branch, None)

    def _begin_pull(self, event: CIEvent) -> None:
        pull = event.pull
        assert pull is not None
        tested = self._mergeability.test_merge(pull, event.sha)
        if tested is not None:
            self._begin(event, "pull_request", tested, pull.head_branch, pull)

    def _begin(self, cause: CIEvent, kind: str, tested: str, branch: str | None, pull: PullRequest | None) -> None:
        older = [run for run in self.runs if run.event == kind and run.suite.head_branch == branch and run.running]
        run = self._actions.begin(
            self._repository,
            self.workflow,
            event=kind,
            head_sha=cause.sha,
            tested_sha=tested,
            actor=cause.actor,
            branch=branch,
            pull=pull,
        )
        run.label, run.labels, run.title = cause.label, cause.labels, cause.title
        if self.group is not None:
            run.group = f"{self.group}-{cause.branch if cause.pull is None else cause.pull.number}"
            self._actions.stop_group(run)
        if self.cancels_older:
            for one in older:
                self._actions.stop(one)
        if run.parked is None:
            self._start(run)

    def _start(self, run: WorkflowRun) -> None:
        if not self.valid(self._repository.git.files(run.tested_sha)):
            self._actions.end_without_jobs(run)
            return
        run.awaited = {job.name for job in self.jobs}
        self._queue_ready(run)

    def _plan(self, run: WorkflowRun) -> None:
        self._context.schedule.after(
            self._context.timings.workflow_run, partial(self._queue_ready, run), name=f"{self.workflow.name} again"
        )

    def _dependents(self, names: set[str]) -> set[str]:
        """The jobs that need one of these, directly or not: they run again with them."""
        found: set[str] = set()
        for job in self.jobs:
            if {*job.needs} & (names | found):
                found.add(job.name)
        return found

    def _queue_ready(self, run: WorkflowRun) -> None:
        """Give a check run to each job whose needs have ended; jobs are in the order of their needs."""
        for job in self.jobs:
            if job.name not in run.awaited:
                continue
            current = {one.name: one for one in run.current_jobs()}
            needed = [current.get(name) for name in job.needs]
            if any(name in run.awaited for name in job.needs):
                continue
            if all(one is not None and one.status == "completed" for one in needed):
                passed = all(one is not None and one.conclusion == "success" for one in needed)
                self._queue(run, job, skipped=not self._may_run(run, job, passed))

    def _may_run(self, run: WorkflowRun, job: Job, passed: bool) -> bool:
        return (passed or job.always) and (job.guard is None or job.guard(run))

    def _queue(self, run: WorkflowRun, job: Job, *, skipped: bool) -> None:
        check = self._checks.create_run(
            self._repository,
            app=run.suite.app,
            name=job.name,
            head_sha=run.head_sha,
            workflow_run=run,
            fields=CheckRunFields(conclusion="skipped" if skipped else None),
        )
        check.labels = job.labels
        if not skipped and (refused := self._context.behaviour.jobs_refused) is not None:
            place = {"path": ".github", "start_line": 1, "end_line": 1, "annotation_level": "failure"}
            check.annotations.append(place | {"message": refused})
            self._after(_REFUSED_AFTER, self._refuse, run, job, check)
        elif not skipped:
            delay = job.waits + self._context.timings.job_start
            self._after(delay, self._run, run, job, check)

    def _run(self, run: WorkflowRun, job: Job, check: CheckRun) -> None:
        if check.status == "completed":
            return
        renewed = self._actions.started_at == "renewed"
        now = self._context.clock.now()
        self._checks.update_run(check, CheckRunFields(status="in_progress", started_at=now if renewed else None))
        if job.finishes:
            random = self._context.randomness.of(f"{self._purpose(run, job)} jitter")
            self._after(job.duration + job.jitter * random.random(), self._finish, run, job, check)

    def _refuse(self, run: WorkflowRun, _: Job, check: CheckRun) -> None:
        if check.status != "completed":
            self._checks.update_run(check, CheckRunFields(conclusion="failure"))
            self._queue_ready(run)

    def _finish(self, run: WorkflowRun, job: Job, check: CheckRun) -> None:
        if check.status == "completed":
            return
        conclusion, title = conclude(
            self._context.randomness,
            self._repository.git.files(run.tested_sha),
            purpose=self._purpose(run, job),
            attempt=run.attempt,
            plan=job.plan,
            judge=_judge_of(run, job),
            flaky=job.flaky,
        )
        output = {"title": title, "summary": f"{job.name} tested the tree of {run.tested_sha[:7]}."}
        self._checks.update_run(check, CheckRunFields(conclusion=conclusion, output=output))
        self._queue_ready(run)

    def _after(self, delay: timedelta, step: _Step, run: WorkflowRun, job: Job, check: CheckRun) -> None:
        self._context.schedule.after(delay, partial(step, run, job, check), name=f"{job.name} {run.head_sha[:7]}")

    def _purpose(self, run: WorkflowRun, job: Job) -> str:
        return f"{self.workflow.name} {job.name} {run.tested_sha} {run.attempt}"


def _judge_of(run: WorkflowRun, job: Job) -> Judge:
    if job.judges is not None:
        passes = job.judges(run)
        return lambda files: passes
    return job.judge if job.tests is None or job.tests(run) else all_green
