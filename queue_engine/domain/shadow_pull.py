"""Pull requests of repositories in shadow mode, with what IMQ would have done. Plain data.

The rules and decisions of queues make each outcome. After `UPDATING` and `RERUNNING` IMQ cannot know more
without writing: an instant that it gives then is a prediction.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from queue_engine.core.read_model import serialized
from queue_engine.domain.facts import CheckState
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.reasons import Reason


class ShadowOutcome(StrEnum):
    """What IMQ would have done last."""

    REJECTED = "rejected"
    """It would not have queued the pull request."""
    WAITING = "waiting"
    """It would have queued the pull request, which would wait now."""
    UPDATING = "updating"
    """It would have updated the branch, and waited for the checks of the update."""
    RERUNNING = "rerunning"
    """It would have rerun failed jobs, which may pass then."""
    DEQUEUED = "dequeued"
    """The pull request would have left the queue without landing."""
    MERGED = "merged"

    @property
    def is_open(self) -> bool:
        """Whether the pull request would still be in the queue."""
        return self in {ShadowOutcome.WAITING, ShadowOutcome.UPDATING, ShadowOutcome.RERUNNING}


@dataclass(frozen=True, slots=True)
class ShadowAction:
    """What IMQ would have done at an instant, and why."""

    outcome: ShadowOutcome
    at: datetime
    reason: Reason | None = None
    detail: str | None = None
    checks: tuple[str, ...] = ()
    """The checks that fail, or that IMQ would wait for."""
    method: str | None = None
    """How it would have merged."""
    predicted_at: datetime | None = None
    """When IMQ would have merged after an update, if the checks of the update took as long as those of this head, and
    no other pull request were ahead. A prediction."""


class BaseState(StrEnum):
    """What checks reported on the commit that landed."""

    PENDING = "pending"
    GREEN = "green"
    RED = "red"
    UNKNOWN = "unknown"
    """No check reported, or not all of them did within a day."""


class ShadowRejection(StrEnum):
    """How a merge by somebody else differs from what IMQ would have done."""

    REJECTED = "rejected"
    """IMQ would not have queued this head."""
    CHECKS_NOT_PASSED = "checks_not_passed"
    """IMQ would have waited for checks, or ejected the pull request."""
    UNTESTED_TREE = "untested_tree"
    """IMQ would have updated the branch, and waited for the checks of the update."""


@dataclass(frozen=True, slots=True)
class ShadowLanding:
    """A merge that somebody else made, and how IMQ judges it."""

    at: datetime
    by: str | None
    """None where IMQ missed the webhook."""
    sha: str
    head_sha: str
    reason: Reason | None
    """Why IMQ would not have queued this head; None if it would have."""
    detail: str | None
    checks: CheckState
    """The required checks of the head at the instant of the merge."""
    not_passed: tuple[str, ...]
    tree_tested: bool | None
    """Whether the landed tree is the head's, which its checks tested. False: the head lacked commits of its base, so
    no check of the head tested this tree. None: GitHub does not name the landed commit."""
    before: str | None
    """The base's tip before it, by the webhook of the push, else the first parent of the landed commit: after a rebase
    of several commits that is another commit of the same change."""
    approved_at: datetime | None
    """The last approval before the merge."""
    base: BaseState = BaseState.PENDING
    base_checks: tuple[str, ...] = ()
    """Checks that failed on the landed commit."""
    red_before: bool | None = None
    """Whether one of them failed on the commit before it, too. None: unknown."""

    @property
    def made_red(self) -> bool:
        """Whether a check failed on the base after it, and had not failed there before, as far as IMQ knows."""
        return self.base is BaseState.RED and not self.red_before

    @serialized
    def differences(self) -> tuple[ShadowRejection, ...]:
        """How IMQ would have acted otherwise; none if it would have merged the same head on the same base."""
        found = {
            ShadowRejection.REJECTED: self.reason is not None,
            ShadowRejection.CHECKS_NOT_PASSED: self.checks is not CheckState.PASSED,
            ShadowRejection.UNTESTED_TREE: self.tree_tested is False,
        }
        return tuple(each for each, differs in found.items() if differs)


@dataclass(frozen=True, slots=True)
class ShadowPull:
    """A pull request of a repository in shadow mode."""

    repository: Repository
    number: int
    title: str
    base_branch: str
    head_sha: str
    enqueued_at: datetime | None = None
    """When a person set the trigger label last; None if that was not in shadow mode."""
    queued_by: str | None = None
    decision: ShadowAction | None = None
    """The last decision about the label; None without a label."""
    landing: ShadowLanding | None = None
    entry: Entry | None = None
    """The entry that it would have, while it would be in the queue. No queue has it."""
    due_at: datetime | None = None
    """When to judge it again, unless a webhook comes before."""
    version: int = 0
    """The version of the stored row; 0 for a pull request that is not stored."""

    @property
    def interrupted(self) -> bool:
        """Whether shadow mode ended while it would have been in the queue."""
        return (
            self.entry is None and self.landing is None and self.decision is not None and self.decision.outcome.is_open
        )
