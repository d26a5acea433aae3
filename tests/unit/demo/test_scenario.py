"""The scenario: the same for the same seed, and complete for every seed."""

from datetime import timedelta

import pytest

from imq_demo.changes import CHANGES
from imq_demo.scenario import StepKind, plan

SEEDS = range(20)


def test_scenario_of_the_same_seed_is_the_same() -> None:
    """People, order and pauses depend on nothing but the seed."""
    assert plan(7) == plan(7)
    assert plan(7) != plan(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_scenario_of_any_seed_opens_and_labels_each_of_ten(seed: int) -> None:
    """Ten pull requests, each opened and labeled once; one closed, one pushed to and labeled again, one fixed."""
    scenario = plan(seed)
    kinds = [(step.kind, step.key) for step in scenario.steps]
    assert len(scenario.changes) == 10
    for change in CHANGES:
        assert kinds.index((StepKind.OPEN, change.key)) < kinds.index((StepKind.LABEL, change.key))
    assert [kind for kind, _ in kinds if kind not in (StepKind.OPEN, StepKind.LABEL)].count(StepKind.CLOSE) == 1
    pushed = [kind for kind, key in kinds if key == "cups"]
    assert pushed == [StepKind.OPEN, StepKind.LABEL, StepKind.PUSH, StepKind.LABEL_AGAIN]
    fixed = [kind for kind, key in kinds if key == "constant"]
    assert fixed == [StepKind.OPEN, StepKind.LABEL, StepKind.FIX]


@pytest.mark.parametrize("seed", SEEDS)
def test_scenario_of_any_seed_queues_what_changes_while_queued_late(seed: int) -> None:
    """What is closed or pushed to while queued stands behind others, so that it is still queued by then."""
    labeled = [step.key for step in plan(seed).steps if step.kind is StepKind.LABEL]
    assert not {"biscuits", "cups"} & set(labeled[:4])


@pytest.mark.parametrize("seed", SEEDS)
def test_scenario_of_any_seed_is_short(seed: int) -> None:
    """People are done within seconds, so that the demo is about the queue."""
    assert max(step.after for step in plan(seed).steps) < timedelta(seconds=8)
