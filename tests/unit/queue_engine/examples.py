"""Examples of what decisions are made from, with only what a test cares about named.

The world of the examples: pull request 1 against `main`, whose tip is `base-1`; its head `head-1` contains that tip.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from queue_engine.config.model import Policy
from queue_engine.domain.facts import (
    BranchRules,
    CheckReport,
    CheckState,
    Commit,
    Comparison,
    MergeMethod,
    Permission,
    PullRequest,
    RequiredCheck,
    WorkflowRun,
)
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.planner.actions import Facts, RunContext, Verdict
from queue_engine.planner.check_outcome import judge_checks
from tests.store import examples as stored
from tests.store.examples import changed

NOW = stored.NOW
POLICY = Policy()
REPOSITORY = stored.REPOSITORY
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

PENDING, UPDATING = EntryStatus.PENDING, EntryStatus.UPDATING
CHECKING, READY = EntryStatus.CHECKING, EntryStatus.READY
WAITING = (PENDING, UPDATING, CHECKING, READY)


def entry(**changes: Any) -> Entry:
    """Pull request 1 at the front, pending since NOW."""
    return changed(stored.entry(), **changes)


def judged_run(front: Entry, facts: Facts, policy: Policy, now: datetime) -> Verdict:
    """What the checks of this entry's run show."""
    return judge_checks(front.run, RunContext.of(front), facts, policy, now)


def pull(**changes: Any) -> PullRequest:
    """Pull request 1 as GitHub shows it: open, labeled, no draft, mergeable, at `head-1`."""
    plain = PullRequest(
        number=1,
        title="Change 1",
        author="ada",
        assignees=(),
        open=True,
        merged=False,
        draft=False,
        head_sha="head-1",
        head_repository=REPOSITORY.full_name,
        base_branch="main",
        mergeable=True,
        labels=frozenset({POLICY.trigger_label, "docs"}),
        merge_sha=None,
        maintainer_can_modify=True,
        methods=(MergeMethod.MERGE, MergeMethod.SQUASH, MergeMethod.REBASE),
    )
    return replace(plain, **changes)


def comparison(
    head: str = "head-1",
    *,
    behind: int = 0,
    base_tip: str = "base-1",
    merge_base: str | None = None,
    parents: tuple[str, ...] = ("work-1",),
) -> Comparison:
    """A head against the tip of `main`; up to date unless `behind`."""
    if merge_base is None:
        merge_base = "base-0" if behind else base_tip
    commit = Commit(sha=head, tree=f"tree-of-{head}", parents=parents)
    return Comparison(base_tip=base_tip, merge_base=merge_base, behind=behind, head=commit)


def rules(*required: str | RequiredCheck, **changes: Any) -> BranchRules:
    """Rules that require these checks, by name from any App or as given."""
    checks = frozenset(RequiredCheck(r, None) if isinstance(r, str) else r for r in required)
    return replace(BranchRules(checks, native_queue=False, linear_history=False), **changes)


def report(
    name: str = "ci",
    state: CheckState = CheckState.PASSED,
    *,
    app_id: int | None = 10,
    completed_at: datetime | None = None,
    conclusion: str | None = None,
    run: int | None = None,
    workflow: int | None = None,
) -> CheckReport:
    """The newest report of one check run; completed at NOW unless it is pending, and one that failed ran a minute.

    `run` is its number, `workflow` that of the run of GitHub Actions that it is a job of; its suite has it, too.
    """
    done = None if state is CheckState.PENDING else completed_at or NOW
    words = {CheckState.PENDING: "in_progress", CheckState.PASSED: "success", CheckState.FAILED: "failure"}
    word = conclusion or words[state]
    url, by_actions = f"https://ci.example/{name}", workflow is not None
    # A job that fails within seconds may not have started.
    began = done - MINUTE if done is not None and state is CheckState.FAILED else NOW
    return CheckReport(name, app_id, state, word, url, began, done, run, suite=workflow, by_actions=by_actions)


def workflow_run(number: int, head: str = "head-1", **changes: Any) -> WorkflowRun:
    """A run of the workflow `ci` that is under way; its suite has its number."""
    run = WorkflowRun(
        number,
        "ci",
        1,
        "pull_request",
        number,
        head,
        "in_progress",
        None,
        f"https://ci.example/{number}",
        begun_by="mona",
        last_run_by="mona",
        created_at=NOW,
    )
    return replace(run, **changes)


def facts_with(**facts: Any) -> Facts:
    """The facts of one pass; who queued it may queue it still."""
    return Facts(**({"permission": Permission.WRITE} | facts))
