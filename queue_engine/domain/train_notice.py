"""Facts of a notice about a train: the CI run of a pull request with others, and its savings. Plain data."""

from datetime import timedelta
from enum import StrEnum

from pydantic import ConfigDict

from queue_engine.core.read_model import ReadModel


class TrainProgress(StrEnum):
    """What a train does with one of its members now."""

    BUILDING = "building"
    """IMQ merges the members onto a branch."""
    TESTING = "testing"
    """The CI run is active."""
    BISECTING = "bisecting"
    """A run with it failed, and IMQ tests parts of that run to find the cause."""
    ALONE = "alone"
    """A run with it failed, and IMQ tests this pull request alone."""
    PASSED = "passed"
    """The CI run passed, and IMQ lands its members."""
    QUALIFIED = "qualified"
    """It passed in a run that cannot land, and waits for one that can."""
    HELD_BACK = "held_back"
    """It conflicts with another member; IMQ tries again when that one has landed or left."""
    OWN_HEAD = "own_head"
    """It comes from a fork, and IMQ tests it by its own head, with no other pull request and on no branch of IMQ's."""
    FAILED_ALONE = "failed_alone"
    """The run that failed had no other member that has not landed."""


class TrainNotice(ReadModel):
    """The state of one member, for people."""

    model_config = ConfigDict(frozen=True)

    progress: TrainProgress
    members: tuple[int, ...] = ()
    """The numbers of all members of its run, in order; itself among them."""
    run: int | None = None
    """The id of the run."""
    branch: str | None = None
    """The branch that CI tests."""
    candidate: str | None = None
    """The commit that CI tests, once IMQ has built it."""
    url: str | None = None
    """The page of one of its checks, on GitHub or at the CI provider. None: the candidate's page."""
    failed: tuple[int, ...] = ()
    """The members of the failed run that is bisected, in order."""
    conflict: int | None = None
    """The member with which it conflicts, while held back."""
    conflicts: tuple[int, ...] = ()
    """The members ahead of it of which it conflicts with one, while held back, where that one is not known."""
    own_head: str | None = None
    """Why IMQ tests it by its own head: `forks_off`, `unreviewed`, `workflows` or `unknown`."""
    suspicion: float | None = None
    """The chance that this pull request makes its run fail, from 0 to 1."""


class TrainLanding(ReadModel):
    """What a landing with others saved."""

    model_config = ConfigDict(frozen=True)

    members: tuple[int, ...]
    """The numbers of all that landed by this run, in order; itself among them."""
    runs_saved: int = 0
    """How many CI runs fewer the train took than one per pull request; negative where it took more."""
    ci_saved: timedelta | None = None
    """The CI time of these runs, by the usual run of this branch; None without a history."""
