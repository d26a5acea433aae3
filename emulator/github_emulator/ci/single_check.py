"""A CI: watches pushes and pull requests, takes its time, judges the tree, and reports."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from github_emulator.ci.ci_event import CIEvent, ci_event
from github_emulator.ci.verdict import conclude
from github_emulator.ci.workflows import Judge, all_green
from github_emulator.core.schedule import ScheduledAction
from github_emulator.domain.checks.actions import SLUG
from github_emulator.domain.checks.checks import CheckRunFields
from github_emulator.domain.domain import Domain
from github_emulator.events.check_events import CheckRerequested, CommitPushed
from github_emulator.events.events import PullRequestChanged
from github_emulator.state import Actor, CheckRun, PullRequest, Repository

_TESTED = ("opened", "synchronize", "reopened")
"""The actions of a pull request that a CI tests."""


@dataclass(eq=False, slots=True)
class _Job:
    sha: str
    line: str
    attempt: int
    event: str
    pull: PullRequest | None = None
    run: CheckRun | None = None
    next_step: ScheduledAction | None = None


@dataclass(frozen=True, slots=True)
class CISettings:
    """How a CI reports, and what it concludes.

    It reports check runs of the app with slug `app`, or with `status` commit statuses, or with `workflow` a job of that
    workflow of GitHub Actions. `waits` passes before a run starts, then `duration` plus up to `jitter`.

    `flaky` is the probability that a green tree fails, the same for the same seed, commit and attempt. `plan` are the
    conclusions of a commit's first attempts, whatever its tree: flaky is `("failure",)`, a broken machine
    `("timed_out",)`; later attempts are judged. With `reports` False nothing ever appears; with `finishes` False runs
    never end. `on` are the events that it tests, `branches` fnmatch patterns of the branch pushed to, or of the pull
    request's base. With `cancels_older` a newer commit of the same branch or pull request cancels the run under way.
    `judges` looks at the pull request instead of the tree, such as at its title.
    """

    app: str = "ci"
    status: bool = False
    duration: timedelta = timedelta(seconds=20)
    waits: timedelta = timedelta(0)
    jitter: timedelta = timedelta(0)
    judge: Judge = all_green
    flaky: float = 0.0
    plan: Sequence[str] = ()
    workflow: str | None = None
    reports: bool = True
    finishes: bool = True
    on: Collection[str] = ("push", "pull_request")
    branches: Sequence[str] | None = None
    cancels_older: bool = False
    judges: Callable[[PullRequest], bool] | None = None


class CI:
    """One check of one repository, reported as check runs of an app of its own, or as commit statuses.

    The plain case: one run a commit, whatever the events. `WorkflowRunner` has runs per event.
    The tree of the commit is judged, so two changes can be green alone and red together. A commit is tested once,
    whether it was pushed or opened as a pull request first; a rerequested run is tested again. `duration`, `judge`,
    `flaky`, `plan`, `reports` and `finishes` may be changed any time. A run that fails leaves these `annotations`, and
    `uploads` these archives by name.
    """

    def __init__(
        self,
        domain: Domain,
        repository: Repository,
        name: str,
        settings: CISettings,
    ) -> None:
        self.name = name
        self.app = domain.accounts.app_for(settings.app if settings.workflow is None else SLUG, repository)
        self.duration = settings.duration
        self.judge = settings.judge
        self.flaky = settings.flaky
        self.plan = tuple(settings.plan)
        self.reports = settings.reports
        self.finishes = settings.finishes
        self.annotations: list[dict[str, Any]] = []
        self.uploads: dict[str, bytes] = {}
        self._context = domain.context
        self._checks = domain.checks
        self._actions = domain.actions
        self._repository = repository
        self._settings = settings
        self._attempts: dict[str, int] = {}
        self._lines: dict[str, _Job] = {}
        events = domain.context.events
        events.subscribe(CommitPushed, lambda event: self._learn(ci_event(event)))
        events.subscribe(PullRequestChanged, lambda event: self._learn(ci_event(event)))
        events.subscribe(CheckRerequested, self._again)

    @property
    def tested(self) -> dict[str, int]:
        """SHA -> how often it was tested, or is being tested."""
        return dict(self._attempts)

    def _learn(self, event: CIEvent) -> None:
        if event.repository is not self._repository or (event.pull is not None and event.action not in _TESTED):
            return
        if event.kind in self._settings.on and self._wants(event.branch) and event.sha not in self._attempts:
            line = f"#{event.pull.number}" if event.pull else event.branch
            self._begin(event.sha, line, event.kind, event.pull)

    def _again(self, event: CheckRerequested) -> None:
        run = event.run
        if run.repository is self._repository and self._is_own(run):
            self._begin(run.head_sha, run.head_sha, "push")

    def _is_own(self, run: CheckRun) -> bool:
        workflow = run.workflow_run.workflow.name if run.workflow_run else None
        return (run.app, run.name, workflow) == (self.app, self.name, self._settings.workflow)

    def _wants(self, branch: str) -> bool:
        return self._settings.branches is None or any(
            fnmatchcase(branch, pattern) for pattern in self._settings.branches
        )

    def _begin(self, sha: str, line: str, event: str, pull: PullRequest | None = None) -> None:
        self._attempts[sha] = self._attempts.get(sha, 0) + 1
        if not self.reports:
            return
        job = _Job(sha, line, self._attempts[sha], event, pull)
        older, self._lines[line] = self._lines.get(line), job
        if older and self._settings.cancels_older:
            self._cancel(older)
        self._after(job, timedelta(0), self._queue)

    def _after(self, job: _Job, delay: timedelta, step: Callable[[_Job], None]) -> None:
        name = f"{self.name} {job.sha[:7]}"
        job.next_step = self._context.schedule.after(delay, partial(step, job), name=name)

    def _queue(self, job: _Job) -> None:
        if self._settings.status:
            self._report_status(job, "pending")
        else:
            actions, workflow = self._actions, self._settings.workflow
            run = actions.run_of(self._repository, job.sha, workflow, event=job.event) if workflow else None
            job.run = self._checks.create_run(
                self._repository,
                app=self.app,
                name=self.name,
                head_sha=job.sha,
                workflow_run=run,
                fields=CheckRunFields(details_url=self._url(job)),
            )
        slow = timedelta(0) if self._settings.workflow is None else self._context.timings.job_start
        self._after(job, self._settings.waits + slow, self._start)

    def _start(self, job: _Job) -> None:
        if job.run:
            if job.run.status == "completed":
                return
            kept = self._settings.workflow is not None and self._actions.started_at == "kept"
            now = None if kept else self._context.clock.now()
            self._checks.update_run(job.run, CheckRunFields(status="in_progress", started_at=now))
        if self.finishes:
            random = self._context.randomness.of(f"{self.name} {job.sha} {job.attempt} jitter")
            self._after(job, self.duration + self._settings.jitter * random.random(), self._finish)

    def _finish(self, job: _Job) -> None:
        job.next_step = None
        if job.run and job.run.status == "completed":
            return
        conclusion, title = conclude(
            self._context.randomness,
            self._repository.git.files(job.sha),
            purpose=f"{self.name} {job.sha} {job.attempt}",
            attempt=job.attempt,
            plan=self.plan,
            judge=self._judge_of(job),
            flaky=self.flaky,
        )
        if self._settings.status:
            state = conclusion if conclusion in {"success", "failure"} else "error"
            self._report_status(job, state)
        elif job.run:
            summary = f"{self.name} tested the tree of {job.sha[:7]}."
            if conclusion == "failure":
                job.run.annotations += self.annotations
                if (workflow_run := job.run.workflow_run) is not None:
                    for name, content in self.uploads.items():
                        self._actions.upload(workflow_run, name, content)
            self._checks.update_run(
                job.run, CheckRunFields(conclusion=conclusion, output={"title": title, "summary": summary})
            )

    def _judge_of(self, job: _Job) -> Judge:
        if self._settings.judges is None or job.pull is None:
            return self.judge
        passes = self._settings.judges(job.pull)
        return lambda files: passes

    def _cancel(self, job: _Job) -> None:
        if job.next_step is None:
            return
        job.next_step.cancel()
        if job.run:
            self._checks.update_run(job.run, CheckRunFields(conclusion="cancelled"))

    def _report_status(self, job: _Job, state: str) -> None:
        words = {
            "pending": "Running",
            "success": "All tests passed",
            "failure": "Some tests failed",
            "error": "The machine broke down",
        }
        self._checks.create_status(
            self._repository,
            job.sha,
            actor=Actor(self.app.bot, self.app),
            state=state,
            context=self.name,
            description=words[state],
            target_url=self._url(job),
        )

    def _url(self, job: _Job) -> str:
        return (
            f"{self._context.addresses.html_url}/{self._repository.full_name}/actions/runs/{job.sha[:12]}-{job.attempt}"
        )
