"""The search for the culprit: the landing since which a base branch fails a check that had passed. Plain data."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from queue_engine.domain.run import CandidateTrigger

CULPRIT = "culprit"
"""The timeline's event of each result of a search, with the search as data."""
REVERT_JOB = "revert_culprit"
"""Kind of the job that opens the revert of a culprit without being asked."""
REVERTED = "reverted"
"""The timeline's event of a revert that IMQ opened: of the pull request that is reverted, with `revert`, its number."""


class CulpritOutcome(StrEnum):
    """How a search ended."""

    NAMED = "named"
    """One landed pull request is the culprit, as far as the probability goes."""
    PUSHED = "pushed"
    """The culprit is a commit that somebody pushed around the queue."""
    ENVIRONMENT = "environment"
    """The commit before all of these landings fails now, too: no change is to blame."""
    FLAKE = "flake"
    """The same commit passed when it was tested again."""
    FIXED = "fixed"
    """The base passes again before a culprit was found."""
    UNCERTAIN = "uncertain"
    """The results contradict each other, or a test did not end."""
    NO_TRIGGER = "no_trigger"
    """Nothing is proven to start CI on a branch that points at a landed commit."""


@dataclass(frozen=True, slots=True)
class BaseCommit:
    """A commit on which the base has rested."""

    sha: str
    number: int | None = None
    """The pull request that landed as this commit; None: somebody pushed it around the queue."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """One result of the check on one of the commits."""

    place: int
    passed: bool
    at: datetime
    url: str | None = None
    """The page of the job, as GitHub Actions gives it."""
    on_base: bool = False
    """Whether the base's own CI gave it, and not that of a branch of IMQ's."""


@dataclass(frozen=True, slots=True)
class CommitCheck:
    """A test under way, on a branch of IMQ's own that points at the commit."""

    place: int
    branch: str
    since: datetime
    published: bool = False
    """Whether the branch is there, and CI was started on it."""


@dataclass(frozen=True, slots=True)
class CulpritRecord:
    """A search, as it is stored."""

    queue_id: int
    check: str
    commits: tuple[BaseCommit, ...]
    """The last one that passed, then each that followed, to the tip that fails. All are stored before the first test.
    """
    results: tuple[CommitResult, ...]
    started: datetime
    app_id: int | None = None
    history: tuple[int, int] = (0, 0)
    """How often the check failed on good changes, and in how many runs, before the search began."""
    workflow: int = 0
    green_at: datetime | None = None
    """When the first of the commits passed on the base; None: no result of it is known."""
    job: int | None = None
    """The check run that failed first."""
    run: int | None = None
    rerun_at: datetime | None = None
    """Set before IMQ requests the rerun on the tip."""
    rerun_ended: bool = False
    trigger: CandidateTrigger | None = None
    workflows: tuple[str, ...] = ()
    testing: CommitCheck | None = None
    tests: int = 0
    """How many tests have begun."""
    polls: int = 0
    named: int | None = None
    probability: float | None = None
    outcome: CulpritOutcome | None = None
    """None until the search ends."""
    revert: int | None = None
    """The pull request that reverts the culprit, if IMQ opened it by itself; in a notice, also for a person."""
    id: int | None = None

    @property
    def tip(self) -> str:
        """The commit on which the check failed first."""
        return self.commits[-1].sha

    @property
    def commit(self) -> str | None:
        """The commit whose reports the search waits for."""
        if self.outcome is not None:
            return None
        return self.commits[self.testing.place].sha if self.testing is not None else self.tip

    @property
    def culprit(self) -> int | None:
        """The pull request that is named, if one is."""
        return None if self.named is None else self.commits[self.named].number

    @property
    def runs(self) -> int:
        """How many CI runs the search has cost: the first failure was there before it."""
        return len(self.results) - 1
