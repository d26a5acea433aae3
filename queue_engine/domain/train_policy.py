"""Choices about trains: how candidates get their CI run, and how large and how many they are. Plain data."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Candidates(StrEnum):
    """What starts CI on a candidate of several members, as the configuration says."""

    OFF = "off"
    """Nothing: IMQ tests and lands one pull request after the other."""
    AUTO = "auto"
    """What the workflows at the base's tip allow: a push, else a draft pull request, else a dispatch."""
    PUSH = "push"
    PULL_REQUEST = "pull_request"
    DISPATCH = "dispatch"


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
class TrainPolicy:
    """The choices about trains for one base branch that has them."""

    candidates: Candidates = Candidates.AUTO
    """Never `OFF`."""
    runs: int | None = 1
    """How many CI runs may be active at once. None: one more than CI ran at once before."""
    max_size: int = MOST_MEMBERS
    """How many members one run may test."""
    first_report: timedelta = timedelta(minutes=5)
    """How long the first report of each required check on a candidate may take."""
    split: TrainSplit = TrainSplit.BISECT
    forks: TrainForks = TrainForks.REVIEWED
