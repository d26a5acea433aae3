"""Facts that a decision uses, and the actions for the front entry that it can name."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from queue_engine.domain.facts import (
    BranchRules,
    CheckReport,
    Comparison,
    MergeMethod,
    Permission,
    PullRequest,
    Review,
    Snapshot,
)
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason
from queue_engine.domain.workflow_runs import CheckSuite, WorkflowRun


class FactKind(Enum):
    """Something that GitHub can be asked for."""

    PULL = "pull"
    SNAPSHOT = "snapshot"
    """The pull request, the head against its base, and the permission of who queued it, in one query."""
    COMPARISON = "comparison"
    """The entry's head, or the new one that an update made, against the base."""
    CHECKS = "checks"
    RULES = "rules"
    FRESH_RULES = "fresh_rules"
    """The rules and the snapshot, read again: remembered rules and merge methods are forgotten first."""
    CO_AUTHORS = "co_authors"
    PERMISSION = "permission"
    """What the person who queued it may do on the repository."""
    REVIEWS = "reviews"
    """Everybody's verdict, read only where GitHub does not check approvals when IMQ merges."""
    BASE_REPORTS = "base_reports"
    """The reports on the base's tip: whether a check that failed fails there, too."""
    WORKFLOW_RUNS = "workflow_runs"
    """The runs of GitHub Actions on the entry's head: what can be run again, and what awaits approval."""
    FORMER_REPORTS = "former_reports"
    """The reports on the head that was queued, before IMQ's own update."""
    SUITES = "suites"
    """The check suites of the entry's head."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts read in this pass."""

    pull: PullRequest | None = None
    snapshot: Snapshot | None = None
    """What stood around the pull request when the last snapshot was taken: reviews, conversations."""
    comparison: Comparison | None = None
    reports: tuple[CheckReport, ...] | None = None
    rules: BranchRules | None = None
    rules_fresh: bool = False
    """Rules and merge methods were asked of GitHub in this pass, and not remembered."""
    reviews: tuple[Review, ...] | None = None
    base_reports: tuple[CheckReport, ...] | None = None
    workflow_runs: tuple[WorkflowRun, ...] | None = None
    former_reports: tuple[CheckReport, ...] | None = None
    suites: tuple[CheckSuite, ...] | None = None
    ci_seen_at: datetime | None = None
    """When a check reported on another commit of the repository while this queue waited for one to start."""
    co_authors: tuple[str, ...] | None = None
    """Who else wrote its commits, as `CommandName <address>`, for the words of the commit that lands it."""
    permission: Permission | None = None
    """What the person who queued it may do on the repository now."""
    update_refused: str | None = None
    """GitHub's words, when it refused to update the branch in this pass."""
    update_forbidden: bool = False
    head_protected: bool = False
    """IMQ did not ask for the update: it would push to a protected branch."""
    """The refusal was a missing right, not a fact about the pull request."""
    landed_sha: str | None = None
    """The commit that GitHub answered the entry's merge with, if it was asked for and its answer is known."""
    merge_refused: str | None = None
    """GitHub's words, when it refused to merge in this pass."""
    refused_methods: frozenset[MergeMethod] = frozenset()
    """Merge methods that GitHub refused in this pass because they are not allowed here."""
    merge_denied: Reason | None = None
    """The reason that the refusal stands for where its status leaves no doubt that it is final."""


@dataclass(frozen=True, slots=True)
class ReadFact:
    """Ask GitHub for this fact, then decide again."""

    fact: FactKind


@dataclass(frozen=True, slots=True)
class Save:
    """Store the entry in this state, then decide again."""

    entry: Entry
    ended: datetime | None = None
    """When the last of its checks ended, as GitHub tells it, if this is the verdict that they have passed."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Store the entry and leave the queue alone until `until` or until something happens.

    `pending` are the reports under way, for people to read. `not_starting` are checks that nothing has started in all
    the time that they may take: the queue says so, until one starts.
    """

    entry: Entry
    until: datetime
    pending: tuple[CheckReport, ...] = ()
    not_starting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """Store the entry (status `updating`), then ask GitHub to update its branch."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Merge:
    """Store the entry (the merge noted as asked for), then merge its head."""

    entry: Entry
    method: MergeMethod
    title: str | None = None
    """The commit's title and body; None leaves them to GitHub."""
    body: str | None = None


@dataclass(frozen=True, slots=True)
class Landing:
    """The merge happened as this commit (None: GitHub does not say which): compare trees, then let the entry go."""

    landed_sha: str | None


@dataclass(frozen=True, slots=True)
class Dequeue:
    """The entry leaves its queue for this reason."""

    reason: Reason
    detail: str | None = None
    checks: tuple[CheckReport, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """Store the entry, which keeps its consent and its place in order; its queue goes on without it for now."""

    entry: Entry
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Rerun:
    """Store the entry (the rerun noted as asked for), then have these failed checks run again on the same head."""

    entry: Entry
    checks: tuple[CheckReport, ...]


@dataclass(frozen=True, slots=True)
class HoldBase:
    """Store the entry, which keeps its place, and let the queue wait for its base to pass this check again."""

    entry: Entry
    check: CheckReport
    tip: str


Action = ReadFact | Save | Wait | Update | Merge | Landing | Dequeue | Block | Rerun | HoldBase
