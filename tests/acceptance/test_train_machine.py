"""P1 to P7 of queues under a state machine of Hypothesis, over planner and executor on the emulator.

`IMQ_TRAIN_EXAMPLES` runs more examples, and `IMQ_TRAIN_SEED` others: an empty one is drawn and printed. `make campaign`
sets both.
"""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.acceptance.train_machine import TrainMachine
from tests.support.databases import PostgresServer

_CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


EXAMPLES = int(os.environ.get("IMQ_TRAIN_EXAMPLES", "30"))
SEED = os.environ.get("IMQ_TRAIN_SEED")


def _settings(examples: int, steps: int, *, derandomize: bool = True) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=_CHECKS,
        derandomize=derandomize,
        database=None,
        # An example takes seconds, and its log says what happened: no smaller one is looked for.
        phases=[Phase.generate],
        print_blob=False,
    )


def test_trains_keep_the_promises_whatever_people_and_failures_do() -> None:
    """Few examples, always the same ones."""
    run_state_machine_as_test(TrainMachine, settings=_settings(2, 12))


@contextmanager
def _lent(server: PostgresServer) -> Iterator[str]:
    """A migrated database, which the next example may get."""
    name = server.lend()
    try:
        yield server.url(name)
    finally:
        server.take_back(name)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_queues_keep_the_promises_for_thousands_of_steps(kind: str, request: pytest.FixtureRequest) -> None:
    """P1 to P7 for long, with sequences, trains, both beside each other, and changes between them."""
    machine: type[TrainMachine] = type("SeededTrainMachine", (TrainMachine,), {})
    if kind == "postgres":
        machine.lend = partial(_lent, request.getfixturevalue("postgres_server"))
    if SEED is not None:
        chosen = int(SEED or random.randrange(10**6))
        print(f"IMQ_TRAIN_SEED={chosen}")
        machine = seed(chosen)(machine)
    run_state_machine_as_test(machine, settings=_settings(EXAMPLES, 40, derandomize=SEED is None))
