"""P1 to P6 of trains under a state machine of Hypothesis, over planner and executor on the sandbox."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.acceptance.train_machine import TrainMachine

_CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=_CHECKS,
        derandomize=True,
        # An example takes seconds, and its log says what happened: no smaller one is looked for.
        phases=[Phase.generate],
        print_blob=False,
    )


def test_trains_keep_the_promises_whatever_people_and_failures_do() -> None:
    """Few examples, for every run of the tests."""
    run_state_machine_as_test(TrainMachine, settings=_settings(3, 12))


@pytest.mark.thorough
@pytest.mark.slow
def test_trains_keep_the_promises_for_thousands_of_steps() -> None:
    """P1 to P6 for long."""
    run_state_machine_as_test(TrainMachine, settings=_settings(60, 50))
