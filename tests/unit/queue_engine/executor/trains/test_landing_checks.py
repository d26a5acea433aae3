"""The words by which GitHub refuses a move of the base for checks alone."""

import pytest

from queue_engine.executor.trains.landing_checks import misses_checks


@pytest.mark.parametrize(
    ("message", "misses"),
    [
        ('Required status check "ci/test" is expected.', True),
        ('Required status check "pull request" is in progress.', True),
        ("2 of 3 required status checks have not succeeded: 1 expected and 1 pending.", True),
        ("Code scanning is waiting for results from CodeQL for the commit 1a2b3c4.", True),
        ("Changes must be made through a pull request.", False),
        ('Changes must be made through a pull request. Required status check "a" is expected.', False),
        ('Cannot update this protected ref: "status check" owns it.', False),
    ],
)
def test_misses_checks_goes_by_words_outside_of_names(message: str, misses: bool) -> None:
    """A rule that no check can meet has IMQ land by merges at once."""
    assert misses_checks(message) is misses
