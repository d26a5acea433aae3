"""The values among which a policy chooses, as plain data; `queue_engine.config.model` has the policy."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo


class PushPolicy(StrEnum):
    """How IMQ treats an entry after a push to its pull request."""

    DEQUEUE = "dequeue"
    REQUEUE = "requeue"
    """The entry moves to the end, with the new head, if the pusher may queue."""


class NotReadyPushPolicy(StrEnum):
    """How IMQ treats a push to a pull request that waits outside the queue until it is ready."""

    BIND = "bind"
    """The new head is consented to, if the pusher may queue."""
    DEQUEUE = "dequeue"
    """Any push ends the wait."""


class NotReadyPolicy(StrEnum):
    """How IMQ answers a request to queue a pull request that lacks what may still come by itself."""

    WAIT = "wait"
    """The pull request waits outside the queue, and joins by itself when it is ready."""
    REFUSE = "refuse"


class GithubMergePolicy(StrEnum):
    """How IMQ treats GitHub's auto-merge of a queued pull request, which merges past the queue."""

    DISABLE = "disable"
    REFUSE = "refuse"
    """A pull request with auto-merge is not queued, and an entry that gets it leaves."""
    IGNORE = "ignore"
    QUEUE = "queue"
    """Who enables auto-merge asks for the pull request to be queued; IMQ then disables it."""

    @property
    def disables(self) -> bool:
        """Whether IMQ disables the auto-merge of what it queues."""
        return self in {GithubMergePolicy.DISABLE, GithubMergePolicy.QUEUE}


class CommentPolicy(StrEnum):
    """How much IMQ comments on a pull request."""

    ALL = "all"
    OUTCOMES = "outcomes"
    """Only outcomes: landed, left, refused, held, paused, and answers to commands."""
    NONE = "none"


class Mode(StrEnum):
    """Whether IMQ acts in a repository."""

    QUEUE = "queue"
    """IMQ queues and merges."""
    SHADOW = "shadow"
    """IMQ judges what it would do, and writes nothing on GitHub."""


class SharedConfig(StrEnum):
    """The effect that the operator allows to an organisation's shared configuration."""

    OFF = "off"
    """IMQ does not read it."""
    TIGHTEN = "tighten"
    """It may only make rules stricter than the operator's."""
    TRUST = "trust"
    """It counts like a repository's own file."""


class Candidates(StrEnum):
    """What starts CI on a candidate of several members, as the configuration says."""

    OFF = "off"
    """Nothing: IMQ tests and lands one pull request after the other."""
    AUTO = "auto"
    """What the workflows at the base's tip allow: a push, else a draft pull request, else a dispatch."""
    PUSH = "push"
    PULL_REQUEST = "pull_request"
    DISPATCH = "dispatch"


class CulpritPolicy(StrEnum):
    """What IMQ does when the base fails a check that had passed for the landing."""

    OFF = "off"
    """Nothing."""
    NAME = "name"
    """It tests landed commits on branches of its own, and names the pull request that broke the base."""
    REVERT = "revert"
    """It also opens the revert of that pull request, and queues it."""


class TrainSplit(StrEnum):
    """How IMQ finds the member for which a run of several failed."""

    BISECT = "bisect"
    """It tests the part that is as likely to fail as to pass: the fewest CI runs."""
    SINGLE = "single"
    """It tests each member of that run alone next: more CI runs, and each result concerns one pull request."""


class TrainForks(StrEnum):
    """Which pull requests of forks a train may test on a branch of the repository, where CI has its secrets.

    One that changes workflow files or local actions is always tested alone, by its own head.
    """

    OFF = "off"
    """None."""
    REVIEWED = "reviewed"
    """Those whose queued head somebody with write access has approved."""
    ON = "on"
    """All that are queued."""


MOST_MEMBERS = 32
"""A run tests at most so many members, those beneath them aside."""


@dataclass(frozen=True, slots=True)
class PriorityLabel:
    """A label that gives a priority. A `hotfix` comes before other entries; `preempts` stops the front's run for it.

    `fixes_base` marks fixes of a red base: only these land while the base is red.
    """

    label: str
    priority: int
    hotfix: bool = False
    preempts: bool = False
    fixes_base: bool = False


FIX = PriorityLabel("merge-queue-fix", 0, fixes_base=True)
"""The default label of a fix: each queue can land the fix of its red base."""


@dataclass(frozen=True, slots=True)
class WeeklyFreeze:
    """A freeze that repeats every week: from `start` on these days (Monday 0) for as long as `lasts`."""

    days: frozenset[int]
    start: time
    lasts: timedelta
    zone: ZoneInfo
    why: str = ""


@dataclass(frozen=True, slots=True)
class FreezeWindow:
    """A freeze from one instant to another."""

    start: datetime
    end: datetime
    why: str = ""


USUAL_FLAKES = (0.019, 25.0)
"""How often a check of which nothing is known fails on good changes, and as how many runs that counts."""


def flake_rate(failures: int, runs: int) -> float:
    """Return how often a check fails on good changes that failed so often in so many runs on such."""
    share, weight = USUAL_FLAKES
    return (share * weight + failures) / (weight + runs)


@dataclass(frozen=True, slots=True)
class RerunLimit:
    """A check that people know to be flaky, until the end of a day in UTC."""

    name: str
    until: date

    def counts(self, now: datetime) -> bool:
        """Whether that day has not ended."""
        return now.astimezone(UTC).date() <= self.until


@dataclass(frozen=True, slots=True)
class RunSlots:
    """Scarce runners: how many runs at once may have one of these checks, by names or patterns with `*`."""

    name: str
    checks: tuple[str, ...]
    runs: int


def has_label(labels: Iterable[str], wanted: Iterable[str]) -> bool:
    """Return whether one of the wanted labels is among these, in any case."""
    folded = {label.casefold() for label in wanted}
    return any(label.casefold() in folded for label in labels)
