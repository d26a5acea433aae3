"""Endpoints of GitHub Actions: workflow runs listed, run again, cancelled, approved, and their jobs."""

from typing import Any

from github_emulator import payloads
from github_emulator.callers.errors import Refusal, not_found
from github_emulator.core.errors import Forbidden
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes
from github_emulator.state import WorkflowRun
from github_emulator.website.storage import signature

routes = Routes("actions/workflow-runs")
_READ, _WRITE = "actions=read", "actions=write"


@routes.repository("GET", "/actions/runs", _READ, docs="#list-workflow-runs-for-a-repository")
def list_runs(call: Call) -> Answer:
    """The runs of all workflows, newest first. `status` names a status or a conclusion, `created` a first day."""
    runs = [run for run in reversed(call.repository.workflow_runs.values()) if _is_asked_for(call, run)]
    return call.counted_page("workflow_runs", runs, lambda run: payloads.workflow_run(call.github.source, run))


@routes.repository("GET", "/actions/runs/{run_id}", _READ, docs="#get-a-workflow-run")
def get(call: Call) -> Answer:
    """One run."""
    return Answer(payloads.workflow_run(call.github.source, _run(call)))


@routes.repository(
    "GET", "/actions/runs/{run_id}/jobs", _READ, docs="actions/workflow-jobs#list-jobs-for-a-workflow-run"
)
def list_jobs(call: Call) -> Answer:
    """The jobs of the newest attempt of each, or with `filter=all` of all attempts."""
    run = _run(call)
    jobs = run.jobs if call.query.get("filter", "latest") == "all" else run.current_jobs()
    return call.counted_page("jobs", jobs, lambda job: payloads.job(call.github.source, run, job))


@routes.repository("GET", "/actions/jobs/{job_id}", _READ, docs="actions/workflow-jobs#get-a-job-for-a-workflow-run")
def get_job(call: Call) -> Answer:
    """One job."""
    check = call.repository.runs.get(call.number("job_id"))
    if check is None or check.workflow_run is None:
        raise not_found()
    return Answer(payloads.job(call.github.source, check.workflow_run, check))


@routes.repository(
    "GET",
    "/actions/runs/{run_id}/artifacts",
    _READ,
    docs="actions/artifacts#list-workflow-run-artifacts",
)
def list_artifacts(call: Call) -> Answer:
    """The archives of all attempts."""
    run = _run(call)
    return call.counted_page("artifacts", run.artifacts, lambda each: payloads.artifact(call.github.source, run, each))


@routes.repository(
    "GET",
    "/actions/artifacts/{artifact_id}/{archive_format}",
    _READ,
    docs="actions/artifacts#download-an-artifact",
)
def download(call: Call) -> Answer:
    """Redirects to a signed address in GitHub's storage (arduino/report-size-deltas #83); 410 once it has expired."""
    number = call.number("artifact_id")
    every = (each for run in call.repository.workflow_runs.values() for each in run.artifacts)
    found = next((each for each in every if each.id == number), None)
    if found is None or call.params["archive_format"] != "zip":
        raise not_found()
    if found.expired:
        raise Refusal(410, "Artifact has expired")
    address = f"{call.github.addresses.html_url}/storage/{call.repository.id}/{number}?sig={signature(found)}"
    return Answer(None, 302, {"Location": address})


@routes.repository(
    "GET",
    "/actions/concurrency_groups/{concurrency_group_name}",
    _READ,
    docs="actions/concurrency-groups#get-a-concurrency-group-for-a-repository",
)
def get_group(call: Call) -> Answer:
    """The runs under way of a concurrency group; 404 where there is none, or the endpoint is not offered."""
    name = call.params["concurrency_group_name"]
    runs = [run for run in call.repository.workflow_runs.values() if run.group == name and run.running]
    if not runs or not call.github.actions.shows_groups:
        raise not_found()
    return Answer(payloads.concurrency_group(call.github.source, call.repository, name, runs))


@routes.repository("POST", "/actions/runs/{run_id}/rerun", _WRITE, role="write", docs="#re-run-a-workflow")
def rerun(call: Call) -> Answer:
    """Starts every job of a finished run again."""
    call.github.actions.rerun(_run(call), actor=call.actor)
    return _empty(201)


@routes.repository(
    "POST",
    "/actions/runs/{run_id}/rerun-failed-jobs",
    _WRITE,
    role="write",
    docs="#re-run-failed-jobs-from-a-workflow-run",
)
def rerun_failed_jobs(call: Call) -> Answer:
    """Starts the failed jobs of a finished run again."""
    call.github.actions.rerun(_run(call), actor=call.actor, failed_only=True)
    return _empty(201)


@routes.repository("POST", "/actions/runs/{run_id}/cancel", _WRITE, role="write", docs="#cancel-a-workflow-run")
def cancel(call: Call) -> Answer:
    """Stops a run that is not over; 409 for one that is."""
    call.github.actions.cancel(_run(call), actor=call.actor)
    return _empty(202)


@routes.repository(
    "POST",
    "/actions/runs/{run_id}/approve",
    _WRITE,
    role="write",
    docs="#approve-a-workflow-run-for-a-fork-pull-request",
)
def approve(call: Call) -> Answer:
    """Starts a run of a fork's pull request that waits for approval; every other run is refused."""
    run = _run(call)
    if run.parked == "app":
        raise Forbidden("This run is not from a fork pull request or queued by the Actions bot.")
    call.github.actions.approve(run, actor=call.actor)
    return _empty(201)


@routes.repository(
    "POST",
    "/actions/workflows/{workflow_id}/dispatches",
    _WRITE,
    role="write",
    docs="actions/workflows#create-a-workflow-dispatch-event",
)
def dispatch(call: Call) -> Answer:
    """Runs a workflow on a branch; the answer names no run (benc-uk/workflow-dispatch; docs: `return_run_details`)."""
    inputs: dict[str, Any] = call.take("inputs", dict, {})
    call.github.actions.dispatch(
        call.repository, call.params["workflow_id"], call.take("ref", str), list(inputs), actor=call.actor
    )
    return Answer(None, 204)


def _is_asked_for(call: Call, run: WorkflowRun) -> bool:
    found = {
        "head_sha": run.head_sha,
        "branch": run.suite.head_branch,
        "event": run.event,
        "actor": run.actor.login,
        "check_suite_id": str(run.suite.id),
    }
    if any(call.query.get(name, value) != value for name, value in found.items()):
        return False
    created = call.query.get("created", "")
    if created.startswith(">=") and run.created_at.isoformat() < created.removeprefix(">="):
        return False
    status = call.query.get("status")
    if status == "action_required" and not call.github.actions.status_finds_parked:
        return False
    return status is None or status in {run.suite.status, run.suite.conclusion}


def _run(call: Call) -> WorkflowRun:
    run = call.repository.workflow_runs.get(call.number("run_id"))
    if run is None:
        raise not_found()
    return run


def _empty(status: int) -> Answer:
    empty: dict[str, Any] = {}
    return Answer(empty, status)
