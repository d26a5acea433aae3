"""The scenario: the same for the same seed, and complete for every seed."""

from datetime import timedelta

from imq_demo.changes import CHANGES
from imq_demo.scenario import StepKind, plan

SEEDS = range(20)


def test_scenario_of_the_same_seed_is_the_same() -> None:
    """People, order and pauses depend on nothing but the seed."""
    assert plan(7) == plan(7)
    assert plan(7) != plan(8)


def test_scenario_of_any_seed_opens_and_labels_each_of_ten() -> None:
    """Ten pull requests, each opened and labeled once; one closed, one pushed to and labeled again, one fixed."""
    for seed in SEEDS:
        scenario = plan(seed)
        kinds = [(step.kind, step.key) for step in scenario.steps]
        assert len(scenario.changes) == 10, seed
        for change in CHANGES:
            assert kinds.index((StepKind.OPEN, change.key)) < kinds.index((StepKind.LABEL, change.key)), seed
        assert [kind for kind, _ in kinds if kind not in (StepKind.OPEN, StepKind.LABEL)].count(StepKind.CLOSE) == 1, (
            seed
        )
        pushed = [kind for kind, key in kinds if key == "cups"]
        assert pushed == [StepKind.OPEN, StepKind.LABEL, StepKind.PUSH, StepKind.LABEL_AGAIN], seed
        fixed = [kind for kind, key in kinds if key == "constant"]
        assert fixed == [StepKind.OPEN, StepKind.LABEL, StepKind.FIX], seed


def test_scenario_of_any_seed_queues_what_changes_while_queued_late() -> None:
    """What is closed or pushed to while queued stands behind others, so that it is still queued by then."""
    for seed in SEEDS:
        labeled = [step.key for step in plan(seed).steps if step.kind is StepKind.LABEL]
        assert not {"biscuits", "cups"} & set(labeled[:4]), seed


def test_scenario_of_any_seed_is_short() -> None:
    """People are done within seconds, so that the demo is about the queue."""
    for seed in SEEDS:
        assert max(step.after for step in plan(seed).steps) < timedelta(seconds=8), seed
