"""Runs of GitHub Actions and suites of checks, as GitHub reports them."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """A run of a workflow of GitHub Actions on one commit; its check suite holds its jobs."""

    id: int
    name: str
    workflow: int
    event: str
    suite: int
    head_sha: str
    status: str
    """GitHub's value: queued, in_progress, completed, waiting, ..."""
    conclusion: str | None
    url: str | None
    begun_by: str
    last_run_by: str
    """Differs from `begun_by` after a rerun by somebody else."""
    created_at: datetime
    branch: str = ""
    """The branch that was pushed or dispatched on, or the head branch of the pull request."""

    @property
    def ended(self) -> bool:
        """Whether the run has ended, or waits for approval."""
        return self.status == "completed"

    @property
    def awaits_approval(self) -> bool:
        """Whether the run waits until a maintainer approves it.

        Such a run is `completed` with the conclusion `action_required` and has no jobs (claude-mem #3593, open-design
        #2683); webhooks have shown `waiting` and `action_required` as its status (pytorch/test-infra #8028).
        """
        return "action_required" in {self.status, self.conclusion} or self.status == "waiting"

    @property
    def under_way(self) -> bool:
        """Whether the run may still create jobs."""
        return not self.ended and not self.awaits_approval


@dataclass(frozen=True, slots=True)
class CheckSuite:
    """All check runs of one App on one commit."""

    app: str
    """The App's name."""
    by_actions: bool
    status: str
    conclusion: str | None
    runs: int
    """The number of its check runs."""

    @property
    def under_way(self) -> bool:
        """Whether the suite may still report.

        GitHub opens a suite for every App that may write checks; a suite without runs may remain queued for ever
        (oca-github-bot #141, sourcegraph #9058). Actions has a suite per workflow run, which always ends.
        """
        return self.status != "completed" and (self.runs > 0 or self.by_actions)
