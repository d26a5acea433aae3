"""The figures are counted from the emulator's record."""

from datetime import timedelta
from typing import Any

from github_emulator import RecordedCall
from imq_demo import figures
from tests.unit.demo.examples import NOON

REPOSITORY = "/repos/tea-house/teapot"
SHA = "c" * 40


def exchange(path: str, *, template: str = "", at: timedelta = timedelta(0), **more: Any) -> RecordedCall:
    """One request."""
    return RecordedCall(1, NOON + at, "GET", REPOSITORY + path, {}, template, **more)


def test_merge_requests_refused_ones_do_not_count() -> None:
    """The reaction is measured to the merge that worked."""
    merges = figures.merge_requests(
        [
            exchange("/pulls/3/merge", template=figures.MERGE, applied=405),
            exchange("/pulls/3/merge", template=figures.MERGE, at=timedelta(seconds=2), applied=200),
        ]
    )
    assert merges == {3: NOON + timedelta(seconds=2)}


def test_refused_missing_permission_is_named_once() -> None:
    """A permission that is missing shows, even where the bot finds a way around it."""
    answers = [exchange("/issues", template="GET /issues", status=status) for status in (200, 403, 403, 404)]
    assert figures.refused(answers) == ["403 for GET /issues"]


def test_requests_by_pull_commit_comment_and_run_count_for_theirs() -> None:
    """A request counts for the pull request that it names, or whose commit, comment or check run it names."""
    requests = [
        exchange("/pulls/3"),
        exchange("/issues/3/comments"),
        exchange("/issues/comments/77"),
        exchange(f"/compare/main...{SHA}"),
        exchange("/check-runs", body={"head_sha": SHA}),
        exchange("/check-runs/88"),
        exchange("/branches/main"),
        exchange("/pulls/4"),
    ]
    assert figures.requests_by_pull(requests, {SHA: 3, "77": 3, "88": 3}) == {3: 6, 4: 1}


def test_reactions_checks_green_before_the_front_do_not_count() -> None:
    """Who waits behind others with green checks is not merged late; real time is the emulator's over its speed."""
    second = timedelta(seconds=1)
    found = figures.reactions(
        merges={1: NOON + 4 * second, 2: NOON + 9 * second},
        reports={1: NOON + 2 * second, 2: NOON + second},
        waiting_since={1: NOON, 2: NOON + 4 * second},
        speed=4.0,
    )
    assert found == [second / 2]


def test_median_of_nothing_is_none() -> None:
    """A run without a merge has no reaction time."""
    assert figures.median([]) is None
    assert figures.median([timedelta(3), timedelta(1), timedelta(2)]) == timedelta(2)
