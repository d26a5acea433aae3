"""How far a workflow run of GitHub Actions has come."""

from github_emulator.core.addresses import Addresses
from github_emulator.events.check_events import WorkflowRunChanged
from github_emulator.events.event_bus import EventBus
from github_emulator.state import WorkflowRun

_ORDER = ("requested", "in_progress", "completed")


def page(addresses: Addresses, run: WorkflowRun) -> str:
    """The run's page."""
    return f"{addresses.html_url}/{run.repository.full_name}/actions/runs/{run.id}"


def publish_progress(events: EventBus, run: WorkflowRun) -> None:
    """Publish the step that a run has reached, each step once."""
    if run.suite.status in _ORDER[_ORDER.index(run.announced) + 1 :]:
        run.announced = run.suite.status
        events.publish(WorkflowRunChanged(run, run.announced))
