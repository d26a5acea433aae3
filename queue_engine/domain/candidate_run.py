"""A run of several members: its candidate is a commit on a branch of IMQ's own. Plain data."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from queue_engine.domain.run import CheckTiming


class CandidateTrigger(StrEnum):
    """What starts CI on a candidate."""

    PUSH = "push"
    """The push of the candidate's branch, `imq/<base>/<id>`."""
    PULL_REQUEST = "pull_request"
    """A draft pull request of that branch into the base branch."""
    DISPATCH = "dispatch"
    """`workflow_dispatch` on that branch, of each workflow with a required check."""


class CandidateState(StrEnum):
    """How far a run with a candidate of its own is."""

    BUILDING = "building"
    """IMQ merges the members onto the build branch, one after the other."""
    TESTING = "testing"
    """The candidate is published, and its checks run."""
    PASSED = "passed"
    """Its checks passed; it has not landed."""
    LANDING = "landing"
    """IMQ moves the base branch to it, or merges its members in order before any other action."""
    ENDED = "ended"
    """It landed, failed or was cancelled, and its branches are still to be deleted."""


@dataclass(frozen=True, slots=True)
class CandidateMember:
    """One pull request of a candidate, in the order in which they are merged."""

    number: int
    entry_id: str
    head: str
    """The head with consent: exactly this commit is merged."""
    commit: str | None = None
    """The commit of the candidate's history after this member; None until it is built."""
    tree: str | None = None
    """The tree of that commit: what the base has to hold after this member landed."""
    landed_sha: str | None = None
    """The commit on the base branch that landed this member."""


@dataclass(frozen=True, slots=True)
class CandidateRun:
    """One CI run over a candidate: the base's tip with the members merged onto it in order.

    The store deletes it when its branches are gone. Every branch and pull request of IMQ's own is found by this record,
    never by the form of a name.
    """

    id: int | None
    """None until the run is stored; part of the branch's name."""
    queue_id: int
    base_tip: str
    """The tip of the base branch that the candidate is built on."""
    members: tuple[CandidateMember, ...]
    tested: frozenset[int]
    """Numbers of the members that the run was started for; the others are qualified, or tested by another run."""
    trigger: CandidateTrigger
    state: CandidateState
    started_at: datetime
    version: int = 0
    candidate: str | None = None
    """The published commit; None while IMQ builds it."""
    published_at: datetime | None = None
    pull_request: int | None = None
    """The draft pull request of `CandidateTrigger.PULL_REQUEST`."""
    pending_checks: tuple[str, ...] = ()
    completed_checks: tuple[str, ...] = ()
    timings: tuple[CheckTiming, ...] = ()
    reruns: int = 0
    rerun_checks: tuple[str, ...] = ()
    polls: int = 0
    next_poll_at: datetime | None = None
    github_failures: int = 0
    github_failing_since: datetime | None = None
    extends_base: bool = True
    """Whether the candidate's history still begins at the base's tip, once landed members are left out."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The members, in order."""
        return tuple(each.number for each in self.members)
