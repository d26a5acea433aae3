"""P7: reads wait for as long as GitHub was seen to lag, and for nothing where it does not."""

from datetime import datetime, timedelta
from typing import cast

import pytest
from pydantic import BaseModel

from queue_engine.domain.known_facts import (
    CheckResult,
    CommitStatus,
    Consent,
    ConversationChange,
    Known,
    KnownName,
    MergeResult,
    OwnLabel,
    PullRequestState,
    Push,
    ReviewChange,
    Statement,
)
from queue_engine.known import github_reads as known_lag
from queue_engine.known.github_reads import (
    BRANCH_TIP,
    CHECKS,
    COMMIT,
    COMPARISON,
    LONGEST,
    PULL,
    REMEMBERED,
    REVIEWS,
    SNAPSHOT,
    ReadKind,
    ReadLag,
)
from tests.unit.queue_engine.examples import NOW, SECOND

NONE = timedelta(0)


def reported(at: datetime) -> list[Known]:
    return [Known(KnownName(), at)]


def lagging(by: timedelta, at: datetime = NOW) -> ReadLag:
    """A commit named at that time was not shown at once, but so much later."""
    lag = ReadLag()
    lag.outdated(1, COMMIT, "commit a")
    lag.current(1, COMMIT, "commit a", reported(at), at + by)
    return lag


def test_read_where_none_was_outdated_is_made_at_once() -> None:
    """A GitHub without lag delays no read."""
    lag = ReadLag()
    lag.current(1, COMMIT, "commit a", reported(NOW), NOW + SECOND)
    assert lag.wait(1, COMMIT, "commit b", reported(NOW), NOW) == NONE


def test_read_after_an_outdated_one_waits_until_the_reported_facts_are_as_old() -> None:
    """Counted from the newest fact; older facts show already."""
    lag, now = lagging(3 * SECOND), NOW + 60 * SECOND
    assert lag.wait(1, COMMIT, "commit b", reported(now - 10 * SECOND) + reported(now - SECOND), now) == 2 * SECOND
    assert lag.wait(1, COMMIT, "commit c", reported(now - 3 * SECOND), now) == NONE
    assert lag.wait(1, COMMIT, "commit d", [], now) == NONE


def test_facts_that_a_read_does_not_show_hold_it_up_for_nothing() -> None:
    """A review is seen in no commit, and a command in no pull request."""
    lag = ReadLag()
    for kind in (PULL, REVIEWS):
        lag.outdated(1, kind, "pull 1")
        lag.current(1, kind, "pull 1", [Known(ReviewChange(author="a", state="approved"), NOW)], NOW + SECOND)
    assert lag.of(1, PULL, NOW + SECOND) == NONE
    assert lag.of(1, REVIEWS, NOW + SECOND) == SECOND
    assert lag.wait(1, REVIEWS, "pull 1", [Known(Consent(at=NOW), NOW)], NOW) == NONE


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (PULL, {PullRequestState, OwnLabel, MergeResult}),
        (SNAPSHOT, {PullRequestState, OwnLabel, MergeResult, ReviewChange, ConversationChange}),
        (REVIEWS, {ReviewChange}),
        (BRANCH_TIP, {Push}),
        (COMPARISON, {Push}),
        (COMMIT, {KnownName}),
        (CHECKS, {CheckResult, CommitStatus}),
    ],
)
def test_read_waits_for_every_fact_that_it_shows(kind: ReadKind, shown: set[type[BaseModel]]) -> None:
    """Each of them alone; of the others none."""
    kinds: set[type[BaseModel]] = {
        PullRequestState,
        OwnLabel,
        MergeResult,
        Consent,
        Push,
        CheckResult,
        CommitStatus,
        ReviewChange,
        ConversationChange,
        KnownName,
    }
    assert shown < kinds
    for each in kinds:
        known, lag = [Known(cast(Statement, each.model_construct()), NOW)], ReadLag()
        lag.outdated(1, kind, "it")
        lag.current(1, kind, "it", known, NOW + SECOND)
        assert lag.of(1, kind, NOW + SECOND) == (SECOND if each in shown else NONE), each


@pytest.mark.parametrize("other", [(2, COMMIT), (1, PULL)])
def test_lag_of_another_repository_or_kind_holds_up_no_read(other: tuple[int, ReadKind]) -> None:
    """Replicas differ."""
    lag = lagging(3 * SECOND)
    assert lag.of(*other, NOW + 3 * SECOND) == NONE


def test_newer_facts_hold_up_a_read_that_has_waited_no_more() -> None:
    """P5: checks that end every second do not put their look off for ever."""
    lag, now = lagging(3 * SECOND), NOW + 60 * SECOND
    assert lag.wait(1, COMMIT, "commit b", reported(now), now) == 3 * SECOND
    assert lag.wait(1, COMMIT, "commit b", reported(now + SECOND), now + SECOND) == 2 * SECOND
    assert lag.wait(1, COMMIT, "commit b", reported(now + 3 * SECOND), now + 3 * SECOND) == NONE
    assert lag.wait(1, COMMIT, "commit b", reported(now + 9 * SECOND), now + 9 * SECOND) == 3 * SECOND, (
        "the next one does"
    )


def test_read_that_was_never_outdated_shows_no_lag() -> None:
    """The facts that a later read of the same subject shows are older, and GitHub may have shown them long before."""
    lag = lagging(2 * SECOND)
    lag.current(1, COMMIT, "commit a", reported(NOW), NOW + 7 * SECOND)
    assert lag.of(1, COMMIT, NOW + 7 * SECOND) == 2 * SECOND


def test_reads_whose_callers_never_came_back_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded, and a read that still waits is not put off again."""
    monkeypatch.setattr(known_lag, "_AWAITED", 2)
    lag, now = lagging(3 * SECOND), NOW + 60 * SECOND
    lag.wait(1, COMMIT, "commit b", reported(now), now)
    lag.wait(1, COMMIT, "commit c", reported(now + 2 * SECOND), now + 2 * SECOND)
    lag.wait(1, COMMIT, "commit d", reported(now + 4 * SECOND), now + 4 * SECOND)
    assert sorted(subject for _, _, subject in lag._awaited) == ["commit c", "commit d"]


def test_lag_is_the_longest_measured_within_its_bound() -> None:
    """A shorter one that was measured later does not replace it; one from an outage of GitHub is cut."""
    lag = lagging(4 * SECOND)
    lag.outdated(1, COMMIT, "commit b")
    lag.current(1, COMMIT, "commit b", reported(NOW + 60 * SECOND), NOW + 61 * SECOND)
    assert lag.of(1, COMMIT, NOW + 61 * SECOND) == 4 * SECOND
    assert lagging(timedelta(minutes=5)).of(1, COMMIT, NOW + timedelta(minutes=5)) == LONGEST


def test_lag_that_was_not_measured_of_late_is_forgotten() -> None:
    """IMQ makes the next read at once again, and measures."""
    lag = lagging(3 * SECOND)
    end = NOW + 3 * SECOND + REMEMBERED
    assert lag.wait(1, COMMIT, "commit b", reported(end - SECOND), end - SECOND) == 3 * SECOND
    assert lag.wait(1, COMMIT, "commit c", reported(end), end) == NONE
