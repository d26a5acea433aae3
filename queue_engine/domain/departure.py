"""A departure: why an entry left its queue, and what it waited for. Statistics derive from these, not from events."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TypeGuard

from queue_engine.domain.facts import CheckReport, FailingCheck
from queue_engine.domain.model import EntryStatus, TimelineEvent
from queue_engine.domain.reasons import Reason

ENDS = frozenset({EntryStatus.LANDED, EntryStatus.FAILED, EntryStatus.CANCELLED})
"""The events that end an entry."""


WITHDRAWN = "withdrawn"
"""What the data of an event has, if it ended a consent that had outlasted the switch to shadow mode."""


def is_withdrawn(left: TimelineEvent | None) -> TypeGuard[TimelineEvent]:
    """Return whether a departure ended a consent that had outlasted the switch to shadow mode."""
    return left is not None and WITHDRAWN in left.data


JOB_SUMS = (
    *(f"{use}_{unit}" for unit in ("minutes", "cost") for use in ("ci", "rerun", "reset", "spared")),
    "priced",
)
"""The fields of a departure for what its jobs cost."""

FLAKY_JOB_SUMS = ("ci_minutes", "ci_cost", "priced")
"""Those of a flake."""

_OF_PULL_REQUEST = re.compile(
    r"(?<![a-z])(?:title|labels?|sign-?off|signed|dco|cla|semantic|conventional|commit-?lint)(?![a-z])", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class RerunCheck:
    """A check that failed and passed in a rerun, and what that cost. GitHub Actions names a check run after its job."""

    name: str
    jobs: tuple[str, ...]
    """The failed jobs behind the check; empty if IMQ knows none."""
    reruns: int
    ci_seconds: float | None
    """How long the failed runs took; None: not known."""
    waited: float
    """Seconds from the first rerun until the checks had passed, divided among the checks that were rerun together."""
    ci_minutes: float | None = None
    """The billed minutes of the failed runs; None: not known, or no job of GitHub Actions."""
    ci_cost: float | None = None
    """Their price in US dollars; None: not known."""

    @property
    def job_names(self) -> tuple[str, ...]:
        """The jobs, or the check's own name: a check of GitHub Actions without further jobs is one."""
        return self.jobs or (self.name,)


@dataclass(frozen=True, slots=True)
class Departure:
    """An entry that left its queue. Its seconds in each `WaitKind` add up to `waited`."""

    id: int
    """The number of its event in the timeline."""
    entry_id: str
    repository_id: int
    base_branch: str
    number: int
    title: str | None
    author: str | None
    enqueued_at: datetime
    left_at: datetime
    outcome: EntryStatus
    reason: Reason | None
    waited: float
    capacity: float
    checks: float
    paused: float
    base_red: float
    other: float
    ci_seconds: float | None
    """Seconds of CI, over all its checks and runs; None: not known."""
    reruns: int
    """How often IMQ ran failed checks again."""
    flaky: tuple[RerunCheck, ...] = ()
    ci_minutes: float = 0.0
    """Minutes of GitHub Actions as GitHub bills them, of all commits that were tested while it was queued."""
    rerun_minutes: float = 0.0
    """Those of attempts that IMQ had run again."""
    reset_minutes: float = 0.0
    """Of a landing: those of tests before the last, which a moved base, a hotfix or another member ended."""
    spared_minutes: float = 0.0
    """Those that a ref of the tested tree spares workflows on the base."""
    ci_cost: float = 0.0
    """This and the next: the same in US dollars."""
    rerun_cost: float = 0.0
    reset_cost: float = 0.0
    spared_cost: float = 0.0
    priced: float = 0.0
    """1 if prices are known, else 0: sums count such departures."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Who caused a departure, as far as a webhook says it."""

    by: str
    """The login of the account that acted, as GitHub showed it."""
    bot: bool = False
    after_update: float | None = None
    """How many seconds after IMQ's own update of the branch, by GitHub's clock; None: none is known."""


@dataclass(frozen=True, slots=True)
class FailingCheckFacts:
    """What IMQ knows of failed checks beside their reports: only what was read, so that people can rely on it."""

    head_sha: str
    checks: tuple[str, ...]
    green: tuple[str, ...] = ()
    """Those that had passed on the queued head alone."""
    red: tuple[str, ...] = ()
    """Those that had failed there, too."""
    on_base: bool = False
    """Whether all of them passed on the base branch without the pull request."""
    merged: bool = False
    """Whether the tested commit has the base merged in; else it is the queued head itself."""
    pushed: bool = False
    """Whether IMQ pushed that merge to the head branch."""
    reruns: int = 0
    """How often IMQ ran them again on the tested commit."""
    others: tuple[int, ...] | None = None
    """The other pull requests in the run of a train that failed; None: no train tested it."""
    base_tip: str | None = None
    """The commit of the base that was merged in."""
    landed: tuple[int, ...] | None = None
    """The pull requests that landed on the base since the queued head left it, in their order; None: not known."""
    outside: bool = False
    """Whether others pushed to the base since then, past the queue."""
    fork: bool = False
    """Whether the head branch is in a fork."""
    judge_pull_request: bool = False
    """Whether workflow files show that they judge the pull request, and not its tree."""

    @property
    def is_together(self) -> bool:
        """Whether the change had passed alone, and fails together with what the base has got since."""
        of_tree = any(not may_judge_pull_request(each) for each in self.checks)
        return self.merged and of_tree and bool(self.green) and set(self.green) == set(self.checks)


def may_judge_pull_request(check: str) -> bool:
    """Whether a check may judge the title, the labels or the commits of a pull request, by its name alone."""
    return _OF_PULL_REQUEST.search(check) is not None


@dataclass(frozen=True, slots=True)
class NewCommits:
    """A push to a queued pull request, which the consent does not cover."""

    queued: str
    queued_by: str
    pushed: str | None
    """The head after the push; None: IMQ has not read it."""
    by_imq: bool = False
    """Whether GitHub names IMQ itself, which cannot prove its update: its database is older."""


@dataclass(frozen=True, slots=True)
class DequeueReason:
    """A reason code with its details. `detail` may hold text from GitHub or users."""

    reason: Reason
    detail: str | None = None
    checks: tuple[CheckReport, ...] = ()
    people: tuple[str, ...] = ()
    """Logins that the comment mentions, if the reason mentions the author."""
    delivery: str | None = None
    """The webhook that caused the dequeue."""
    by: str | None = None
    """The person or program that asked for the dequeue, if any."""
    by_bot: bool = False
    """Whether GitHub says that `by` is a bot."""
    failing: tuple[FailingCheck, ...] = ()
    """The failed checks for programs and pages: one for each workflow run."""
    failure: FailingCheckFacts | None = None
    """What else is known of failed checks."""
    pushed: str | None = None
    """The head that the caller read after a push."""
    pushed_by_imq: bool = False
    """Whether GitHub names IMQ itself as who pushed it."""
    cause: Cause | None = None
    """Who caused the dequeue, by the facts of webhooks."""
    new_commits: NewCommits | None = None
    """The commits that a push brought."""
