"""The story: the same for the same seed, and complete for every seed."""

from datetime import timedelta

import pytest

from bot.demo.changes import CHANGES
from bot.demo.story import Deed, tell

SEEDS = range(20)


def test_story_same_seed_is_the_same() -> None:
    """People, order and pauses depend on nothing but the seed."""
    assert tell(7) == tell(7)
    assert tell(7) != tell(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_story_any_seed_opens_and_labels_each_of_ten(seed: int) -> None:
    """Ten pull requests, each opened and labelled once; one closed, one pushed to and labelled again."""
    story = tell(seed)
    deeds = [(step.deed, step.key) for step in story.steps]
    assert len(story.changes) == 10
    for change in CHANGES:
        assert deeds.index((Deed.OPEN, change.key)) < deeds.index((Deed.LABEL, change.key))
    assert [deed for deed, _ in deeds if deed not in (Deed.OPEN, Deed.LABEL)].count(Deed.CLOSE) == 1
    pushed = [deed for deed, key in deeds if key == "cups"]
    assert pushed == [Deed.OPEN, Deed.LABEL, Deed.PUSH, Deed.LABEL_AGAIN]


@pytest.mark.parametrize("seed", SEEDS)
def test_story_any_seed_keeps_what_changes_while_queued_late(seed: int) -> None:
    """What is closed or pushed to while queued stands behind others, so that it is still queued by then."""
    labelled = [step.key for step in tell(seed).steps if step.deed is Deed.LABEL]
    assert not {"biscuits", "cups"} & set(labelled[:4])


@pytest.mark.parametrize("seed", SEEDS)
def test_story_any_seed_is_short(seed: int) -> None:
    """People are done within seconds, so that the demo is about the queue."""
    assert max(step.after for step in tell(seed).steps) < timedelta(seconds=8)
