"""A run: one attempt to land its members, with the progress of its candidate's checks. Plain data."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.landing_record import LandingProof

RUN_STARTED = "run_started"
"""The timeline's event of each run that a train starts, with its `tested` members."""
RUN_PASSED, RUN_ENDED = "run_passed", "run_ended"
RUN_EVENTS = (RUN_STARTED, RUN_PASSED, RUN_ENDED)
"""All events of a run, each with its `run` and `members`."""


CANDIDATE = re.compile(r"imq(-build)?/.+/([0-9]+|try-[0-9]+|culprit-[0-9]+-[0-9]+)")
"""The names of IMQ's own branches: `Run.branches` of whatever run, of tests by `/try`, and of a search's tests."""


@dataclass(frozen=True, slots=True)
class CheckTiming:
    """When one check of a candidate ran, by GitHub's clock, as far as IMQ knows."""

    name: str
    url: str | None = None
    """Its page, as the App that reports the check gives it: not trusted."""
    started: datetime | None = None
    ended: datetime | None = None
    """None while the check runs."""
    passed: bool | None = None
    """The result of a check that has ended."""
    is_job: bool | None = None
    """Whether GitHub Actions reports it, so that it is a job; None: another App, or a status."""
    price: float | None = None
    """The price of a minute of the job; None: not asked for, or not known."""
    same_name: int | None = None
    """The billed minutes of other jobs of this name that have ended."""
    rerun_minutes: int | None = None
    """The billed minutes of earlier attempts that IMQ had run again."""


class CandidateTrigger(StrEnum):
    """What starts CI on a candidate."""

    PUSH = "push"
    """The push of the candidate's branch, `imq/<base>/<id>`."""
    PULL_REQUEST = "pull_request"
    """A draft pull request of that branch into the base branch."""
    DISPATCH = "dispatch"
    """`workflow_dispatch` on that branch, of each workflow with a required check."""


UNPROVEN = (CandidateTrigger.PULL_REQUEST, CandidateTrigger.PUSH, CandidateTrigger.DISPATCH)
"""The order of triggers that are not proven: a draft is what workflows are written for, and starts nearly all CI."""


class RunState(StrEnum):
    """How far a run is. The status of its members follows from it (`EntryStatus.of`)."""

    BUILDING = "building"
    """GitHub merges the base into the member's head, or IMQ merges the members onto the build branch in order."""
    TESTING = "testing"
    """The checks of the candidate run."""
    PASSED = "passed"
    """Its checks passed; it has not landed."""
    LANDING = "landing"
    """IMQ moves the base branch to it, or merges its members in order before any other action."""
    ENDED = "ended"
    """It landed, failed or was cancelled, and its branches are still to be deleted."""


_PREFERRED = (RunState.LANDING, RunState.PASSED, RunState.TESTING, RunState.BUILDING)


@dataclass(frozen=True, slots=True)
class RunMember:
    """One pull request of a candidate, in the order in which they are merged."""

    number: int
    entry_id: str
    head_sha: str
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
class Run:
    """One test of a candidate on a commit of the base branch.

    A candidate is the head of one pull request, updated by IMQ. Or it is a commit on a branch of IMQ's own, with
    several members merged onto the base in order, whose entries all have this run. The store deletes such a run when
    its branches are gone. Every branch and pull request of IMQ's own is found by this record, never by its name.
    `planner.trains` has what plans need of it, by the same id. A run that has not begun is empty, and not stored.
    """

    id: int | None = None
    """None until the run is stored; part of the branch's name."""
    version: int = 0
    started_at: datetime | None = None
    base_tip: str | None = None
    """The commit that the candidate is tested on: the base's tip, or the end of another run's part."""
    candidate: str | None = None
    """The commit to test, stored before IMQ publishes it; None while GitHub or IMQ makes it."""
    queue_id: int | None = None
    """The queue of a run on a branch of IMQ's own; None: its entry says that."""
    base_branch: str = ""
    state: RunState | None = None
    """How far it is; None: it has not begun."""
    trigger: CandidateTrigger | None = None
    """What starts CI on the branch; None: there is no such branch."""
    members: tuple[RunMember, ...] = ()
    """Those that IMQ merges for this run. Members of the run that it begins on are among them, built already."""
    tested: frozenset[int] = frozenset()
    """Numbers of the members that the run was started for; the others are qualified, or tested by another run."""
    published_at: datetime | None = None
    pull_request: int | None = None
    """The draft pull request of `CandidateTrigger.PULL_REQUEST`."""
    tested_tree: str | None = None
    proof: LandingProof | None = None
    """What lets the candidate land, once its checks have passed."""
    new_head: str | None = None
    """A head that appeared during an update, and that IMQ has not judged yet."""
    new_head_is_ours: bool = False
    """Whether a webhook named IMQ as the sender of `new_head`."""
    pending_checks: tuple[str, ...] = ()
    """Names of the checks that were pending at the last poll; empty before the first one."""
    completed_checks: tuple[str, ...] = ()
    """Names of the checks that have ended on the candidate: at the last poll, and by the webhooks since."""
    started_checks: tuple[str, ...] = ()
    """Names of the checks that have started on the candidate, as far as IMQ knows."""
    timings: tuple[CheckTiming, ...] = ()
    """When the checks of the candidate ran, by name: those that its last read showed, and webhooks since."""
    checks_since: datetime | None = None
    """When its checks began, or began again by a rerun: their time limit counts from then."""
    checks_started_at: datetime | None = None
    """When the last of these started, as far as IMQ knows: their time limit counts from then."""
    former_checks: tuple[str, ...] | None = None
    """The checks that reported on the head before IMQ's update, `app:name` each; None: not read."""
    check_limits: Mapping[str, int] | None = None
    """How many seconds each check may take, by its name, for those that IMQ measured on this branch before."""
    job_prices: Mapping[str, float | None] | None = None
    """The jobs that ran on this branch before, by name, with the price of a minute of each."""
    reruns: int = 0
    """How often IMQ ran the failed checks of the candidate again."""
    rerun_checks: tuple[str, ...] = ()
    """Check runs on the candidate that IMQ asked GitHub to run again, `id:name` each: IMQ waits for newer ones."""
    rerun_at: datetime | None = None
    """Set before IMQ requests a rerun, until the answer is known."""
    polls: int = 0
    """Slow polls in this status, the exponent of the fallback's interval."""
    next_poll_at: datetime | None = None
    merge_requested_at: datetime | None = None
    """Set before IMQ requests the merge: from then on only a fresh read shows whether GitHub merged."""
    merge_uuid: str | None = None
    """What names the merge that GitHub makes in the background; None: IMQ knows of none."""
    merge_refusals: int = 0
    """Merge calls in a row that GitHub refused for reasons that may be temporary."""
    refused_since: datetime | None = None
    """When GitHub refused the first of the merge calls that `merge_refusals` counts."""
    github_failures: int = 0
    """GitHub's failures in a row, the exponent of the backoff; zero after any success."""
    github_failing_since: datetime | None = None
    merges_onto: str | None = None
    """The base's tip as its landing began, if GitHub merges its members one by one; None: IMQ moves the base."""

    @property
    def has_branch(self) -> bool:
        """Whether its candidate is on a branch of IMQ's own, and not the head of its only member."""
        return self.trigger is not None

    def of_member(self, entry_id: str, head_sha: str) -> "Run":
        """Return the run as this member has it: with the tree to compare its landing with, on the commit before it."""
        base, tree = self.merges_onto or self.base_tip, None
        for each in self.members:
            if (each.entry_id, each.head_sha) == (entry_id, head_sha):
                tree = each.tree
                break
            base = each.landed_sha or each.commit or base
        return replace(self, base_tip=base, tested_tree=tree, new_head=None, rerun_at=None, **NOTHING_ASKED)

    @property
    def has_passed(self) -> bool:
        """Whether the checks of the candidate passed."""
        return self.state in _PREFERRED[:2]

    def precedence(self, number: int) -> tuple[int, bool, int]:
        """Return the key by which the most advanced run of a member comes first; of several, the one that tests it."""
        assert self.state is not None
        return _PREFERRED.index(self.state), number not in self.tested, self.id or 0

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
    def since(self) -> datetime:
        """When the checks of a run that has begun began."""
        begun = self.checks_since or self.started_at
        assert begun is not None
        return begun

    @property
    def has_begun(self) -> bool:
        """Whether the run has begun, and so is stored."""
        return self.state is not None

    def ended(self) -> "Run":
        """Return the run emptied, as its entry leaves it: the store deletes the row of one without a branch."""
        return NOT_BEGUN if self.has_branch else Run(self.id, self.version)

    def without_failures(self) -> "Run":
        """Return the run after a success: no backoff is under way, so that webhooks wake its queue at once."""
        return replace(self, github_failures=0, github_failing_since=None)


NOT_BEGUN = Run()
"""The run of an entry that waits."""

OF_ENTRY = (
    "polls",
    "next_poll_at",
    "merge_requested_at",
    "merge_uuid",
    "merge_refusals",
    "refused_since",
    "github_failures",
    "github_failing_since",
)
"""What IMQ asks for one entry alone, and how GitHub answered: of an entry's run, the entry's own row has these."""

NOTHING_ASKED: Mapping[str, Any] = {name: getattr(NOT_BEGUN, name) for name in OF_ENTRY}
