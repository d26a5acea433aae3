"""A run: one attempt to land its members, and how far the tests of its candidate are."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Run:
    """One test of a candidate on a tip of the base branch.

    An entry past `pending` is a member of a run. Today a run has one member, and the candidate is the head of that
    pull request, updated by IMQ. A run that has not begun holds nothing, and is stored nowhere.
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
    """A webhook named IMQ as the sender of `new_head`."""
    pending_checks: tuple[str, ...] = ()
    """Names of the checks that were pending at the last look; empty before the first look."""
    completed_checks: tuple[str, ...] = ()
    """Names of the checks that have ended on the candidate: at the last look, and by the webhooks since."""
    started_checks: tuple[str, ...] = ()
    """Names of the checks that were seen to have started on the candidate."""
    checks_started_at: datetime | None = None
    """When the last of these started, as far as IMQ could see: from then their time counts."""
    former_checks: tuple[str, ...] | None = None
    """What reported on the head before IMQ's update, `app:name` each; None: not asked for."""
    check_seconds: int | None = None
    """How long the required checks of the candidate may take; set when it is known."""
    reruns: int = 0
    """How often the failed checks of the candidate were run again."""
    rerun_checks: tuple[str, ...] = ()
    """Runs of checks on the candidate that were asked to run again, `id:name` each: newer ones are waited for."""
    rerun_at: datetime | None = None
    """Set before the call that has checks run again goes out, until its answer is known."""
    polls: int = 0
    """Slow looks taken in this status, the exponent of the fallback's interval."""
    next_poll_at: datetime | None = None
    merge_requested_at: datetime | None = None
    """Set before the merge call goes out: from then on only a fresh read tells whether it happened."""
    merge_refusals: int = 0
    """Merge calls refused in a row for reasons that may pass."""
    refused_since: datetime | None = None
    """When GitHub refused the first of the merge calls that `merge_refusals` counts."""
    github_failures: int = 0
    """GitHub's faults in a row, the exponent of the backoff; zero after any success."""
    github_failing_since: datetime | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the run holds anything: only then it is stored."""
        return self != self.ended()

    def ended(self) -> "Run":
        """The run without anything that it held: when its members are stored, its row goes."""
        return Run(self.id, self.version)


NOT_BEGUN = Run()
"""The run of an entry that waits."""
