"""How long GitHub takes for what it does behind the scenes."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(slots=True)
class Timings:
    """Durations of the sandbox's clock; change them any time."""

    mergeable: timedelta = timedelta(seconds=0.1)
    """From asking for `mergeable` to knowing it."""
    update_branch: timedelta = timedelta(seconds=0.2)
    """From 202 to the new head."""
    webhook: timedelta = timedelta(0)
    """From what happened to the webhook's departure."""
    workflow_run: timedelta = timedelta(0)
    """From an event to its workflow runs."""
    job_start: timedelta = timedelta(0)
    """How long a job of Actions stays queued for want of a runner; up to a day on GitHub (docs: "Usage limits")."""
    base_settles: timedelta = timedelta(0)
    """How long after a push a merge of a pull request whose `mergeable` is older answers "Base branch was modified"."""
