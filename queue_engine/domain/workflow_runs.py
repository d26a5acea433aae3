"""Runs of GitHub Actions, suites of checks, and the checks of other commits, as GitHub reports them."""

from dataclasses import dataclass
from datetime import datetime

from queue_engine.domain.facts import CheckReport

_PASSED = frozenset({"success", "skipped", "neutral", "cancelled", "stale", "action_required"})
"""Conclusions of a workflow run that do not say that it broke: without a job, these have other causes."""


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
    path: str = ""
    """The path of its workflow file; empty where GitHub's answer lacks it."""

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

    @property
    def broke(self) -> bool:
        """Whether the run ended and did not pass: `failure` or `startup_failure` where its file is invalid.

        Which of the two depends on the mistake (pytorch/test-infra #6329; hermes-agent #90686 and #111994).
        """
        return self.ended and self.conclusion not in _PASSED


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
    app_id: int | None = None
    created_at: datetime | None = None
    """GitHub opens a suite of each App that may write checks at every push ("Check suites", REST reference)."""
    own: bool = False
    """Whether it is IMQ's own."""

    @property
    def under_way(self) -> bool:
        """Whether the suite may still report. IMQ does not wait for its own.

        GitHub opens a suite for every App that may write checks; a suite without runs may remain queued for ever
        (oca-github-bot #141, sourcegraph #9058). Actions has a suite per workflow run, which always ends.
        """
        return self.status != "completed" and (self.runs > 0 or self.by_actions) and not self.own


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """What is known of a commit and of others, to tell why a check is absent on it."""

    message: str
    """The message of the commit itself; not trusted."""
    reports: tuple[CheckReport, ...]
    """The checks of the heads of the pull requests that changed last, and of the base branch's tip."""
