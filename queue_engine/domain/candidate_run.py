"""A run of several members: its candidate is a commit on a branch of IMQ's own. Plain data."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.run import NOT_BEGUN, CheckTiming, Run

RUN_STARTED = "run_started"
"""The timeline's event of each run that a train starts, with its `tested` members."""
RUN_PASSED, RUN_ENDED = "run_passed", "run_ended"
RUN_EVENTS = (RUN_STARTED, RUN_PASSED, RUN_ENDED)
"""All events of a run, each with its `run` and `members`."""


CANDIDATE = re.compile(r"imq(-build)?/.+/[0-9]+")
"""The names of `CandidateRun.branches`, of whatever run."""


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
    method: MergeMethod = MergeMethod.MERGE
    """How it lands, and so how it is built."""
    commit: str | None = None
    """The commit of the candidate's history after this member; None until it is built."""
    tree: str | None = None
    """The tree of that commit: what the base has to hold after this member landed."""
    landed_sha: str | None = None
    """The commit on the base branch that landed this member."""
    reused: bool = False
    """Whether its commit was made for another run."""


@dataclass(frozen=True, slots=True)
class CandidateRun:
    """One CI run over a candidate: the base's tip with the members merged onto it in order.

    The store deletes it when its branches are gone. Every branch and pull request of IMQ's own is found by this record,
    never by the form of a name. `planner.trains` has what plans need of it, by the same id.
    """

    id: int | None
    """None until the run is stored; part of the branch's name."""
    queue_id: int
    base_branch: str
    base_tip: str
    """The commit that the first member is merged onto: the base's tip, or the end of another run's part."""
    members: tuple[CandidateMember, ...]
    """Those that IMQ merges for this run. Members of the run that it begins on are among them, built already."""
    tested: frozenset[int]
    """Numbers of the members that the run was started for; the others are qualified, or tested by another run."""
    trigger: CandidateTrigger
    state: CandidateState
    started_at: datetime
    version: int = 0
    candidate: str | None = None
    """The commit to publish, stored before IMQ publishes it; None while IMQ merges members."""
    published_at: datetime | None = None
    pull_request: int | None = None
    """The draft pull request of `CandidateTrigger.PULL_REQUEST`."""
    test: Run = NOT_BEGUN
    """The progress of its checks, and of GitHub's failures."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The members, in order."""
        return tuple(each.number for each in self.members)

    @property
    def branch(self) -> str:
        """The branch on which CI sees the candidate."""
        return f"imq/{self.base_branch}/{self.id}"

    @property
    def build_branch(self) -> str:
        """The branch on which IMQ merges the members: no workflow should watch it."""
        return f"imq-build/{self.base_branch}/{self.id}"

    @property
    def branches(self) -> tuple[str, ...]:
        """The branches of its own: where every commit was made for other runs, IMQ merges nothing."""
        built = () if self.members and all(each.reused for each in self.members) else (self.build_branch,)
        return (self.branch, *built)

    @property
    def pending_checks(self) -> tuple[str, ...]:
        """Names of the checks that were pending at the last poll."""
        return self.test.pending_checks

    @property
    def completed_checks(self) -> tuple[str, ...]:
        """Names of the checks that have ended on the candidate."""
        return self.test.completed_checks

    @property
    def timings(self) -> tuple[CheckTiming, ...]:
        """When the checks of the candidate ran."""
        return self.test.timings
