"""The section about trains: who has them, and what its keys may be."""

import pytest

from queue_engine.config.document import ConfigError
from queue_engine.config.file import policy_for
from queue_engine.config.model import Policy, TrainRules
from queue_engine.config.parse import read
from queue_engine.domain.policy import Candidates


@pytest.mark.parametrize(
    ("text", "trains"),
    [
        ("", None),
        ("trains: off", None),
        ("trains: false", None),
        ("trains: {candidates: off, runs: 4}", None),
        ("trains: {runs: 4}", None),
        ("trains: auto", TrainRules(Candidates.AUTO)),
        ("trains: on", TrainRules(Candidates.AUTO)),
        ("trains: true", TrainRules(Candidates.AUTO)),
        ("trains: {candidates: push, runs: auto}", TrainRules(Candidates.PUSH, runs=None)),
        ("trains: {runs: 4}\nbranches: [{match: main, trains: auto}]", TrainRules(Candidates.AUTO, runs=4)),
        ("trains: auto\nbranches: [{match: main, trains: off}]", None),
    ],
)
def test_policy_for_has_trains_only_where_the_file_says_what_starts_ci(text: str, trains: TrainRules | None) -> None:
    """Trains are off by default, and a branch inherits the choices about them even while they are off above it."""
    found = policy_for(read(text), Policy(), "main").trains
    assert (found if found.enabled else None) == trains


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "trains: pushes",
            "trains.candidates must be 'off', 'auto', 'push', 'pull_request' or 'dispatch', not \"pushes\"",
        ),
        ("trains: {runs: 0}", 'trains.runs must be auto or a number from 1 to 32, not "0"'),
        ("trains: {runs: true}", 'trains.runs must be auto or a number from 1 to 32, not "true"'),
        ("trains: {max_size: 33}", 'trains.max_size must be 32 or less, not "33"'),
        ("trains: {first_report: 5s}", 'trains.first_report must be from 1m to 7d, not "5s"'),
        ("trains: {size: 4}", "trains.size is unknown; did you mean max_size?"),
    ],
)
def test_read_says_what_the_keys_about_trains_may_be(text: str, problem: str) -> None:
    """A wrong value is answered with its line and with the right ones."""
    with pytest.raises(ConfigError) as error:
        read(text)
    assert [str(each) for each in error.value.problems] == [f"line 1: {problem}"]
