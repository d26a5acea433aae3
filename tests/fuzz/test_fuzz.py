"""`make fuzz` itself: it finds a planted fault, and each target runs."""

from contextlib import ExitStack

import pytest
from hypothesis import strategies as st

from tests.fuzz.__main__ import attack, main, targets
from tests.fuzz.edits import edited


def _refuses_null(text: str) -> None:
    assert "\x00" not in text


@pytest.mark.long
def test_planted_fault_is_found_and_made_small() -> None:
    """With the same seed at the same input."""
    with pytest.raises(AssertionError):
        attack((edited(["depth: 20"], [":"]), _refuses_null), seconds=20, first_seed=1)


def test_target_without_a_fault_is_tried_until_its_time_is_over() -> None:
    """In whole rounds."""
    assert attack((st.integers(), lambda _number: None), seconds=0.01, first_seed=1) >= 2


def test_targets_are_those_that_were_named() -> None:
    """All of them without a name."""
    with ExitStack() as stack:
        assert list(targets(stack, ["commands"])) == ["commands"]


def test_command_line_prints_the_seed_and_how_many_inputs_it_tried(capsys: pytest.CaptureFixture[str]) -> None:
    """So that a find can be repeated."""
    assert main(["--seconds", "0.01", "--seed", "7", "commands"]) == 0
    seed, tried = capsys.readouterr().out.splitlines()
    assert seed == "seed 7"
    assert tried.startswith("commands: ")
