"""A CI: watches pushes and pull requests, takes its time, judges the tree, and reports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from sandbox.actions import SLUG
from sandbox.event_sender import Happening
from sandbox.schedule import Appointment
from sandbox.state import Actor, CheckRun, Repository
from sandbox.verdict import conclude
from sandbox.workflows import Judge

if TYPE_CHECKING:
    from sandbox.github import GitHub

_TESTED = ("opened", "synchronize", "reopened")
"""The actions of a pull request that a CI tests."""


@dataclass(eq=False, slots=True)
class _Job:
    sha: str
    line: str
    attempt: int
    event: str
    run: CheckRun | None = None
    next_step: Appointment | None = None


class CI:
    """One check of one repository, reported as check runs of an app of its own, or as commit statuses.

    The plain case: one run a commit, whatever the events. `sandbox.runner` has workflows with runs per event.

    The tree of the commit is judged, so two changes can be green alone and red together. A commit is tested once,
    whether it was pushed or opened as a pull request first; a rerequested run is tested again. `waits` passes before
    a run starts, then `duration` plus up to `jitter`. `flaky` is the probability that a green tree fails, the same for
    the same seed, commit and attempt. `plan` are the conclusions of a commit's first attempts, whatever its tree: flaky
    is `("failure",)`, a broken machine `("timed_out",)`; later attempts are judged. With `reports` False nothing ever
    appears; with `finishes` False runs never end.
    `branches` are fnmatch patterns of the branch pushed to, or of the pull request's base. With `workflow` the check is
    a job of that workflow of GitHub Actions. `judge`, `plan` and the like may be changed any time.
    """

    def __init__(
        self,
        github: "GitHub",
        repository: Repository,
        name: str,
        *,
        app: str,
        as_status: bool,
        duration: timedelta,
        waits: timedelta,
        jitter: timedelta,
        judge: Judge,
        flaky: float,
        plan: Sequence[str],
        workflow: str | None,
        reports: bool,
        finishes: bool,
        on: frozenset[str],
        branches: Sequence[str] | None,
        cancels_older: bool,
    ) -> None:
        self.name = name
        self.app = github.accounts.app_for(app if workflow is None else SLUG, repository)
        self.duration = duration
        self.judge = judge
        self.flaky = flaky
        self.plan = tuple(plan)
        self.reports = reports
        self.finishes = finishes
        self._github = github
        self._repository = repository
        self._as_status = as_status
        self._workflow = workflow
        self._waits = waits
        self._jitter = jitter
        self._on = on
        self._branches = branches
        self._cancels_older = cancels_older
        self._attempts: dict[str, int] = {}
        self._lines: dict[str, _Job] = {}
        github.happenings.watchers.append(self._learn)

    @property
    def tested(self) -> dict[str, int]:
        """SHA -> how often it was tested, or is being tested."""
        return dict(self._attempts)

    def _learn(self, happening: Happening) -> None:
        if happening.repository is not self._repository:
            return
        if happening.kind == "rerequest":
            if happening.run and self._is_own(happening.run):
                self._begin(happening.sha, happening.sha, "push")
        elif happening.kind == "pull_request" and happening.action not in _TESTED:
            return
        elif happening.kind in self._on and self._wants(happening.branch) and happening.sha not in self._attempts:
            line = f"#{happening.pull.number}" if happening.pull else happening.branch or happening.sha
            self._begin(happening.sha, line, happening.kind)

    def _is_own(self, run: CheckRun) -> bool:
        workflow = run.workflow_run.workflow.name if run.workflow_run else None
        return (run.app, run.name, workflow) == (self.app, self.name, self._workflow)

    def _wants(self, branch: str | None) -> bool:
        return self._branches is None or any(fnmatchcase(branch or "", pattern) for pattern in self._branches)

    def _begin(self, sha: str, line: str, event: str) -> None:
        self._attempts[sha] = self._attempts.get(sha, 0) + 1
        if not self.reports:
            return
        job = _Job(sha, line, self._attempts[sha], event)
        older, self._lines[line] = self._lines.get(line), job
        if older and self._cancels_older:
            self._cancel(older)
        self._after(job, timedelta(0), self._queue)

    def _after(self, job: _Job, delay: timedelta, step: Callable[[_Job], None]) -> None:
        name = f"{self.name} {job.sha[:7]}"
        job.next_step = self._github.schedule.after(delay, partial(step, job), name=name)

    def _queue(self, job: _Job) -> None:
        if self._as_status:
            self._report_status(job, "pending")
        else:
            actions, workflow = self._github.actions, self._workflow
            run = actions.run_of(self._repository, job.sha, workflow, event=job.event) if workflow else None
            job.run = self._github.checks.create_run(
                self._repository,
                app=self.app,
                name=self.name,
                head_sha=job.sha,
                details_url=self._url(job),
                workflow_run=run,
            )
        slow = timedelta(0) if self._workflow is None else self._github.timings.job_start
        self._after(job, self._waits + slow, self._start)

    def _start(self, job: _Job) -> None:
        if job.run:
            if job.run.status == "completed":
                return
            kept = self._workflow is not None and self._github.actions.started_at == "kept"
            now = None if kept else self._github.clock.now()
            self._github.checks.update_run(job.run, status="in_progress", started_at=now)
        if self.finishes:
            chance = self._github.random(f"{self.name} {job.sha} {job.attempt} jitter")
            self._after(job, self.duration + self._jitter * chance.random(), self._finish)

    def _finish(self, job: _Job) -> None:
        job.next_step = None
        if job.run and job.run.status == "completed":
            return
        conclusion, title = conclude(
            self._github,
            self._repository.git.files(job.sha),
            purpose=f"{self.name} {job.sha} {job.attempt}",
            attempt=job.attempt,
            plan=self.plan,
            judge=self.judge,
            flaky=self.flaky,
        )
        if self._as_status:
            state = conclusion if conclusion in {"success", "failure"} else "error"
            self._report_status(job, state)
        elif job.run:
            summary = f"{self.name} tested the tree of {job.sha[:7]}."
            self._github.checks.update_run(job.run, conclusion=conclusion, output={"title": title, "summary": summary})

    def _cancel(self, job: _Job) -> None:
        if job.next_step is None:
            return
        job.next_step.cancel()
        if job.run:
            self._github.checks.update_run(job.run, conclusion="cancelled")

    def _report_status(self, job: _Job, state: str) -> None:
        words = {
            "pending": "Running",
            "success": "All tests passed",
            "failure": "Some tests failed",
            "error": "The machine broke down",
        }
        self._github.checks.create_status(
            self._repository,
            job.sha,
            actor=Actor(self.app.bot, self.app),
            state=state,
            context=self.name,
            description=words[state],
            target_url=self._url(job),
        )

    def _url(self, job: _Job) -> str:
        return f"{self._github.html_url}/{self._repository.full_name}/actions/runs/{job.sha[:12]}-{job.attempt}"
