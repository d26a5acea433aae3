"""Endpoints of GitHub Actions: running workflow runs again."""

from typing import Any

from sandbox.rest.call import Call
from sandbox.rest.errors import not_found
from sandbox.rest.routing import Answer, Routes
from sandbox.state import WorkflowRun

routes = Routes("actions/workflow-runs")
_WRITE = "actions=write"


@routes.repository("POST", "/actions/runs/{run_id}/rerun", _WRITE, role="write")
def rerun(call: Call) -> Answer:
    """Starts every job of a finished run again."""
    call.github.actions.rerun(_run(call), actor=call.actor)
    return _empty()


@routes.repository("POST", "/actions/runs/{run_id}/rerun-failed-jobs", _WRITE, role="write")
def rerun_failed_jobs(call: Call) -> Answer:
    """Starts the failed jobs of a finished run again."""
    call.github.actions.rerun(_run(call), actor=call.actor, failed_only=True)
    return _empty()


def _run(call: Call) -> WorkflowRun:
    run = call.repository.workflow_runs.get(call.number("run_id"))
    if run is None:
        raise not_found()
    return run


def _empty() -> Answer:
    empty: dict[str, Any] = {}
    return Answer(empty, 201)
