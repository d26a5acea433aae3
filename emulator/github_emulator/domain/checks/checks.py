"""Check suites, check runs and commit statuses: how CI reports to GitHub."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from github_emulator.core.errors import Forbidden, Invalid
from github_emulator.domain.checks.progress import page, publish_progress
from github_emulator.events.check_events import CheckRerequested, CheckRunChanged, CheckSuiteChanged, StatusReported
from github_emulator.events.context import Context
from github_emulator.events.history import History
from github_emulator.state import Actor, App, CheckRun, CheckSuite, CommitStatus, Repository, WorkflowRun

_WORST_FIRST = (
    "startup_failure",
    "failure",
    "timed_out",
    "cancelled",
    "action_required",
    "stale",
    "success",
    "neutral",
    "skipped",
)
ACTIONS_SLUG = "github-actions"
"""The app under which GitHub Actions reports."""
_STATUSES = ("queued", "in_progress", "completed", "waiting", "requested", "pending")

PASSING = frozenset({"success", "skipped", "neutral"})
"""The conclusions that satisfy a required check."""


@dataclass(frozen=True, slots=True)
class CheckRunFields:
    """The fields of a check run that its app may set; None leaves a field as it is."""

    name: str | None = None
    status: str | None = None
    conclusion: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    external_id: str | None = None
    details_url: str | None = None
    output: dict[str, Any] | None = None


_NO_FIELDS = CheckRunFields()


class Checks:
    """Everything reported on commits. Runs belong to the suite of their app and commit, or of their workflow run.

    `same_name` says which of several runs of one app and name, in several suites, satisfy a required check: the
    `newest` (orchestkit #4177), or `all` of them (operator-workflows #1050). GitHub's page on protected branches only
    says that the result is ambiguous.
    """

    def __init__(self, context: Context, *, history: History) -> None:
        self._context = context
        self._events = context.events
        self._history = history
        self.same_name: Literal["newest", "all"] = "newest"

    def requested(self, repository: Repository, sha: str, branch: str, before: str | None) -> None:
        """GitHub's own part of a push: a suite for each app that may write checks, which alone gets the webhook.

        Actions opens its suites itself, one per workflow run.
        """
        for installation in self._context.state.installations_of(repository):
            if installation.permissions.get("checks") == "write" and installation.app.slug != ACTIONS_SLUG:
                self.suite(repository, installation.app, sha, branch=branch, before=before)

    def suite(
        self, repository: Repository, app: App, sha: str, *, branch: str | None = None, before: str | None = None
    ) -> CheckSuite:
        """The suite of an app on a commit, created (and `requested` of the app) when it is missing."""
        for suite in repository.suites_by_sha.get(sha, ()):
            if suite.app is app and suite.workflow_run is None:
                return suite
        return self.open_suite(repository, app, sha, branch=branch, before=before)

    def open_suite(
        self, repository: Repository, app: App, sha: str, *, branch: str | None = None, before: str | None = None
    ) -> CheckSuite:
        """A new suite, `requested` of its app."""
        branch = branch or _branch_at(repository, sha)
        now = self._context.clock.now()
        suite_id = self._context.state.next_id("check_suite")
        suite = CheckSuite(suite_id, app, repository, sha, branch, before, now, now)
        repository.suites[suite.id] = suite
        repository.suites_by_sha.setdefault(sha, []).append(suite)
        self._events.publish(CheckSuiteChanged(suite, "requested"))
        return suite

    def create_run(
        self,
        repository: Repository,
        *,
        app: App,
        name: str,
        head_sha: str,
        fields: CheckRunFields = _NO_FIELDS,
        workflow_run: WorkflowRun | None = None,
    ) -> CheckRun:
        """Report a new run. Raises Invalid for an unknown commit. A conclusion completes it.

        With `workflow_run` it is a job of that run of Actions, and its details are the job's page.
        """
        if repository.git.commit(head_sha) is None:
            raise Invalid(f"No commit found for SHA: {head_sha}")
        suite = workflow_run.suite if workflow_run else self.suite(repository, app, head_sha)
        run_id, now = self._context.state.next_id("check_run"), self._context.clock.now()
        started_at, external_id = fields.started_at or now, fields.external_id or ""
        run = CheckRun(run_id, suite, name, head_sha, "queued", None, now, started_at, external_id=external_id)
        if workflow_run is not None:
            run.workflow_run, run.attempt = workflow_run, workflow_run.attempt
            workflow_run.add(run)
            fields = replace(fields, details_url=f"{page(self._context.addresses, workflow_run)}/job/{run.id}")
        suite.runs.append(run)
        repository.runs[run.id] = run
        repository.runs_by_sha.setdefault(head_sha, []).append(run)
        _apply(run, fields)
        self._advance(run, fields.status or "queued", fields)
        self._events.publish(CheckRunChanged(run, "created"))
        self._follow(run)
        return run

    def update_run(self, run: CheckRun, fields: CheckRunFields) -> None:
        """Change the fields given. A conclusion completes the run.

        Another status does not reopen a completed run: its app creates a new run (Mergify #1989, lyft/atlantis #265,
        gitops-promoter #1002). A run that GitHub showed both ways (isaacs/github #1530) is from 2019.
        """
        was_completed = run.status == "completed"
        if was_completed and fields.conclusion is None:
            fields = replace(fields, status=None)
        run.name = fields.name or run.name
        run.started_at = fields.started_at or run.started_at
        run.external_id = run.external_id if fields.external_id is None else fields.external_id
        _apply(run, fields)
        self._history.changed()
        if fields.status or fields.conclusion:
            self._advance(run, fields.status or "completed", fields)
            if run.status != "completed" or not was_completed:
                self._follow(run)

    def rerequest(self, run: CheckRun, *, actor: Actor) -> None:
        """Ask the run's app to run it again. The run itself stays as it is; its suite waits. (GitHub's REST page.)

        Raises Forbidden when an app asks for another's run, Invalid for a job of Actions.
        """
        if actor.app is not None and actor.app is not run.app:
            raise Forbidden("Resource not accessible by integration")
        if run.workflow_run is not None:
            raise Invalid("This check run is not rerequestable")
        run.suite.status, run.suite.conclusion = "queued", None
        self._events.publish(CheckRunChanged(run, "rerequested", actor))
        self._events.publish(CheckRerequested(run))

    def rerequest_suite(self, suite: CheckSuite, *, actor: Actor) -> None:
        """Ask a suite's app to run all of it again: the webhook has the suite, its runs stay as they are."""
        suite.status, suite.conclusion = "queued", None
        self._events.publish(CheckSuiteChanged(suite, "rerequested", actor))
        for run in [run for run in suite.repository.runs_by_sha.get(suite.head_sha, ()) if run.suite is suite]:
            self._events.publish(CheckRerequested(run))

    def create_status(
        self,
        repository: Repository,
        sha: str,
        *,
        actor: Actor,
        state: str,
        context: str = "default",
        description: str | None = None,
        target_url: str | None = None,
    ) -> CommitStatus:
        """Report a commit status. Raises Invalid for an unknown commit or state."""
        if repository.git.commit(sha) is None:
            raise Invalid(f"No commit found for SHA: {sha}")
        if state not in {"error", "failure", "pending", "success"}:
            raise Invalid("Validation Failed", errors=[{"resource": "Status", "field": "state", "code": "custom"}])
        now = self._context.clock.now()
        status_id = self._context.state.next_id("status")
        user, app = actor.user, actor.app
        status = CommitStatus(status_id, sha, context, state, description, target_url, user, now, app)
        repository.statuses.setdefault(sha, []).append(status)
        self._events.publish(StatusReported(repository, actor, status))
        return status

    def runs(self, repository: Repository, sha: str) -> list[CheckRun]:
        """All runs on a commit, newest first."""
        return list(reversed(repository.runs_by_sha.get(sha, ())))

    def latest_runs(self, repository: Repository, sha: str) -> list[CheckRun]:
        """The newest run of each name within each suite, newest first (wait-on-check-action #156: within a suite)."""
        newest: dict[tuple[int, str], CheckRun] = {}
        for run in self.runs(repository, sha):
            newest.setdefault((run.suite.id, run.name), run)
        return list(newest.values())

    def required_runs(self, repository: Repository, sha: str, name: str, *, dispatched: bool) -> list[CheckRun]:
        """The runs that decide about a required check: of each app, as `same_name` says.

        `dispatched`: those of `workflow_dispatch` count.
        """
        found = [run for run in self.latest_runs(repository, sha) if run.name == name]
        found = [run for run in found if dispatched or not _is_dispatched(run)]
        if self.same_name == "all":
            return found
        return list({run.app.id: run for run in reversed(found)}.values())

    def suites(self, repository: Repository, sha: str) -> list[CheckSuite]:
        """All suites on a commit, oldest first."""
        return list(repository.suites_by_sha.get(sha, ()))

    def latest_statuses(self, repository: Repository, sha: str) -> list[CommitStatus]:
        """The newest status of each context."""
        return list({status.context: status for status in repository.statuses.get(sha, ())}.values())

    def combined_state(self, repository: Repository, sha: str) -> str:
        """All contexts in one word; `pending` when there are none, as GitHub has it."""
        states = {status.state for status in self.latest_statuses(repository, sha)}
        if states & {"error", "failure"}:
            return "failure"
        return "success" if states == {"success"} else "pending"

    def rollup(self, repository: Repository, sha: str, *, replaced: bool) -> str | None:
        """All check runs and statuses in one word of `StatusState`; None without any (ejoffe/spr #405).

        `replaced`: a failed run counts although a newer one replaced it.
        """
        runs, statuses = self.latest_runs(repository, sha), self.latest_statuses(repository, sha)
        counted = self.runs(repository, sha) if replaced else runs
        ended = {run.conclusion for run in counted if run.status == "completed"}
        if ended - PASSING or any(status.state in {"error", "failure"} for status in statuses):
            return "FAILURE"
        if any(run.status != "completed" for run in runs) or any(status.state == "pending" for status in statuses):
            return "PENDING"
        return "SUCCESS" if runs or statuses else None

    def _advance(self, run: CheckRun, status: str, fields: CheckRunFields) -> None:
        conclusion = fields.conclusion
        if status not in _STATUSES:
            raise Invalid(f'Invalid request.\n\n"{status}" is not a status.')
        if status == "completed" and conclusion is None:
            raise Invalid("Invalid request.\n\nA completed check run needs a conclusion.")
        run.status = "completed" if conclusion else status
        run.conclusion = conclusion
        run.completed_at = (fields.completed_at or self._context.clock.now()) if conclusion else None

    def _follow(self, run: CheckRun) -> None:
        suite = run.suite
        was_completed = suite.status == "completed"
        current = self._current(suite.runs)
        awaited = suite.workflow_run.awaited if suite.workflow_run else ()
        if not awaited and all(one.status == "completed" for one in current):
            conclusions = {one.conclusion for one in current}
            suite.status = "completed"
            suite.conclusion = next(word for word in (*_WORST_FIRST, *conclusions) if word in conclusions)
        else:
            started = any(one.status in {"in_progress", "completed"} for one in current)
            suite.status, suite.conclusion = ("in_progress" if started else "queued"), None
        suite.updated_at = self._context.clock.now()
        if run.status == "completed":
            self._events.publish(CheckRunChanged(run, "completed"))
        if suite.status == "completed" and not was_completed:
            self._events.publish(CheckSuiteChanged(suite, "completed"))
        if suite.workflow_run is not None:
            publish_progress(self._events, suite.workflow_run)

    def _current(self, runs: Sequence[CheckRun]) -> list[CheckRun]:
        return list({run.name: run for run in runs}.values())


def _apply(run: CheckRun, fields: CheckRunFields) -> None:
    run.details_url, output = fields.details_url or run.details_url, fields.output
    if output is not None:
        run.output = {key: output.get(key, run.output.get(key)) for key in ("title", "summary", "text")}
        run.annotations += output.get("annotations") or []


def _branch_at(repository: Repository, sha: str) -> str | None:
    branches = repository.git.branches().items()
    return next((name for name, tip in branches if tip == sha), None)


def _is_dispatched(run: CheckRun) -> bool:
    return run.workflow_run is not None and run.workflow_run.event == "workflow_dispatch"
