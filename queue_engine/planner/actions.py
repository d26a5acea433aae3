"""The facts by which `decide` judges the front entry, and the actions that it returns."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from queue_engine.domain.consent import HeadConsent
from queue_engine.domain.facts import (
    BranchRules,
    CheckReport,
    CheckSuite,
    CommitFacts,
    CommitHistory,
    Comparison,
    FailingCheck,
    HeadPush,
    MergeCommit,
    MergeMethod,
    Permission,
    PullRequest,
    Review,
    Snapshot,
    WorkflowRun,
)
from queue_engine.domain.model import Entry, Repository, UnmetRequirement
from queue_engine.domain.port import PendingMerge
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import Run
from queue_engine.rules.checks import BaseChange


class FactKind(Enum):
    """Something that GitHub can be asked for."""

    PULL = "pull"
    SNAPSHOT = "snapshot"
    """The pull request, its head compared with its base, and the permission of the person who queued it: one query."""
    COMPARISON = "comparison"
    """The entry's head, or the new head that an update made, compared with the base."""
    BASE_CHANGE = "base_change"
    """The paths that changed on the base since the commit of it that was tested."""
    HEAD_PUSHES = "head_pushes"
    """The moves of the head branch, where a bot may have pushed to its own pull request."""
    CHECKS = "checks"
    RULES = "rules"
    FRESH_RULES = "fresh_rules"
    """The rules and the snapshot, read from GitHub after IMQ dropped the cached rules and merge methods."""
    LOST_UPDATE = "lost_update"
    """Whether an unknown head is an update of IMQ's that a restored database does not know."""
    COMMIT_TEXTS = "commit_texts"
    PERMISSION = "permission"
    """The permission of the person who queued the pull request."""
    REVIEWS = "reviews"
    """The newest review of each person, read only where GitHub does not check approvals when IMQ merges."""
    BASE_REPORTS = "base_reports"
    """The reports on the base's tip, which show whether a failed check fails there, too."""
    WORKFLOW_RUNS = "workflow_runs"
    """The runs of GitHub Actions on the entry's head: which can be run again, and which await approval."""
    FORMER_REPORTS = "former_reports"
    """The reports on the head that was queued, before IMQ's own update."""
    CANCELLED_FOR = "cancelled_for"
    """The concurrency group for which GitHub cancelled a job of the entry's head."""
    NOT_STARTED = "not_started"
    """Why GitHub did not start a job of the entry's head that failed within seconds."""
    SUITES = "suites"
    """The check suites of the entry's head."""
    RECENT_COMMITS = "recent_commits"
    """The message of the entry's head, and the required checks of other commits."""
    BROKEN_ON_BASE = "broken_on_base"
    """Which workflows whose runs broke are as the base branch has them, or break there, too."""
    PENDING_MERGE = "pending_merge"
    """The merge that GitHub makes in the background."""


OF_PULL = frozenset({FactKind.PULL, FactKind.SNAPSHOT})
"""Facts that contain the pull request itself."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts read in this pass."""

    pull: PullRequest | None = None
    snapshot: Snapshot | None = None
    """The newest snapshot, with reviews and conversations."""
    comparison: Comparison | None = None
    base_change: BaseChange | None = None
    head_pushes: tuple[HeadPush, ...] | None = None
    ledger: tuple[HeadConsent, ...] | None = None
    """The consents of the entry, read with the pushes to its head."""
    lost_update: bool | None = None
    """Whether GitHub proves that the unknown head of the pull request is IMQ's own update."""
    reports: tuple[CheckReport, ...] | None = None
    rules: BranchRules | None = None
    rules_fresh: bool = False
    """Whether this pass read rules and merge methods from GitHub, not from the cache."""
    reviews: tuple[Review, ...] | None = None
    base_reports: tuple[CheckReport, ...] | None = None
    workflow_runs: tuple[WorkflowRun, ...] | None = None
    former_reports: tuple[CheckReport, ...] | None = None
    cancelled_for: tuple[str, ...] | None = None
    """The group, then its runs under way; empty where GitHub names none."""
    not_started: str | None = None
    """GitHub's message if it did not start a job; empty if the job ran."""
    suites: tuple[CheckSuite, ...] | None = None
    others: CommitFacts | None = None
    broken_on_base: frozenset[int] | None = None
    """The workflows that broke on the base's own account, by their ids; None: not read."""
    ci_active_at: datetime | None = None
    """When a check reported on another commit of the repository, while this queue waited for a check to start."""
    commit_texts: CommitHistory | None = None
    """What its commits say, for the message of the commit that lands it."""
    permission: Permission | None = None
    """The present permission of the person who queued the pull request."""
    update_refused: str | None = None
    """GitHub's message, if GitHub refused to update the branch in this pass."""
    update_forbidden: bool = False
    """Whether GitHub refused the update because IMQ lacks a permission, not because of the pull request."""
    head_protected: bool = False
    """Whether IMQ sent no update request, because the update would push to a protected branch."""
    landed_sha: str | None = None
    """The commit that landed the entry, by GitHub's answer to the merge request; None if there is no such answer."""
    pending_merge: PendingMerge | None = None
    """The merge that GitHub makes in the background; None: not read."""
    merge_refused: str | None = None
    """GitHub's message, if GitHub refused to merge in this pass."""
    refused_methods: frozenset[MergeMethod] = frozenset()
    """Merge methods that GitHub refused in this pass because repository or branch do not allow them."""
    merge_denied: Reason | None = None
    """The reason of a refused merge whose HTTP status says that a retry cannot succeed."""

    @property
    def head_landed(self) -> bool:
        """Whether the base contains the head, although GitHub still shows the pull request as open.

        Somebody pushed it, or it landed as a part of another pull request. GitHub notices that seconds to hours later
        (bors-ng #1605). An update until then may close the pull request as not merged (Mergify #4718).
        """
        if self.comparison is not None:
            return self.comparison.head_landed
        return self.snapshot is not None and self.snapshot.ahead == 0


@dataclass(frozen=True, slots=True)
class RunContext:
    """Whose run it is: what the judgement of its checks needs beside the run."""

    repository: Repository
    base_branch: str
    known_since: datetime
    """When IMQ knew the head of the pull request."""
    fixes_base: bool = False
    """Whether it may land while the base is red."""
    is_update: bool = False
    """Whether IMQ made the candidate of another head, whose checks are expected on the candidate."""

    @classmethod
    def of(cls, entry: Entry) -> "RunContext":
        """Return an entry whose own head, or IMQ's update of it, is the candidate."""
        is_update = entry.head_sha != entry.queued_head
        return cls(entry.repository, entry.base_branch, entry.enqueued_at, entry.fixes_base, is_update)


@dataclass(frozen=True, slots=True)
class ReadFact:
    """Read this fact from GitHub, then decide again."""

    fact: FactKind


@dataclass(frozen=True, slots=True)
class Save:
    """Store the entry in this state, then decide again."""

    entry: Entry
    ended: datetime | None = None
    """When the last of its checks completed by GitHub's clock, if this change says that they passed."""


@dataclass(frozen=True, slots=True)
class SaveRun:
    """Store the run in this state, then judge its checks again."""

    run: Run


@dataclass(frozen=True, slots=True)
class Ready:
    """The checks of the run passed; `ended` is when the last of them completed by GitHub's clock."""

    run: Run
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """The head lacks required checks that other commits have."""

    detail: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Store the run; the queue is not due before `until`, unless an event wakes it.

    `pending` are the checks that run, which the comment shows. `not_starting` are checks that did not start within
    their time limit: they block the queue until a check starts. `never` names required checks that no commit has: they
    block it until one reports. With `failing` GitHub has not accepted a request yet that IMQ repeats: reads that
    succeed meanwhile end no outage.
    """

    run: Run
    until: datetime
    pending: tuple[CheckReport, ...] = ()
    not_starting: tuple[str, ...] = ()
    never: str | None = None
    failing: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    """Store the entry with status `updating`, then send the request to update its branch."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Merge:
    """Store the entry with the instant of the merge request, then send the request to merge its head."""

    entry: Entry
    method: MergeMethod
    message: MergeCommit | None = None
    in_background: bool = False
    """Whether GitHub merges in the background, as it merges the pull requests of a stack."""


@dataclass(frozen=True, slots=True)
class Landing:
    """GitHub merged the entry as this commit, None if unknown: compare the trees, then remove the entry."""

    landed_sha: str | None


@dataclass(frozen=True, slots=True)
class Dequeue:
    """Dequeue the entry for this reason."""

    reason: Reason
    detail: str | None = None
    checks: tuple[CheckReport, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """Store the entry as blocked: it keeps its consent and its position in the order, and the queue proceeds."""

    entry: Entry
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Unmet:
    """Store the entry outside its queue, with its consent, until its pull request has what it lacks."""

    entry: Entry
    unmet: tuple[UnmetRequirement, ...]


@dataclass(frozen=True, slots=True)
class Rerun:
    """Store the run with the instant of the rerun request, then have these failed checks of its candidate run again."""

    run: Run
    checks: tuple[CheckReport, ...]


@dataclass(frozen=True, slots=True)
class RefusedJobs:
    """GitHub started no job of the candidate, for this reason: the queue waits, and tries these checks again."""

    detail: str
    again: tuple[CheckReport, ...] = ()


@dataclass(frozen=True, slots=True)
class HoldBase:
    """Store the run, whose entry keeps its position, and hold the queue until the base passes this check again."""

    run: Run
    check: CheckReport
    tip: str
    failing: tuple[FailingCheck, ...] = ()


@dataclass(frozen=True, slots=True)
class HoldLanding:
    """Merge this member of a train not now, nor those after it: the obstacle is not the pull request itself."""

    detail: str
    tip: str | None = None
    """The base's tip, if somebody else moved the base."""
    reason: Reason | None = None
    """What GitHub refuses on the base, if its message says that: waiting would not help any member."""


Step = Save | Wait | Update | Merge | Landing | Dequeue | Block | Unmet | Rerun | RefusedJobs | HoldBase | HoldLanding
Action = ReadFact | Step

Verdict = ReadFact | SaveRun | Ready | Wait | Rerun | RefusedJobs | HoldBase | Absent | Dequeue
"""What the checks of a run show."""
