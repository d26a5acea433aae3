"""Messages about check runs, check suites, workflow runs and commit statuses."""

from collections.abc import Iterable
from typing import Any

from github_emulator import payloads
from github_emulator.events.check_events import CheckRunChanged, CheckSuiteChanged, StatusReported, WorkflowRunChanged
from github_emulator.payloads.source import Source
from github_emulator.webhooks.message import Composers, Message


def _check_run(source: Source, event: CheckRunChanged) -> Iterable[Message]:
    """A rerequest concerns the run's own app only."""
    only = event.run.app if event.action == "rerequested" else None
    yield Message("check_run", event.action, lambda: {"check_run": payloads.check_run(source, event.run)}, only)


def _check_suite(source: Source, event: CheckSuiteChanged) -> Iterable[Message]:
    """A request and a rerequest concern the suite's own app only."""

    def content() -> dict[str, Any]:
        return {"check_suite": payloads.check_suite(source, event.suite, webhook=True)}

    only = event.suite.app if event.action in {"requested", "rerequested"} else None
    yield Message("check_suite", event.action, content, only)


def _workflow_run(source: Source, event: WorkflowRunChanged) -> Iterable[Message]:
    def content() -> dict[str, Any]:
        run = event.run
        return {
            "workflow": payloads.workflow(source, run.repository, run.workflow),
            "workflow_run": payloads.workflow_run(source, run, webhook=True),
        }

    yield Message("workflow_run", event.action, content)


def _status(source: Source, event: StatusReported) -> Iterable[Message]:
    yield Message("status", None, lambda: payloads.status_event(source, event.repository, event.status))


COMPOSERS: Composers = {
    CheckRunChanged: _check_run,
    CheckSuiteChanged: _check_suite,
    WorkflowRunChanged: _workflow_run,
    StatusReported: _status,
}
