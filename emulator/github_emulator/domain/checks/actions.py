"""GitHub Actions, as far as others see it: workflow runs, each with a suite of its own, whose jobs are check runs.

A job of Actions cannot be rerequested through the checks API; its workflow run is run again instead, for all jobs or
for those that failed. The refusals are those of GitHub's endpoints on workflow runs.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Literal

from github_emulator.core.errors import Conflict, Forbidden, Invalid, NotFound
from github_emulator.domain.accounts.accounts import Accounts
from github_emulator.domain.checks.checks import ACTIONS_SLUG, PASSING, CheckRunFields, Checks
from github_emulator.domain.checks.progress import publish_progress
from github_emulator.events.check_events import (
    CheckRerequested,
    CheckSuiteChanged,
    WorkflowRunApproved,
    WorkflowRunChanged,
)
from github_emulator.events.context import Context
from github_emulator.state import Actor, App, Artifact, CheckRun, PullRequest, Repository, User, Workflow, WorkflowRun

SLUG = ACTIONS_SLUG

Dispatcher = Callable[[str, str, Sequence[str], Actor], None]
"""Begins a run of a workflow on a branch's tip; takes the branch, the commit and the names of the inputs."""

_LONGEST_AGO = timedelta(days=30)
_RELIABLE = ("write", "maintain", "admin")


class Actions:
    """The workflow runs of all repositories.

    `started_at` says what a job's `started_at` is once it runs: `renewed` to the instant of its start (actions/runner
    #1881), or `kept` from when it was queued (strands-labs/robots #2509). A queued job has one in both.
    `parked_is_completed` says whether the webhooks tell a run that waits for approval as completed besides requested.
    `status_finds_parked` says whether `status=action_required` lists it (docs: it does; apache/magpie #112: it lists
    nothing, and the conclusion has to be looked at).
    `invalid_concludes` is the conclusion of a run with an invalid file: either (pytorch/test-infra #6329). GitHub shows
    such a run, without jobs (hermes-agent #90686, tunaOS #1933).
    `dispatches_anywhere` says whether a workflow whose file the default branch has not is dispatched: docs ("Events
    that trigger workflows") and cli/cli #9781 say no, with 404; github/docs #43081 says yes.
    `names_groups` and `shows_groups` say whether an annotation names the concurrency group for which a job was
    cancelled, and whether the group's endpoint is offered: github.com does, an older Enterprise Server does not.
    """

    def __init__(self, context: Context, *, accounts: Accounts, checks: Checks) -> None:
        self._context = context
        self._events = context.events
        self._accounts = accounts
        self._checks = checks
        self.started_at: Literal["renewed", "kept"] = "renewed"
        self.parked_is_completed = True
        self.status_finds_parked = False
        self.dispatches_anywhere = False
        self.names_groups = True
        self.shows_groups = True
        self.invalid_concludes: Literal["failure", "startup_failure"] = "failure"
        self.dispatchers: dict[int, Dispatcher] = {}
        """What starts each workflow that somebody dispatches, by the workflow's id."""

    def app(self, repository: Repository) -> App:
        """GitHub's own app, which every repository has; created and installed when it is missing."""
        return self._accounts.app_for(SLUG, repository)

    def workflow(self, repository: Repository, name: str, path: str | None = None) -> Workflow:
        """A repository's workflow by its name, added when there is none."""
        found = next((one for one in repository.workflows.values() if one.name == name), None)
        if found is None:
            path = path or f".github/workflows/{name.lower().replace(' ', '-')}.yml"
            found = Workflow(self._context.state.next_id("workflow"), name, path, self._context.clock.now())
            repository.workflows[path] = found
        return found

    def begin(
        self,
        repository: Repository,
        workflow: Workflow,
        *,
        event: str,
        head_sha: str,
        tested_sha: str,
        actor: Actor,
        branch: str | None = None,
        pull: PullRequest | None = None,
    ) -> WorkflowRun:
        """A new run with a suite of its own. One that needs approval is parked: completed, `action_required`, no job.

        (claude-mem #3593, magpie #112: parked runs are completed with that conclusion and have no check run.)
        """
        now = self._context.clock.now()
        suite = self._checks.open_suite(repository, self.app(repository), head_sha, branch=branch)
        workflow.runs += 1
        run_id = self._context.state.next_id("workflow_run")
        run = WorkflowRun(run_id, suite, workflow, workflow.runs, event, tested_sha, actor.user, now, pull)
        run.parked = self._needs_approval(run, actor)
        suite.workflow_run = repository.workflow_runs[run.id] = run
        if run.parked:
            suite.status, suite.conclusion = "completed", "action_required"
        self._events.publish(WorkflowRunChanged(run, "requested"))
        if run.parked and self.parked_is_completed:
            self._events.publish(CheckSuiteChanged(suite, "completed"))
            self._events.publish(WorkflowRunChanged(run, "completed"))
        return run

    def upload(self, run: WorkflowRun, name: str, content: bytes) -> Artifact:
        """Keep an archive of a run."""
        number = self._context.state.next_id("artifact")
        artifact = Artifact(number, name, content, self._context.clock.now())
        run.artifacts.append(artifact)
        return artifact

    def dispatch(self, repository: Repository, workflow: str, ref: str, inputs: Sequence[str], *, actor: Actor) -> None:
        """Run a workflow, named by its id or its file, on a branch. Raises NotFound or Invalid."""
        self._accounts.require_role(actor, repository, "write")
        found = [
            one
            for one in repository.workflows.values()
            if workflow in (str(one.id), one.path.rpartition("/")[2]) and one.id in self.dispatchers
        ]
        if not found or self._is_unregistered(repository, found[0], ref):
            raise NotFound()
        sha = repository.git.branch(ref.removeprefix("refs/heads/"))
        if sha is None:
            raise Invalid(f"No ref found for: {ref}")
        if found[0].disabled:
            raise Invalid("Cannot trigger a 'workflow_dispatch' on a disabled workflow")
        self.dispatchers[found[0].id](ref.removeprefix("refs/heads/"), sha, inputs, actor)

    def _is_unregistered(self, repository: Repository, workflow: Workflow, ref: str) -> bool:
        tip = repository.git.branch(ref.removeprefix("refs/heads/"))
        default = repository.git.branch(repository.default_branch)
        if self.dispatches_anywhere or tip is None or default is None:
            return False
        return workflow.path in repository.git.files(tip) and workflow.path not in repository.git.files(default)

    def run_of(self, repository: Repository, sha: str, name: str, *, event: str = "push") -> WorkflowRun:
        """The run of a workflow on a commit, begun when there is none; further jobs and attempts belong to it."""
        workflow = self.workflow(repository, name)
        for run in repository.workflow_runs.values():
            if run.workflow is workflow and run.head_sha == sha:
                return run
        owner = Actor(repository.owner)
        return self.begin(repository, workflow, event=event, head_sha=sha, tested_sha=sha, actor=owner)

    def rerun(self, run: WorkflowRun, *, actor: Actor, failed_only: bool = False) -> None:
        """Run the jobs again, all or those that failed. Raises Forbidden in GitHub's words.

        A parked run that is run again starts for the first time, without anybody's approval.
        """
        self._accounts.require_role(actor, run.repository, "write")
        jobs = run.current_jobs()
        if run.running:
            raise Forbidden("This workflow is already running")
        if self._context.clock.now() - run.created_at > _LONGEST_AGO:
            raise Forbidden("Unable to retry this workflow run because it was created over a month ago")
        if failed_only:
            # A run that died before it had jobs has none that failed.
            jobs = [job for job in jobs if job.conclusion not in {*PASSING, "startup_failure"}]
        if run.parked and not failed_only:
            self._release(run, actor)
            return
        if not jobs:
            raise Forbidden("This workflow run cannot be retried")
        run.attempt += 1
        run.started_at, run.rerun_by, run.announced = self._context.clock.now(), actor.user, "requested"
        self._reopen(run)
        run.awaited = {job.name for job in jobs}
        for job in jobs:
            self._again(job)

    def cancel(self, run: WorkflowRun, *, actor: Actor) -> None:
        """Stop what is under way: its jobs conclude `cancelled`. Raises Conflict for a run that is over (409)."""
        self._accounts.require_role(actor, run.repository, "write")
        if run.suite.status == "completed":
            raise Conflict("Cannot cancel a workflow run that is completed.")
        self.stop(run)

    def stop(self, run: WorkflowRun) -> None:
        """Cancel it, for any caller."""
        run.awaited.clear()
        for job in run.current_jobs():
            if job.status != "completed":
                self._checks.update_run(job, CheckRunFields(conclusion="cancelled"))
        if run.suite.status != "completed":
            run.suite.status, run.suite.conclusion = "completed", "cancelled"
            self._events.publish(CheckSuiteChanged(run.suite, "completed"))
            publish_progress(self._events, run)

    def stop_group(self, newer: WorkflowRun) -> None:
        """Cancel the other runs of a concurrency group, with `cancel-in-progress`; each job says so in an annotation.

        The words stand under every job of such a run (ncihtan/data-models #252, pex-tool/pex #1460), and name the group
        but no run.
        """
        for run in newer.repository.workflow_runs.values():
            if run is newer or run.group != newer.group or not run.running:
                continue
            message = f"Canceling since a higher priority waiting request for '{run.group}' exists"
            place = {"path": ".github", "start_line": 1, "end_line": 1, "annotation_level": "failure"}
            for job in run.current_jobs() if self.names_groups else ():
                if job.status != "completed":
                    job.annotations.append(place | {"message": message})
            self.stop(run)

    def end_without_jobs(self, run: WorkflowRun) -> None:
        """End a run whose file is invalid: it failed, and has neither a job nor a check run (`invalid_concludes`)."""
        run.suite.status, run.suite.conclusion = "completed", self.invalid_concludes
        run.suite.updated_at = self._context.clock.now()
        self._events.publish(CheckSuiteChanged(run.suite, "completed"))
        publish_progress(self._events, run)

    def approve(self, run: WorkflowRun, *, actor: Actor) -> None:
        """Start a parked run, as the button on its page does. Raises Forbidden when it waits for no approval."""
        self._accounts.require_role(actor, run.repository, "write")
        if run.parked is None:
            raise Forbidden("This run is not from a fork pull request or queued by the Actions bot.")
        self._release(run, actor)

    def _release(self, run: WorkflowRun, actor: Actor) -> None:
        run.parked, run.started_at, run.announced = None, self._context.clock.now(), "requested"
        self._reopen(run)
        self._events.publish(WorkflowRunApproved(run))

    def _reopen(self, run: WorkflowRun) -> None:
        run.suite.status, run.suite.conclusion = "queued", None
        run.suite.updated_at = self._context.clock.now()

    def _again(self, job: CheckRun) -> None:
        self._events.publish(CheckRerequested(job))

    def _needs_approval(self, run: WorkflowRun, actor: Actor) -> str | None:
        """Whose event, or whose pull request, waits for approval (docs: "Approving workflow runs from forks").

        An app's update of a branch of the same repository may be parked too, and then the approval endpoint refuses:
        only the button and a rerun help (found in several repositories' runbooks, by that refusal's text).
        """
        repository, pull = run.repository, run.pull
        if pull is None:
            return None
        people = [pull.author] + ([actor.user] if actor.app is None else [])
        if pull.from_fork and any(self._is_unknown(repository, one) for one in people):
            return "fork"
        return "app" if actor.app is not None and repository.app_approval else None

    def _is_unknown(self, repository: Repository, user: User) -> bool:
        if not repository.fork_approval or self._accounts.role(user, repository) in _RELIABLE:
            return False
        landed = any(pull.merged and pull.author is user for pull in repository.pulls.values())
        return repository.fork_approval == "all_external_contributors" or not landed
