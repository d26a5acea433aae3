"""A run: one attempt to land its members, with the progress of its candidate's checks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime


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


@dataclass(frozen=True, slots=True)
class Run:
    """One test of a candidate on a tip of the base branch.

    An entry past `pending` is a member of a run. Today a run has one member, and the candidate is the head of that
    pull request, updated by IMQ. A run that has not begun is empty, and not stored.
    """

    id: int | None = None
    """None until the run is stored."""
    version: int = 0
    started_at: datetime | None = None
    base_tip: str | None = None
    """The tip of the base branch that the candidate is tested on."""
    candidate: str | None = None
    """The commit under test; None while GitHub makes it."""
    tested_tree: str | None = None
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
    candidate_run: int | None = None
    """The id of the `CandidateRun` that tests its member together with others; None: its candidate is its head."""

    @property
    def since(self) -> datetime:
        """When the checks of a run that has begun began."""
        begun = self.checks_since or self.started_at
        assert begun is not None
        return begun

    @property
    def has_begun(self) -> bool:
        """Whether the run has begun, and so is stored."""
        return self != self.ended()

    def ended(self) -> "Run":
        """Return the run emptied: the store deletes its row when it stores the members."""
        return Run(self.id, self.version)

    def without_failures(self) -> "Run":
        """Return the run after a success: no backoff is under way, so that webhooks wake its queue at once."""
        return replace(self, github_failures=0, github_failing_since=None)


NOT_BEGUN = Run()
"""The run of an entry that waits."""
