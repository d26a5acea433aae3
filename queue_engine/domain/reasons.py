"""Reason codes: why an entry left, IMQ refused a pull request, or a queue was paused; the outcome and the next actor.

`notifications.texts` has the sentences for each code; a test asserts that both are complete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from queue_engine.domain.errors import Disorder, GitHubError, Refused


class ReasonActor(StrEnum):
    """Who has to act after an entry left."""

    AUTHOR = "author"
    MAINTAINER = "maintainer"
    OPERATOR = "operator"
    NONE = "none"


class Outcome(StrEnum):
    """How an entry left its queue, or what holds it there."""

    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    HELD = "held"
    PAUSED = "paused"
    SEQUENTIAL = "sequential"
    """The entry stays: its queue tests one pull request after the other, instead of trains."""


class WaitKind(StrEnum):
    """What an entry waited for: the parts of the time in its queue."""

    CAPACITY = "capacity"
    """Others were ahead."""
    CHECKS = "checks"
    """Its own checks ran."""
    PAUSED = "paused"
    """A pause, a freeze, or another blocker than a red base held the queue."""
    BASE_RED = "base_red"
    """The base branch failed its own checks."""
    OTHER = "other"
    """Updates, merges, polls of GitHub, and GitHub's faults."""


class Reason(StrEnum):
    """A reason code: stable, stored in the timeline, named in logs and pages."""

    # Consent withdrawn or changed
    LABEL_REMOVED = "label_removed"
    LABEL_DELETED = "label_deleted"
    UNQUEUED = "unqueued"
    CLOSED = "closed"
    BASE_DELETED = "base_deleted"
    MERGED_ELSEWHERE = "merged_elsewhere"
    LANDED_WITH_ANOTHER = "landed_with_another"
    DRAFT = "draft"
    BASE_CHANGED = "base_changed"
    BASE_CHANGED_AT_MERGE = "base_changed_at_merge"
    BASE_REWRITTEN = "base_rewritten"
    HEAD_CHANGED = "head_changed"
    UPDATED_FOR_ANOTHER = "updated_for_another"
    PERMISSION_LOST = "permission_lost"
    NOT_QUEUED = "not_queued"
    SHADOW_MODE = "shadow_mode"
    # At admission
    LABEL_WITHOUT_RIGHT = "label_without_right"
    LABEL_NOT_RECEIVED = "label_not_received"
    QUEUE_FULL = "queue_full"
    RUNNERS_BUSY = "runners_busy"
    FORK_DELETED = "fork_deleted"
    NOT_ALLOWED_TO_QUEUE = "not_allowed_to_queue"
    BRANCH_NOT_SERVED = "branch_not_served"
    BLOCKED_BY_LABEL = "blocked_by_label"
    BLOCKED_BY_TITLE = "blocked_by_title"
    BLOCKED_BY_AUTHOR = "blocked_by_author"
    BLOCKED_BY_FILES = "blocked_by_files"
    LABEL_MISSING = "label_missing"
    REVIEW_REQUESTED = "review_requested"
    HOLD_TIMED_OUT = "hold_timed_out"
    NOT_READY_TIMED_OUT = "not_ready_timed_out"
    ASKED_TOO_OFTEN = "asked_too_often"
    # Faults of the change, or likely ones
    CONFLICT = "conflict"
    CHECKS_FAILED = "checks_failed"
    CHECKS_TIMED_OUT = "checks_timed_out"
    NO_CHECKS = "no_checks"
    CHECKS_BROKE_DOWN = "checks_broke_down"
    CHECKS_NOT_REPEATED = "checks_not_repeated"
    CHECK_ABSENT = "check_absent"
    TESTED_ON_ANOTHER_BASE = "tested_on_another_base"
    WORKFLOW_WITHOUT_JOBS = "workflow_without_jobs"
    WORKFLOWS_UNAPPROVED = "workflows_unapproved"
    BASE_STAYS_RED = "base_stays_red"
    # Refused by GitHub or its rules
    MERGEABLE_UNKNOWN = "mergeable_unknown"
    UPDATE_REFUSED = "update_refused"
    HEAD_PROTECTED = "head_protected"
    HEAD_LINEAR = "head_linear"
    UPDATE_TIMED_OUT = "update_timed_out"
    BASE_KEEPS_MOVING = "base_keeps_moving"
    REFUSED_BY_RULES = "refused_by_rules"
    NATIVE_QUEUE_REQUIRED = "native_queue_required"
    OWN_CHECK_REQUIRED = "own_check_required"
    AUTO_MERGE_ENABLED = "auto_merge_enabled"
    APPROVAL_MISSING = "approval_missing"
    CHANGES_REQUESTED = "changes_requested"
    CODE_OWNER_MISSING = "code_owner_missing"
    CONVERSATIONS_UNRESOLVED = "conversations_unresolved"
    SIGNATURES_MISSING = "signatures_missing"
    LINEAR_HISTORY_REQUIRED = "linear_history_required"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    COMMIT_RULES = "commit_rules"
    METHODS_CONTRADICT = "methods_contradict"
    REBASE_IMPOSSIBLE = "rebase_impossible"
    BRANCH_LOCKED = "branch_locked"
    PUSH_RESTRICTED = "push_restricted"
    RULESET_BYPASSED = "ruleset_bypassed"
    DEPLOYMENT_MISSING = "deployment_missing"
    WORKFLOWS_PERMISSION = "workflows_permission"
    STACKED = "stacked"
    STACKED_ABOVE = "stacked_above"
    STACK_LANDED = "stack_landed"
    STACK_ENDED = "stack_ended"
    HEAD_SHARED = "head_shared"
    DEPENDENCY_OPEN = "dependency_open"
    DEPENDENCY_HIDDEN = "dependency_hidden"
    DEPENDENCY_ENDED = "dependency_ended"
    DEPENDENCY_CYCLE = "dependency_cycle"
    SET_WAITING = "set_waiting"
    SET_ENDED = "set_ended"
    FORK_NOT_EDITABLE = "fork_not_editable"
    FORK_OF_ORGANISATION = "fork_of_organisation"
    PERMISSION_MISSING = "permission_missing"
    REPOSITORY_ARCHIVED = "repository_archived"
    REPOSITORY_GONE = "repository_gone"
    GITHUB_TROUBLE = "github_trouble"
    # Faults of IMQ
    INTERNAL_ERROR = "internal_error"
    # Pauses of a whole queue
    TREE_MISMATCH = "tree_mismatch"
    INVARIANT_BROKEN = "invariant_broken"
    PAUSED_BY_HAND = "paused_by_hand"
    FROZEN = "frozen"
    GITHUB_REFUSES = "github_refuses"
    BASE_RED = "base_red"
    TIP_UNTESTED = "tip_untested"
    CHECKS_NOT_STARTING = "checks_not_starting"
    CHECK_NEVER_REPORTED = "check_never_reported"
    MISCONFIGURED = "misconfigured"
    # Why a queue runs no trains
    CI_SILENT_ON_CANDIDATES = "ci_silent_on_candidates"
    CI_SKIPPED_ON_CANDIDATES = "ci_skipped_on_candidates"
    CI_UNPROVEN_ON_CANDIDATES = "ci_unproven_on_candidates"
    CHECK_FAILS_ON_CANDIDATES = "check_fails_on_candidates"
    CANDIDATES_REFUSED = "candidates_refused"
    CANDIDATE_LANDING_REFUSED = "candidate_landing_refused"


@dataclass(frozen=True, slots=True)
class ReasonFacts:
    """The outcome of a reason, who has to act next, and whether the trigger label comes off."""

    outcome: Outcome
    next_actor: ReasonActor
    label_off: bool = True
    author_helps: bool = False
    """Whether the author and the assignees can find the cause as well as the actor can."""

    @property
    def mentions_author(self) -> bool:
        """Whether the comment mentions the author and the assignees."""
        return self.author_helps or self.next_actor is ReasonActor.AUTHOR


REASONS: Mapping[Reason, ReasonFacts] = {
    Reason.LABEL_REMOVED: ReasonFacts(Outcome.CANCELLED, ReasonActor.NONE, label_off=False),
    Reason.LABEL_DELETED: ReasonFacts(Outcome.CANCELLED, ReasonActor.NONE, label_off=False),
    Reason.UNQUEUED: ReasonFacts(Outcome.CANCELLED, ReasonActor.NONE),
    Reason.CLOSED: ReasonFacts(Outcome.CANCELLED, ReasonActor.NONE),
    Reason.BASE_DELETED: ReasonFacts(Outcome.CANCELLED, ReasonActor.AUTHOR),
    Reason.MERGED_ELSEWHERE: ReasonFacts(Outcome.CANCELLED, ReasonActor.NONE),
    Reason.LANDED_WITH_ANOTHER: ReasonFacts(Outcome.CANCELLED, ReasonActor.NONE),
    Reason.DRAFT: ReasonFacts(Outcome.CANCELLED, ReasonActor.AUTHOR),
    Reason.BASE_CHANGED: ReasonFacts(Outcome.CANCELLED, ReasonActor.AUTHOR),
    Reason.BASE_CHANGED_AT_MERGE: ReasonFacts(Outcome.CANCELLED, ReasonActor.MAINTAINER),
    Reason.BASE_REWRITTEN: ReasonFacts(Outcome.CANCELLED, ReasonActor.AUTHOR),
    Reason.HEAD_CHANGED: ReasonFacts(Outcome.CANCELLED, ReasonActor.AUTHOR),
    Reason.UPDATED_FOR_ANOTHER: ReasonFacts(Outcome.CANCELLED, ReasonActor.AUTHOR),
    Reason.PERMISSION_LOST: ReasonFacts(Outcome.CANCELLED, ReasonActor.MAINTAINER),
    Reason.NOT_QUEUED: ReasonFacts(Outcome.CANCELLED, ReasonActor.NONE, label_off=False),
    Reason.SHADOW_MODE: ReasonFacts(Outcome.CANCELLED, ReasonActor.NONE, label_off=False),
    Reason.LABEL_WITHOUT_RIGHT: ReasonFacts(Outcome.REFUSED, ReasonActor.MAINTAINER),
    Reason.LABEL_NOT_RECEIVED: ReasonFacts(Outcome.REFUSED, ReasonActor.AUTHOR),
    Reason.QUEUE_FULL: ReasonFacts(Outcome.HELD, ReasonActor.NONE, label_off=False),
    Reason.RUNNERS_BUSY: ReasonFacts(Outcome.HELD, ReasonActor.NONE, label_off=False),
    Reason.FORK_DELETED: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.NOT_ALLOWED_TO_QUEUE: ReasonFacts(Outcome.REFUSED, ReasonActor.MAINTAINER),
    Reason.BRANCH_NOT_SERVED: ReasonFacts(Outcome.REFUSED, ReasonActor.MAINTAINER),
    Reason.BLOCKED_BY_LABEL: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.BLOCKED_BY_TITLE: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.BLOCKED_BY_AUTHOR: ReasonFacts(Outcome.REFUSED, ReasonActor.MAINTAINER),
    Reason.BLOCKED_BY_FILES: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.LABEL_MISSING: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.REVIEW_REQUESTED: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.HOLD_TIMED_OUT: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.NOT_READY_TIMED_OUT: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.ASKED_TOO_OFTEN: ReasonFacts(Outcome.REFUSED, ReasonActor.AUTHOR),
    Reason.CONFLICT: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.CHECKS_FAILED: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.CHECKS_TIMED_OUT: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER, author_helps=True),
    Reason.NO_CHECKS: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.CHECKS_BROKE_DOWN: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.CHECKS_NOT_REPEATED: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.CHECK_ABSENT: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.TESTED_ON_ANOTHER_BASE: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.WORKFLOW_WITHOUT_JOBS: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.WORKFLOWS_UNAPPROVED: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.BASE_STAYS_RED: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.MERGEABLE_UNKNOWN: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.UPDATE_REFUSED: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.HEAD_PROTECTED: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.HEAD_LINEAR: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.UPDATE_TIMED_OUT: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.BASE_KEEPS_MOVING: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.REFUSED_BY_RULES: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.NATIVE_QUEUE_REQUIRED: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.OWN_CHECK_REQUIRED: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.AUTO_MERGE_ENABLED: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.APPROVAL_MISSING: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.CHANGES_REQUESTED: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.CODE_OWNER_MISSING: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.CONVERSATIONS_UNRESOLVED: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.SIGNATURES_MISSING: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.LINEAR_HISTORY_REQUIRED: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.METHOD_NOT_ALLOWED: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.COMMIT_RULES: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.METHODS_CONTRADICT: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.REBASE_IMPOSSIBLE: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.BRANCH_LOCKED: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.PUSH_RESTRICTED: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.RULESET_BYPASSED: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.DEPLOYMENT_MISSING: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.WORKFLOWS_PERMISSION: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.STACKED_ABOVE: ReasonFacts(Outcome.REFUSED, ReasonActor.NONE),
    Reason.STACK_LANDED: ReasonFacts(Outcome.REFUSED, ReasonActor.AUTHOR),
    Reason.STACK_ENDED: ReasonFacts(Outcome.CANCELLED, ReasonActor.AUTHOR),
    Reason.HEAD_SHARED: ReasonFacts(Outcome.REFUSED, ReasonActor.NONE),
    Reason.DEPENDENCY_OPEN: ReasonFacts(Outcome.REFUSED, ReasonActor.NONE),
    Reason.DEPENDENCY_HIDDEN: ReasonFacts(Outcome.REFUSED, ReasonActor.AUTHOR),
    Reason.DEPENDENCY_ENDED: ReasonFacts(Outcome.REFUSED, ReasonActor.AUTHOR),
    Reason.DEPENDENCY_CYCLE: ReasonFacts(Outcome.REFUSED, ReasonActor.AUTHOR),
    Reason.SET_WAITING: ReasonFacts(Outcome.REFUSED, ReasonActor.NONE),
    Reason.SET_ENDED: ReasonFacts(Outcome.REFUSED, ReasonActor.AUTHOR),
    Reason.STACKED: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.FORK_NOT_EDITABLE: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.FORK_OF_ORGANISATION: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.PERMISSION_MISSING: ReasonFacts(Outcome.FAILED, ReasonActor.OPERATOR),
    Reason.REPOSITORY_ARCHIVED: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.REPOSITORY_GONE: ReasonFacts(Outcome.FAILED, ReasonActor.MAINTAINER),
    Reason.GITHUB_TROUBLE: ReasonFacts(Outcome.FAILED, ReasonActor.AUTHOR),
    Reason.INTERNAL_ERROR: ReasonFacts(Outcome.FAILED, ReasonActor.OPERATOR),
    Reason.TREE_MISMATCH: ReasonFacts(Outcome.PAUSED, ReasonActor.MAINTAINER, label_off=False),
    Reason.INVARIANT_BROKEN: ReasonFacts(Outcome.PAUSED, ReasonActor.OPERATOR, label_off=False),
    Reason.PAUSED_BY_HAND: ReasonFacts(Outcome.PAUSED, ReasonActor.NONE, label_off=False),
    Reason.FROZEN: ReasonFacts(Outcome.PAUSED, ReasonActor.NONE, label_off=False),
    Reason.GITHUB_REFUSES: ReasonFacts(Outcome.PAUSED, ReasonActor.NONE, label_off=False),
    Reason.BASE_RED: ReasonFacts(Outcome.PAUSED, ReasonActor.MAINTAINER, label_off=False),
    Reason.TIP_UNTESTED: ReasonFacts(Outcome.PAUSED, ReasonActor.NONE, label_off=False),
    Reason.CHECKS_NOT_STARTING: ReasonFacts(Outcome.PAUSED, ReasonActor.MAINTAINER, label_off=False),
    Reason.CHECK_NEVER_REPORTED: ReasonFacts(Outcome.PAUSED, ReasonActor.MAINTAINER, label_off=False),
    Reason.MISCONFIGURED: ReasonFacts(Outcome.PAUSED, ReasonActor.MAINTAINER, label_off=False),
    Reason.CI_SILENT_ON_CANDIDATES: ReasonFacts(Outcome.SEQUENTIAL, ReasonActor.MAINTAINER, label_off=False),
    Reason.CI_SKIPPED_ON_CANDIDATES: ReasonFacts(Outcome.SEQUENTIAL, ReasonActor.MAINTAINER, label_off=False),
    Reason.CI_UNPROVEN_ON_CANDIDATES: ReasonFacts(Outcome.SEQUENTIAL, ReasonActor.MAINTAINER, label_off=False),
    Reason.CHECK_FAILS_ON_CANDIDATES: ReasonFacts(Outcome.SEQUENTIAL, ReasonActor.MAINTAINER, label_off=False),
    Reason.CANDIDATES_REFUSED: ReasonFacts(Outcome.SEQUENTIAL, ReasonActor.MAINTAINER, label_off=False),
    Reason.CANDIDATE_LANDING_REFUSED: ReasonFacts(Outcome.SEQUENTIAL, ReasonActor.MAINTAINER, label_off=False),
}

SENDER_REASONS = frozenset({Reason.LABEL_WITHOUT_RIGHT, Reason.NOT_ALLOWED_TO_QUEUE})
"""Reasons to reject a request because of its sender: the same request of another person may succeed."""

RETRY_REASONS = frozenset(
    {
        Reason.QUEUE_FULL,
        Reason.NOT_QUEUED,
        Reason.HOLD_TIMED_OUT,
        Reason.CHECKS_BROKE_DOWN,
        Reason.MERGEABLE_UNKNOWN,
        Reason.UPDATE_TIMED_OUT,
        Reason.BASE_KEEPS_MOVING,
        Reason.GITHUB_TROUBLE,
    }
)
"""Reasons after which the same head may land by another try, without anybody's act: neither the change, nor a rule, nor
a person stopped it."""

MERGED_REASONS = frozenset({Reason.MERGED_ELSEWHERE, Reason.LANDED_WITH_ANOTHER, Reason.BASE_CHANGED_AT_MERGE})
"""Reasons of pull requests that GitHub merged, so that none of them can be queued again."""


class PullRequestActor(StrEnum):
    """Who has to act next, so that a pull request lands."""

    AUTHOR = "author"
    MAINTAINER = "maintainer"
    OPERATOR = "operator"
    CI = "ci"
    GITHUB = "github"
    IMQ = "imq"
    NONE = "nobody"
    """It landed, somebody withdrew it, or only time has to pass."""


class WaitReason(StrEnum):
    """A code for a pull request that waits without a fault, or that IMQ has nothing to do for."""

    BEHIND_OTHERS = "behind_others"
    NEXT_IN_QUEUE = "next_in_queue"
    FINDING_CAUSE = "finding_cause"
    TRAIN_FILLING = "train_filling"
    UPDATING_BRANCH = "updating_branch"
    CHECKS_PENDING = "checks_pending"
    MERGING = "merging"
    GITHUB_FAILING = "github_failing"
    NEVER_QUEUED = "never_queued"
    LANDED = "landed"


_OF_DISORDER = {
    Disorder.ARCHIVED: Reason.REPOSITORY_ARCHIVED,
    Disorder.GONE: Reason.REPOSITORY_GONE,
    Disorder.PERMISSION: Reason.PERMISSION_MISSING,
}


_NAMED = 10


def few(names: Sequence[str]) -> str:
    """Join names for a sentence; many are shortened to the first ones and a number."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def reason_of(error: GitHubError) -> Reason:
    """Return why an entry leaves that GitHub has refused for too long."""
    disorder = error.disorder if isinstance(error, Refused) else None
    return _OF_DISORDER.get(disorder, Reason.GITHUB_TROUBLE) if disorder else Reason.GITHUB_TROUBLE
