"""GitHub Actions, as far as others see it: workflow runs, whose jobs are check runs, and running them again.

A job of Actions cannot be rerequested through the checks API; its workflow run is run again instead, for all jobs or
for those that failed. The refusals are those of GitHub's endpoints on workflow runs.
"""

from datetime import timedelta
from typing import TYPE_CHECKING

from sandbox.errors import Forbidden
from sandbox.happenings import Happening
from sandbox.required_checks import PASSING
from sandbox.state import Actor, CheckRun, CheckSuite, WorkflowRun

if TYPE_CHECKING:
    from sandbox.github import GitHub

SLUG = "github-actions"
"""The app under which Actions reports."""

_LONGEST_AGO = timedelta(days=30)


class Actions:
    """The workflow runs of all repositories."""

    def __init__(self, github: "GitHub") -> None:
        self._github = github

    def run_of(self, suite: CheckSuite, workflow: str) -> WorkflowRun:
        """The run of a workflow on a commit, begun when there is none; further jobs and attempts belong to it."""
        runs = suite.repository.workflow_runs
        for run in runs.values():
            if (run.suite, run.workflow) == (suite, workflow):
                return run
        run = WorkflowRun(self._github.state.next_id("workflow_run"), suite, workflow, self._github.clock.now())
        runs[run.id] = run
        return run

    def rerun(self, run: WorkflowRun, *, actor: Actor, failed_only: bool = False) -> None:
        """Run the jobs again, all or those that failed. Raises Forbidden in GitHub's words."""
        self._github.require_role(actor, run.repository, "write")
        jobs = run.current_jobs()
        if run.running:
            raise Forbidden("This workflow is already running")
        if self._github.clock.now() - run.created_at > _LONGEST_AGO:
            raise Forbidden("Unable to retry this workflow run because it was created over a month ago")
        if failed_only:
            # A run that died before it had jobs has none that failed.
            jobs = [job for job in jobs if job.conclusion not in {*PASSING, "startup_failure"}]
        if not jobs:
            raise Forbidden("This workflow run cannot be retried")
        run.attempt += 1
        run.suite.status, run.suite.conclusion = "queued", None
        run.awaited = {job.name for job in jobs}
        for job in jobs:
            self._again(job)

    def _again(self, job: CheckRun) -> None:
        self._github.happenings.tell(Happening("rerequest", job.repository, job.head_sha, run=job))
