"""What labels give in a queue, and whom that delays by how much."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.model import Entry
from queue_engine.policy import Policy, PriorityLabel
from queue_engine.priority import Delay, Standing, delay, overtakes, standing_of
from tests.queue_engine.examples import CHECKING, MINUTE, NOW, PENDING
from tests.queue_engine.store import examples as stored

POLICY = Policy(
    priorities=(
        PriorityLabel("urgent", 3),
        PriorityLabel("Later", -3),
        PriorityLabel("hotfix", 1, first=True, interrupts=True),
        PriorityLabel("mends", 0, fixes_base=True),
    ),
    freeze_exempt_labels=frozenset({"allowed"}),
)


@pytest.mark.parametrize(
    ("labels", "standing"),
    [
        ([], Standing()),
        (["docs", "merge-queue"], Standing()),
        (["URGENT"], Standing(priority=3)),
        (["later"], Standing(priority=-3)),
        (["later", "urgent"], Standing(priority=3)),
        (["hotfix"], Standing(priority=1, first=True, interrupts=True)),
        (["hotfix", "urgent"], Standing(priority=3, first=True, interrupts=True)),
        (["mends"], Standing(fixes_base=True)),
        (["mends", "later", "Allowed"], Standing(fixes_base=True, freeze_exempt=True)),
    ],
)
def test_standing_is_the_highest_priority_and_every_permission_of_its_labels(
    labels: list[str], standing: Standing
) -> None:
    """A label that lowers counts alone, and is outweighed by any that raises; letters are big or small."""
    assert standing_of(labels, POLICY) == standing


def line(*entries: tuple[int, dict[str, Any]]) -> list[Entry]:
    """A queue in order; the number of each is when it came."""
    return [
        replace(stored.entry(number), position=position, **changes)
        for position, (number, changes) in enumerate(entries)
    ]


def test_overtakes_names_those_who_came_before_and_stand_behind() -> None:
    """Who came later was not overtaken, and who stands before was not either."""
    entries = line((1, {}), (4, {}), (2, {}), (3, {}), (5, {}))
    assert [overtakes(entries, entry) for entry in entries] == [(), (2, 3), (), (), ()]


def test_delay_of_those_overtaken_is_one_turn_as_long_as_turns_took_lately() -> None:
    """About: the median, so that one night's outage does not frighten anybody."""
    entries = line((1, {}), (4, {}), (2, {}), (3, {}))
    turns = [5 * MINUTE, 7 * MINUTE, timedelta(hours=9)]
    assert delay(entries, entries[1], turns, NOW) == Delay((2, 3), 7 * MINUTE, None, None)
    assert delay(entries, entries[1], [], NOW) == Delay((2, 3), None, None, None)


@pytest.mark.parametrize(
    ("front", "interrupted"),
    [
        ({"status": CHECKING, "started_at": NOW - 4 * MINUTE}, True),
        ({"status": CHECKING, "started_at": NOW, "first": True}, False),
        ({"status": PENDING}, False),
    ],
)
def test_delay_by_an_interruption_counts_the_turn_that_is_lost(front: dict[str, Any], interrupted: bool) -> None:
    """The one that is being checked is told apart: it begins anew after the hotfix."""
    entries = line((1, front), (3, {"first": True, "interrupts": True}), (2, {}))
    lost = Delay((1, 2), MINUTE, 1, 4 * MINUTE)
    assert delay(entries, entries[1], [MINUTE], NOW) == (lost if interrupted else Delay((2,), MINUTE, None, None))
