"""What runs a workflow: it watches pushes and pull requests, begins runs, and takes their jobs through time."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from sandbox.actions import SLUG
from sandbox.event_sender import Happening
from sandbox.state import Actor, CheckRun, PullRequest, Repository, Workflow, WorkflowRun
from sandbox.verdict import conclude
from sandbox.workflows import Job, Trigger, skips_ci

if TYPE_CHECKING:
    from sandbox.github import GitHub

_Step = Callable[[WorkflowRun, Job, CheckRun], None]


class WorkflowRunner:
    """One workflow of one repository.

    Each event that a trigger admits makes a run of its own: `on: [push, pull_request]` gives two runs, two suites and
    two check runs of one name on one head. A run of `pull_request` tests the test merge commit, and does not begin on a
    conflict (community #26304). A filter, or `[skip ci]`, leaves no trace. With `cancels_older` a newer run of the same
    event and branch cancels the one under way. `jobs` and `triggers` may be changed any time.
    """

    def __init__(
        self,
        github: "GitHub",
        repository: Repository,
        workflow: Workflow,
        *,
        triggers: Sequence[Trigger],
        jobs: Sequence[Job],
        cancels_older: bool,
    ) -> None:
        self.workflow = workflow
        self.triggers = tuple(triggers)
        self.jobs = tuple(jobs)
        self.cancels_older = cancels_older
        self._github = github
        self._repository = repository
        github.happenings.watchers.append(self._learn)

    @property
    def runs(self) -> list[WorkflowRun]:
        """Its runs, oldest first."""
        return [run for run in self._repository.workflow_runs.values() if run.workflow is self.workflow]

    def _learn(self, happening: Happening) -> None:
        if happening.repository is not self._repository:
            return
        if happening.kind == "rerequest":
            run = happening.run.workflow_run if happening.run else None
            if run is not None and run.workflow is self.workflow:
                run.awaited |= self._dependents(run.awaited)
                self._plan(run)
        elif happening.kind == "approved":
            if happening.workflow_run is not None and happening.workflow_run.workflow is self.workflow:
                self._start(happening.workflow_run)
        elif self._is_wanted(happening):
            begin = partial(self._begin_push if happening.kind == "push" else self._begin_pull, happening)
            name = f"{self.workflow.name} {happening.sha[:7]}"
            self._github.schedule.after(self._github.timings.workflow_run, begin, name=name)

    def _is_wanted(self, happening: Happening) -> bool:
        # What the workflows' own token does starts no workflow (docs: "Triggering a workflow").
        actor = happening.actor
        if actor is not None and actor.app is not None and actor.app.slug == SLUG:
            return False
        if skips_ci(self._repository.git.must(happening.sha).message):
            return False
        files = partial(self._changed, happening)
        branch = happening.branch or ""
        return any(one.admits(happening.kind, happening.action, branch, files) for one in self.triggers)

    def _changed(self, happening: Happening) -> list[str]:
        """The paths that filters look at: a pull request's against its base, a push's against what it replaced.

        A new branch is compared with where it left the default branch (docs: "Workflow syntax", git diffs).
        """
        if happening.pull is not None:
            return [file.filename for file in self._github.pulls.files(happening.pull)]
        git = self._repository.git
        base = git.branch(self._repository.default_branch)
        old = happening.before or (git.merge_base(base, happening.sha) if base else None)
        return [file.filename for file in git.diff(old, happening.sha)] if old else list(git.files(happening.sha))

    def _begin_push(self, happening: Happening) -> None:
        self._begin(happening, "push", happening.sha, happening.branch, None)

    def _begin_pull(self, happening: Happening) -> None:
        pull = happening.pull
        assert pull is not None
        tested = self._github.merging.test_merge(pull, happening.sha)
        if tested is not None:
            self._begin(happening, "pull_request", tested, pull.head_branch, pull)

    def _begin(
        self, happening: Happening, event: str, tested: str, branch: str | None, pull: PullRequest | None
    ) -> None:
        actor = happening.actor or Actor(self._repository.owner)
        older = [run for run in self.runs if run.event == event and run.suite.head_branch == branch and run.running]
        run = self._github.actions.begin(
            self._repository,
            self.workflow,
            event=event,
            head_sha=happening.sha,
            tested_sha=tested,
            actor=actor,
            branch=branch,
            pull=pull,
        )
        if self.cancels_older:
            for one in older:
                self._github.actions.stop(one)
        if run.parked is None:
            self._start(run)

    def _start(self, run: WorkflowRun) -> None:
        run.awaited = {job.name for job in self.jobs}
        self._queue_ready(run)

    def _plan(self, run: WorkflowRun) -> None:
        self._github.schedule.after(
            self._github.timings.workflow_run, partial(self._queue_ready, run), name=f"{self.workflow.name} again"
        )

    def _dependents(self, names: set[str]) -> set[str]:
        """The jobs that need one of these, directly or not: they run again with them."""
        found: set[str] = set()
        for job in self.jobs:
            if {*job.needs} & (names | found):
                found.add(job.name)
        return found

    def _queue_ready(self, run: WorkflowRun) -> None:
        """Give a check run to each job whose needs have ended; jobs stand in the order of their needs."""
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
        check = self._github.checks.create_run(
            self._repository,
            app=run.suite.app,
            name=job.name,
            head_sha=run.head_sha,
            conclusion="skipped" if skipped else None,
            workflow_run=run,
        )
        if not skipped:
            delay = job.waits + self._github.timings.job_start
            self._after(delay, self._run, run, job, check)

    def _run(self, run: WorkflowRun, job: Job, check: CheckRun) -> None:
        if check.status == "completed":
            return
        renewed = self._github.actions.started_at == "renewed"
        now = self._github.clock.now()
        self._github.checks.update_run(check, status="in_progress", started_at=now if renewed else None)
        if job.finishes:
            chance = self._github.random(f"{self._purpose(run, job)} jitter")
            self._after(job.duration + job.jitter * chance.random(), self._finish, run, job, check)

    def _finish(self, run: WorkflowRun, job: Job, check: CheckRun) -> None:
        if check.status == "completed":
            return
        conclusion, title = conclude(
            self._github,
            self._repository.git.files(run.tested_sha),
            purpose=self._purpose(run, job),
            attempt=run.attempt,
            plan=job.plan,
            judge=job.judge,
            flaky=job.flaky,
        )
        output = {"title": title, "summary": f"{job.name} tested the tree of {run.tested_sha[:7]}."}
        self._github.checks.update_run(check, conclusion=conclusion, output=output)
        self._queue_ready(run)

    def _after(self, delay: timedelta, step: _Step, run: WorkflowRun, job: Job, check: CheckRun) -> None:
        self._github.schedule.after(delay, partial(step, run, job, check), name=f"{job.name} {run.head_sha[:7]}")

    def _purpose(self, run: WorkflowRun, job: Job) -> str:
        return f"{self.workflow.name} {job.name} {run.tested_sha} {run.attempt}"
